"""Reference of all options: the typed schema of a run, with the meaning, bounds and default of each option.

Unknown keys are errors. Where the variants of a section have different options, ``type:`` selects the variant (for a
corpus, a key that only this kind has), and an option of another variant is an error too. The text below an option
describes it; ``null`` is the default of every option that is written ``... | None = None``.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator

Size = Annotated[int, Field(ge=1)]
Width = Annotated[int, Field(ge=1, le=1 << 20)]
Layers = Annotated[int, Field(ge=1, le=64)]
Cores = Annotated[int, Field(ge=1, le=1024)]
Count = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("contains the character NUL, which is not allowed in a name")
    return text


def _in_fp32(number: float) -> float:
    if number > LARGEST_NUMBER:
        raise ValueError(f"{number:g} is more than {LARGEST_NUMBER:g}, beyond which fp32 would overflow")
    return number


LARGEST_NUMBER = 1e30
Positive = Annotated[float, Field(gt=0), AfterValidator(_in_fp32)]
NotNegative = Annotated[float, Field(ge=0), AfterValidator(_in_fp32)]
Text = Annotated[str, Field(min_length=1), AfterValidator(_without_nul)]
LARGEST_BEAM, LARGEST_BATCH = 1000, 1 << 24
LARGEST_VOCABULARY = 250_000
"""Pieces, as many as the largest multilingual models have; a run from a stranger is checked within a second."""
Beam = Annotated[int, Field(ge=1, le=LARGEST_BEAM)]
Pieces = Annotated[int, Field(ge=1, le=LARGEST_BATCH)]

LARGEST_LENGTH_PENALTY = 10.0
LARGEST_LENGTH_FACTOR = 100.0
"""Larger values would overflow in search."""


class Section(BaseModel):
    """Section of the configuration, immutable."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def _usual_type(usual: str, *options: str) -> Any:
    """A validator that adds the default type to a section without one."""
    return field_validator(*options, mode="before")(
        lambda value: {"type": usual, **value} if isinstance(value, dict) else value
    )


# --- data -------------------------------------------------------------------------------------------------------------


class Corpus(Section):
    """Options of every kind of corpus."""

    limit: Size | None = None
    """Read only the first ``limit`` pairs; null reads all."""


class FileCorpus(Corpus):
    """Two text files, aligned line by line, one sentence per line; files named .gz or .xz are decompressed."""

    source: Text
    """File with the source sentences."""
    target: Text
    """File with their translations."""


class TsvCorpus(Corpus):
    """One file with tab-separated columns, one pair per line (also .gz, .xz)."""

    tsv: Text
    """The file."""
    source_column: Count = 0
    """Index of the column with the source sentences, from 0."""
    target_column: Count = 1
    """Index of the column with the translations, from 0."""


class JsonlCorpus(Corpus):
    """One file with a JSON object per line (also .gz, .xz)."""

    jsonl: Text
    """The file."""
    source_key: Text | None = None
    """Key of the source sentence, dotted for nested objects (``translation.en``); null: ``data.source_language``."""
    target_key: Text | None = None
    """Key of the translation; null: ``data.target_language``."""


class HubCorpus(Corpus):
    """A dataset of the Hugging Face hub that needs no loading script."""

    hub: Text
    """Its name, OWNER/NAME."""
    split: Text
    """Its split, such as ``train``."""
    revision: Text | None = None
    """Commit or tag of the dataset; null: the latest of its main branch."""
    subset: Text | None = None
    """Its configuration (``de-en`` of ``wmt/wmt14``); null: the only one."""
    source_key: Text | None = None
    """Key of the source sentence in a row, dotted (``translation.de``); null: ``data.source_language``."""
    target_key: Text | None = None
    """Key of the translation; null: ``data.target_language``."""


CORPUS_KINDS = {"source": FileCorpus, "tsv": TsvCorpus, "jsonl": JsonlCorpus, "hub": HubCorpus}


def _corpus_kind(value: Any) -> str:
    if isinstance(value, dict):
        return next((key for key in CORPUS_KINDS if key in value), "source")
    return next((key for key, kind in CORPUS_KINDS.items() if isinstance(value, kind)), "source")


AnyCorpus = Annotated[
    Annotated[FileCorpus, Tag("source")]
    | Annotated[TsvCorpus, Tag("tsv")]
    | Annotated[JsonlCorpus, Tag("jsonl")]
    | Annotated[HubCorpus, Tag("hub")],
    Discriminator(_corpus_kind),
]


class Filter(Section):
    """Limits beyond which a training pair is dropped. Validation and test pairs are never dropped for their length."""

    max_words: Size | None = None
    """Words of the longer side, split at whitespace; null: no limit."""
    max_pieces: Size = 200
    """Pieces of the longer side."""
    max_ratio: Annotated[float, Field(gt=1)] | None = None
    """Words of the longer side divided by words of the shorter; null: no limit."""


class Data(Section):
    """The corpora. Relative paths start at the working directory."""

    source_language: Text
    """Code of the source language, such as ``en``."""
    target_language: Text
    """Code of the target language; it decides how BLEU splits words (``evaluation.bleu_tokenizer``)."""
    train: AnyCorpus
    """Training set."""
    validation: AnyCorpus
    """Validation set."""
    test: AnyCorpus | None = None
    """Test set, translated and scored after training; null: none."""
    filter: Filter = Filter()
    cache: Text | None = None
    """Directory for tokenizers and encoded corpora, shared by runs; null: $NMT_CACHE, or ~/.cache/nmt."""
    processes: Cores | None = None
    """Processes that encode the corpora; null: one per core from 100,000 pairs on, else one."""


# --- tokenizer --------------------------------------------------------------------------------------------------------


class LearnedTokenizer(Section):
    """Options of every tokenizer that is learned on the training set."""

    vocabulary: Annotated[int, Field(ge=5, le=LARGEST_VOCABULARY)] | None = None
    """Pieces of each side's model, or of the shared one, including four special pieces; null: a number that suits the
    amount of training text, at most 8,000 (word and character: at most 30,000)."""
    shared: bool = False
    """Learn one model for both sides."""
    normalization: Literal["nmt_nfkc", "nfkc", "identity"] = "nmt_nfkc"
    """SentencePiece's Unicode normalization of the text; identity: none."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0
    """Share of the characters in the training set that get a piece; the rest are unknown."""


class BpeTokenizer(LearnedTokenizer):
    """Byte-pair encoding (Sennrich et al. 2016)."""

    type: Literal["bpe"]


class UnigramTokenizer(LearnedTokenizer):
    """Unigram language model (Kudo 2018)."""

    type: Literal["unigram"]


class WordTokenizer(LearnedTokenizer):
    """Words, split at whitespace."""

    type: Literal["word"]


class CharacterTokenizer(LearnedTokenizer):
    """Single characters."""

    type: Literal["character"]


class GivenTokenizer(Section):
    """SentencePiece models that exist already."""

    type: Literal["given"]
    source: Text
    """The .model file of the source side."""
    target: Text
    """The .model file of the target side; the same file for a shared vocabulary."""

    @property
    def shared(self) -> bool:
        """Whether both sides have one model."""
        return self.source == self.target


AnyTokenizer = Annotated[
    BpeTokenizer | UnigramTokenizer | WordTokenizer | CharacterTokenizer | GivenTokenizer, Discriminator("type")
]


# --- model ------------------------------------------------------------------------------------------------------------


class Embeddings(Section):
    """Embeddings of source and target pieces."""

    size: Width = 256
    """Units of an embedding."""
    tie: Literal["none", "target", "all"] = "none"
    """Matrices that are one: none; target: output layer and target embedding; all: the source embedding too, which
    needs a shared vocabulary."""


class CustomPart(Section):
    """A part that a program of yours has registered in ``nmt.model.build``."""

    type: Literal["custom"]
    name: Text
    """The name it is registered by."""
    hidden: Width = 256
    """Units: of an encoder's or decoder's state, to be read by the function that builds it."""
    options: dict[str, Any] = {}
    """For the function that builds it."""


class GruEncoder(Section):
    """Bidirectional GRU; an annotation has ``2 * hidden`` units."""

    type: Literal["gru"] = "gru"
    hidden: Width = 256
    """Units of each direction."""
    layers: Layers = 1
    """Stacked bidirectional layers."""

    @property
    def width(self) -> int:
        """Width of an annotation."""
        return 2 * self.hidden


AnyEncoder = Annotated[GruEncoder | CustomPart, Discriminator("type")]


class GruDecoder(Section):
    """GRU conditioned on the context."""

    type: Literal["gru"] = "gru"
    hidden: Width = 256
    """Units of the state."""
    readout: Width | None = None
    """Units that the output layer reads (maxout, or Luong's attentional vector); null: ``model.embeddings.size``."""


class CustomDecoder(CustomPart):
    """A decoder that a program of yours has registered in ``nmt.model.build``."""

    readout: Width | None = None
    """Width of what the output layer reads; null: the embedding size."""


AnyDecoder = Annotated[GruDecoder | CustomDecoder, Discriminator("type")]


class BahdanauAttention(Section):
    """Additive attention, before the update of the state (Bahdanau et al. 2015)."""

    type: Literal["bahdanau"]
    hidden: Width = 256
    """Units of the alignment model."""


class LuongAttention(Section):
    """Global attention, after the update of the state (Luong et al. 2015)."""

    type: Literal["luong"]
    score: Literal["dot", "general", "concat"] = "general"
    """Score function; dot needs ``decoder.hidden`` = 2 * ``encoder.hidden``."""
    hidden: Width | None = None
    """Units of the concat score; null: ``decoder.hidden``. The other scores have none."""
    input_feeding: bool = True
    """Feed the attentional vector into the next update."""


class NoAttention(Section):
    """No attention, the baseline: the encoder's summary is the context of every step (Cho et al. 2014)."""

    type: Literal["none"]


class CustomAttention(CustomPart):
    """An attention that a program of yours has registered in ``nmt.model.build``."""

    after_update: bool = False
    """Attend after the update, as Luong's decoder does; before it, as Bahdanau's."""
    input_feeding: bool = True
    """With ``after_update``, feed the attentional vector to the next step."""


AnyAttention = Annotated[BahdanauAttention | LuongAttention | NoAttention | CustomAttention, Discriminator("type")]


class Dropout(Section):
    """Probability that a unit is dropped during training, at each of three places."""

    embedding: Fraction = 0.2
    """Embeddings of both sides."""
    annotation: Fraction = 0.2
    """Outputs of each encoder layer."""
    readout: Fraction = 0.2
    """Input of the output layer."""


class UniformInitialization(Section):
    """Every weight from U(-range, range), as Luong et al. 2015."""

    type: Literal["uniform"]
    range: Annotated[float, Field(gt=0, le=100)] = 0.1
    """Largest absolute value of a weight."""


class XavierInitialization(Section):
    """Glorot-uniform matrices, orthogonal recurrent matrices, zero biases, embeddings N(0, 1 / width)."""

    type: Literal["xavier"] = "xavier"


class PaperInitialization(Section):
    """Bahdanau et al. 2015, appendix B.1: orthogonal recurrent matrices, W_a and U_a N(0, 0.001²), v_a and biases
    zero, the rest N(0, 0.01²)."""

    type: Literal["bahdanau"]


AnyInitialization = Annotated[XavierInitialization | UniformInitialization | PaperInitialization, Discriminator("type")]


class Model(Section):
    """Network."""

    attention: AnyAttention
    embeddings: Embeddings = Embeddings()
    encoder: AnyEncoder = GruEncoder()
    decoder: AnyDecoder = GruDecoder()
    dropout: Dropout = Dropout()
    initialization: AnyInitialization = XavierInitialization()

    _usual_part = _usual_type("gru", "encoder", "decoder")
    _usual_initialization = _usual_type("xavier", "initialization")


# --- training ---------------------------------------------------------------------------------------------------------


class AdamConstants(Section):
    """Options of Adam and AdamW."""

    learning_rate: Positive = 1e-3
    """Learning rate after warm-up."""
    betas: Annotated[tuple[Fraction, Fraction], Field(strict=False)] = (0.9, 0.999)
    """Decay rates of the first and the second moment."""
    epsilon: Positive = 1e-8
    """Added to the denominator."""


class Adam(AdamConstants):
    """Adam (Kingma & Ba 2015)."""

    type: Literal["adam"] = "adam"


class AdamW(AdamConstants):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    type: Literal["adamw"]
    weight_decay: NotNegative = 0.01
    """Share by which an update shrinks the weights, times the learning rate."""


class Adadelta(Section):
    """Adadelta (Zeiler 2012) with the constants of Bahdanau et al. 2015."""

    type: Literal["adadelta"]
    learning_rate: Positive = 1.0
    """Factor of the update."""
    rho: Fraction = 0.95
    """Decay rate of both averages."""
    epsilon: Positive = 1e-6
    """Added below both roots."""


class Sgd(Section):
    """Stochastic gradient descent."""

    type: Literal["sgd"]
    learning_rate: Positive = 1.0
    """Learning rate after warm-up."""
    momentum: Fraction = 0.0
    """Momentum; 0: none."""


AnyOptimizer = Annotated[Adam | AdamW | Adadelta | Sgd, Discriminator("type")]


class ConstantSchedule(Section):
    """Constant learning rate after warm-up."""

    type: Literal["constant"] = "constant"
    warmup: Count = 0
    """Updates during which the rate grows linearly from zero to the optimizer's ``learning_rate``; 0: none."""


class InverseSquareRootSchedule(Section):
    """Learning rate proportional to 1 / sqrt(update) after warm-up."""

    type: Literal["inverse_square_root"]
    warmup: Size = 1000
    """Updates during which the rate grows linearly to the optimizer's ``learning_rate``."""


class PlateauSchedule(Section):
    """Learning rate that is reduced when validation stops improving."""

    type: Literal["plateau"]
    warmup: Count = 0
    """Updates during which the rate grows linearly to the optimizer's ``learning_rate``; 0: none."""
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Factor of a reduction."""
    patience: Count = 1
    """Validations in a row without improvement that are tolerated; the next one reduces the rate."""
    floor: Annotated[float, Field(ge=0, le=1)] = 1e-5
    """Smallest rate, relative to the optimizer's ``learning_rate``."""


AnySchedule = Annotated[ConstantSchedule | InverseSquareRootSchedule | PlateauSchedule, Discriminator("type")]


class Validation(Section):
    """Validation during training. Each one saves a checkpoint."""

    every: Size = 500
    """Updates between validations; the last update is always followed by one."""
    first: Size | None = 100
    """Update after which an additional early validation saves a first checkpoint; null: none."""
    metric: Literal["bleu", "loss"] = "bleu"
    """Metric that selects the best checkpoint, stops early and drives the plateau schedule."""
    patience: Size | None = None
    """Validations in a row without improvement after which training stops; null: never."""
    sentences: Size | None = None
    """Number of validation sentences to translate for BLEU, from the first on; null: all."""
    beam_size: Beam = 1
    """Beam size of these translations; 1: greedy search."""
    samples: Count = 4
    """Translations written to TensorBoard at each validation."""


class Training(Section):
    """Maximum likelihood with teacher forcing."""

    updates: Size
    """Optimizer updates in total."""
    batch_tokens: Pieces = 2048
    """Largest batch, in tokens of its longer side including padding: sentences times the longest. A batch of more than
    16 sentences has a multiple of 16, as matrix products of a few rows fewer would save nothing."""
    accumulation: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Batches per update; their summed gradients are divided once, by the number of real target tokens."""
    optimizer: AnyOptimizer = Adam()
    schedule: AnySchedule = ConstantSchedule()
    label_smoothing: Fraction = 0.0
    """Share of the target distribution that is spread evenly over the vocabulary."""
    clip: Positive | None = 1.0
    """Largest norm of the gradient of all parameters; null: no clipping."""
    validation: Validation = Validation()
    average: Size = 1
    """Number of best checkpoints whose averaged weights become ``best``; 1: no averaging."""
    save_every: Size | None = None
    """Updates between saves of the checkpoint ``last``; null: at each validation."""
    log_every: Size = 50
    """Updates between progress lines."""

    _usual_optimizer = _usual_type("adam", "optimizer")
    _usual_schedule = _usual_type("constant", "schedule")


# --- decoding, evaluation, the run ------------------------------------------------------------------------------------


Kernels = Literal["auto", "plain"]


class Decoding(Section):
    """Translation, unless the command line says otherwise."""

    beam_size: Beam = 5
    """Hypotheses that are kept at each step; 1: greedy search."""
    length_penalty: Annotated[float, Field(ge=0, le=LARGEST_LENGTH_PENALTY)] = 1.0
    """Exponent a of ((5 + length) / 6)^a (Wu et al. 2016), the divisor of a log-probability; 0: none."""
    batch_tokens: Pieces = 16384
    """Largest batch, in source tokens including padding, times the beam size."""
    max_source: Pieces = 1000
    """Pieces of a source line that are translated; the rest is cut off with a warning. The validation loss reads as
    many of each side."""
    max_length_factor: Annotated[float, Field(ge=0, le=LARGEST_LENGTH_FACTOR)] = 2.0
    """Largest length of a translation in pieces, relative to the source; ten more are always allowed."""


class GoldAlignment(Section):
    """Sentence pairs with word alignments made by people, in three files aligned line by line."""

    source: Text
    """File with the source sentences."""
    target: Text
    """File with their translations."""
    links: Text
    """File with the links of each pair: ``i-j`` for a sure one of source word i and target word j, ``ipj`` for a
    possible one."""
    first: Annotated[int, Field(ge=0, le=1)] = 0
    """Index of the first word in ``links``."""
    limit: Size | None = None
    """Read only the first ``limit`` pairs; null reads all."""


BleuTokenizer = Literal["13a", "zh", "ja-mecab", "ko-mecab", "char", "intl", "none"]
"""sacreBLEU's tokenizers that need no download."""


class Evaluation(Section):
    """Scores."""

    bleu_tokenizer: BleuTokenizer | None = None
    """Tokenizer of BLEU, in validation too; null: by the target language: zh, ja-mecab and ko-mecab (char if MeCab is
    not installed), char for th, lo, km, my, bo and dz, 13a for all others."""
    bins: Annotated[tuple[Size, ...], Field(strict=False, min_length=1)] = (10, 20, 30, 40, 50, 60, 70)
    """Largest source length of each bin of scores by length, in words (in characters for a language without spaces
    between words); longer sentences form one more bin."""
    bootstrap: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """Bootstrap resamples for each 95% interval."""
    gold: GoldAlignment | None = None
    """Pairs on which each validation measures the alignment error rate of the attention; null: none."""

    @field_validator("bins")
    @classmethod
    def _bins_ascend(cls, bins: tuple[int, ...]) -> tuple[int, ...]:
        if list(bins) != sorted(set(bins)):
            raise ValueError(f"found {list(bins)}; must be in ascending order without repetitions")
        return bins


class Config(Section):
    """Configuration of a run.

    ``load_config`` also refuses options that contradict each other; a ``Config`` made in Python is not checked so.
    """

    output: Text | None = None
    """Run directory; null: named by ``--output``, which also overrides it."""
    seed: Count = 1
    """Seed of all random numbers."""
    device: Text = "auto"
    """auto (a GPU if there is one), cpu, cuda, cuda:1, ..."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 autocast where the hardware multiplies bf16 natively, else fp32."""
    kernels: Kernels = "auto"
    """auto: fused operations where there are any; plain: the readable operations, with the same results but slower."""
    threads: Cores | None = None
    """CPU threads of PyTorch; null: PyTorch's own choice."""
    data: Data
    tokenizer: AnyTokenizer
    model: Model
    training: Training
    decoding: Decoding = Decoding()
    evaluation: Evaluation = Evaluation()
