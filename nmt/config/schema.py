"""The typed schema of a run: every option, its meaning, its bounds and its one default.

A section whose variants have different options is a union picked by ``type:`` (or, for a corpus, by the key that only
that kind has), so an option that has no effect for the chosen variant is an unknown key, and unknown keys are errors.
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
        raise ValueError("holds the character NUL, which no name can have")
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
"""Pieces, of today's largest multilingual models; far more could not be looked at in a second before they are used."""
Beam = Annotated[int, Field(ge=1, le=LARGEST_BEAM)]
Pieces = Annotated[int, Field(ge=1, le=LARGEST_BATCH)]

LARGEST_LENGTH_PENALTY = 10.0
LARGEST_LENGTH_FACTOR = 100.0
"""Beyond them the arithmetic of search would overflow."""


class Section(BaseModel):
    """A part of the configuration: read once, then a value that never changes."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def _of_type(usual: str, value: Any) -> Any:
    """A section that does not say its type is of the usual one."""
    return {"type": usual, **value} if isinstance(value, dict) else value


# --- data -------------------------------------------------------------------------------------------------------------


class Corpus(Section):
    """What every kind of corpus has."""

    limit: Size | None = None
    """Read only the first so many pairs; null reads all."""


class FileCorpus(Corpus):
    """Two aligned text files, one sentence a line; names ending in .gz or .xz are decompressed."""

    source: Text
    target: Text


class TsvCorpus(Corpus):
    """One file with tab-separated columns (also .gz, .xz)."""

    tsv: Text
    source_column: Count = 0
    target_column: Count = 1


class JsonlCorpus(Corpus):
    """One JSON object a line (also .gz, .xz); dotted keys reach inside: ``translation.en``."""

    jsonl: Text
    source_key: Text | None = None
    """null: the source language."""
    target_key: Text | None = None
    """null: the target language."""


class HubCorpus(Corpus):
    """A script-free dataset of the Hugging Face hub."""

    hub: Text
    split: Text
    revision: Text | None = None
    """A commit of the dataset repository; null follows its main branch."""
    subset: Text | None = None
    """The dataset's configuration name (``de-en`` for ``wmt/wmt14``)."""
    source_key: Text | None = None
    """Dotted key of the text in a row (``translation.de``); null: the source language."""
    target_key: Text | None = None
    """Likewise; null: the target language."""


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
    """Which training pairs are kept. Validation and test pairs are never dropped for their length."""

    max_words: Size | None = None
    """Longest side in whitespace words."""
    max_pieces: Size = 200
    """Longest side in pieces of the tokenizer."""
    max_ratio: Annotated[float, Field(gt=1)] | None = None
    """Most words of one side for each word of the other; null does not look."""


class Data(Section):
    """Where the text comes from. Relative paths start at the working directory."""

    source_language: Text
    target_language: Text
    train: AnyCorpus
    validation: AnyCorpus
    test: AnyCorpus | None = None
    filter: Filter = Filter()
    cache: Text | None = None
    """Folder of the encoded corpora; null: $NMT_CACHE, or ~/.cache/nmt."""
    processes: Cores | None = None
    """Processes that encode; null: one a core for large corpora."""


# --- tokenizer --------------------------------------------------------------------------------------------------------


class LearnedTokenizer(Section):
    """What every tokenizer that is learned on the training set has."""

    vocabulary: Annotated[int, Field(ge=5, le=LARGEST_VOCABULARY)] | None = None
    """Pieces of each model, the four special ones included (with ``shared``, of the one model); null: as many as suit
    the amount of training text, at most 8,000 (words and characters: 30,000)."""
    shared: bool = False
    """One model for both sides."""
    normalization: Literal["nmt_nfkc", "nfkc", "identity"] = "nmt_nfkc"
    """SentencePiece's Unicode normalization of the text."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0
    """Share of the characters of the training set that get a piece."""


class BpeTokenizer(LearnedTokenizer):
    """Byte-pair encoding (Sennrich et al. 2016)."""

    type: Literal["bpe"]


class UnigramTokenizer(LearnedTokenizer):
    """Unigram language model (Kudo 2018)."""

    type: Literal["unigram"]


class WordTokenizer(LearnedTokenizer):
    """Whitespace words."""

    type: Literal["word"]


class CharacterTokenizer(LearnedTokenizer):
    """Single characters."""

    type: Literal["character"]


class GivenTokenizer(Section):
    """SentencePiece models that exist already."""

    type: Literal["given"]
    source: Text
    """A SentencePiece .model file."""
    target: Text
    """Likewise; the same file as ``source`` for a shared vocabulary."""

    @property
    def shared(self) -> bool:
        """Whether both sides have one model."""
        return self.source == self.target


AnyTokenizer = Annotated[
    BpeTokenizer | UnigramTokenizer | WordTokenizer | CharacterTokenizer | GivenTokenizer, Discriminator("type")
]


# --- model ------------------------------------------------------------------------------------------------------------


class Embeddings(Section):
    """Word embeddings E of both sides."""

    size: Width = 256
    tie: Literal["none", "target", "all"] = "none"
    """target: the output layer is the target embedding; all: the source embedding too (shared vocabulary only)."""


class CustomPart(Section):
    """A part that a program of yours has registered in ``nmt.model.build``."""

    type: Literal["custom"]
    name: Text
    """The name it is registered by."""
    hidden: Width = 256
    options: dict[str, Any] = {}
    """For the function that builds it."""


class GruEncoder(Section):
    """Bidirectional GRU; annotations are twice ``hidden`` wide."""

    type: Literal["gru"] = "gru"
    hidden: Width = 256
    """Units of each direction."""
    layers: Layers = 1

    @property
    def width(self) -> int:
        """Width of an annotation."""
        return 2 * self.hidden


AnyEncoder = Annotated[GruEncoder | CustomPart, Discriminator("type")]


class GruDecoder(Section):
    """GRU conditioned on the context."""

    type: Literal["gru"] = "gru"
    hidden: Width = 256
    readout: Width | None = None
    """Width of what the output layer reads (maxout, or Luong's attentional vector); null: the embedding size."""


class CustomDecoder(CustomPart):
    """A decoder that a program of yours has registered in ``nmt.model.build``."""

    readout: Width | None = None
    """Width of what the output layer reads; null: the embedding size."""


AnyDecoder = Annotated[GruDecoder | CustomDecoder, Discriminator("type")]


class BahdanauAttention(Section):
    """Additive, before the update (Bahdanau et al. 2015)."""

    type: Literal["bahdanau"]
    hidden: Width = 256
    """Units of the alignment model."""


class LuongAttention(Section):
    """Global, after the update (Luong et al. 2015)."""

    type: Literal["luong"]
    score: Literal["dot", "general", "concat"] = "general"
    hidden: Width | None = None
    """Units of the ``concat`` score, which alone has any; null there: the decoder's ``hidden``."""
    input_feeding: bool = True


class NoAttention(Section):
    """The baseline: the encoder's summary is the context of every step (Cho et al. 2014)."""

    type: Literal["none"]


AnyAttention = Annotated[BahdanauAttention | LuongAttention | NoAttention | CustomPart, Discriminator("type")]
Part = GruEncoder | GruDecoder | BahdanauAttention | LuongAttention | NoAttention | CustomPart


class Dropout(Section):
    """Probability that a unit is dropped in training, at each of three places."""

    embedding: Fraction = 0.2
    annotation: Fraction = 0.2
    readout: Fraction = 0.2


class UniformInitialization(Section):
    """Every weight from U(-range, range) (Luong et al. 2015: 0.1)."""

    type: Literal["uniform"]
    range: Annotated[float, Field(gt=0, le=100)] = 0.1


class XavierInitialization(Section):
    """Glorot-uniform matrices, orthogonal recurrent matrices, zero biases, embeddings N(0, 1 / width)."""

    type: Literal["xavier"] = "xavier"


class PaperInitialization(Section):
    """Bahdanau et al. 2015, appendix B.1: orthogonal recurrent matrices, W_a and U_a N(0, 0.001²), v_a and biases
    zero, the rest N(0, 0.01²)."""

    type: Literal["bahdanau"]


AnyInitialization = Annotated[XavierInitialization | UniformInitialization | PaperInitialization, Discriminator("type")]


class Model(Section):
    """The network."""

    attention: AnyAttention
    embeddings: Embeddings = Embeddings()
    encoder: AnyEncoder = GruEncoder()
    decoder: AnyDecoder = GruDecoder()
    dropout: Dropout = Dropout()
    initialization: AnyInitialization = XavierInitialization()

    @field_validator("encoder", "decoder", mode="before")
    @classmethod
    def _usual_part(cls, value: Any) -> Any:
        return _of_type("gru", value)

    @field_validator("initialization", mode="before")
    @classmethod
    def _usual_initialization(cls, value: Any) -> Any:
        return _of_type(XavierInitialization().type, value)


# --- training ---------------------------------------------------------------------------------------------------------


class AdamConstants(Section):
    """What Adam and AdamW share."""

    learning_rate: Positive = 1e-3
    betas: Annotated[tuple[Fraction, Fraction], Field(strict=False)] = (0.9, 0.999)
    epsilon: Positive = 1e-8


class Adam(AdamConstants):
    """Adam (Kingma & Ba 2015)."""

    type: Literal["adam"] = "adam"


class AdamW(AdamConstants):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    type: Literal["adamw"]
    weight_decay: NotNegative = 0.01


class Adadelta(Section):
    """Adadelta (Zeiler 2012) with the constants of Bahdanau et al. 2015."""

    type: Literal["adadelta"]
    learning_rate: Positive = 1.0
    rho: Fraction = 0.95
    epsilon: Positive = 1e-6


class Sgd(Section):
    """Stochastic gradient descent."""

    type: Literal["sgd"]
    learning_rate: Positive = 1.0
    momentum: Fraction = 0.0


AnyOptimizer = Annotated[Adam | AdamW | Adadelta | Sgd, Discriminator("type")]


class ConstantSchedule(Section):
    """The optimizer's learning rate, after an optional linear warm-up."""

    type: Literal["constant"] = "constant"
    warmup: Count = 0
    """Updates over which the rate grows linearly from zero."""


class InverseSquareRootSchedule(Section):
    """Linear warm-up, then the rate falls with 1 / sqrt(update)."""

    type: Literal["inverse_square_root"]
    warmup: Size = 1000


class PlateauSchedule(Section):
    """The rate is multiplied by ``factor`` when validation has not improved more than ``patience`` times running."""

    type: Literal["plateau"]
    warmup: Count = 0
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    patience: Count = 1
    floor: Annotated[float, Field(ge=0, le=1)] = 1e-5
    """Smallest share of the optimizer's learning rate."""


AnySchedule = Annotated[ConstantSchedule | InverseSquareRootSchedule | PlateauSchedule, Discriminator("type")]


class Validation(Section):
    """How often and on what the model is looked at."""

    every: Size = 500
    """Updates between two validations; the last update is always followed by one."""
    first: Size | None = 100
    """An early validation after this update, so that there soon is a checkpoint that translates; null: none."""
    metric: Literal["bleu", "loss"] = "bleu"
    """What decides which checkpoint is best, when to stop, and when the plateau schedule acts."""
    patience: Size | None = None
    """Stop after so many validations without improvement; null never stops early."""
    sentences: Size | None = None
    """Translate only the first so many validation sentences for BLEU; null: all."""
    beam_size: Beam = 1
    samples: Count = 4
    """Translations written to TensorBoard at each validation."""


class Training(Section):
    """Teacher forcing by maximum likelihood."""

    updates: Size
    """Optimizer updates in all."""
    batch_tokens: Pieces = 2048
    """Most tokens of a batch on its longer side, padding included: rows times the longest row. Where more than 16 rows
    fit, their number is a multiple of 16, as products cost no less of a few rows less."""
    accumulation: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Batches of one update; their gradients are divided once, by all real target tokens."""
    optimizer: AnyOptimizer = Adam()
    schedule: AnySchedule = ConstantSchedule()
    label_smoothing: Fraction = 0.0
    clip: Positive | None = 1.0
    """Largest norm of the whole gradient; null does not clip."""
    validation: Validation = Validation()
    average: Size = 1
    """Keep the best so many checkpoints and use the mean of their weights as ``best``; 1 averages nothing."""
    save_every: Size | None = None
    """Updates between two saves of ``last``; null: at each validation."""
    log_every: Size = 50
    """Updates between two progress lines."""

    @field_validator("optimizer", mode="before")
    @classmethod
    def _usual_optimizer(cls, value: Any) -> Any:
        return _of_type(Adam().type, value)

    @field_validator("schedule", mode="before")
    @classmethod
    def _usual_schedule(cls, value: Any) -> Any:
        return _of_type(ConstantSchedule().type, value)


# --- decoding, evaluation, the run ------------------------------------------------------------------------------------


Kernels = Literal["auto", "plain"]


class Decoding(Section):
    """How lines are translated unless the command line says otherwise."""

    beam_size: Beam = 5
    """1 is greedy search."""
    length_penalty: Annotated[float, Field(ge=0, le=LARGEST_LENGTH_PENALTY)] = 1.0
    """Exponent a of ((5 + length) / 6)^a (Wu et al. 2016), by which a hypothesis' log-probability is divided."""
    batch_tokens: Pieces = 16384
    """Most source tokens of a batch, padding and beams included."""
    max_source: Pieces = 1000
    """Pieces of a source line that are read; what lies beyond is cut off with a warning. The validation loss reads no
    more of either side."""
    max_length_factor: Annotated[float, Field(ge=0, le=LARGEST_LENGTH_FACTOR)] = 2.0
    """A translation has at most so many pieces for each source piece, and ten more."""


class GoldAlignment(Section):
    """Pairs whose words people have linked, in three files that belong together line by line."""

    source: Text
    target: Text
    links: Text
    """``i-j`` for a sure link of source word i and target word j, ``ipj`` for a possible one."""
    first: Annotated[int, Field(ge=0, le=1)] = 0
    """The number of a first word."""
    limit: Size | None = None
    """Read only the first so many pairs; null reads all."""


BleuTokenizer = Literal["13a", "zh", "ja-mecab", "ko-mecab", "char", "intl", "none"]
"""sacreBLEU's tokenizers that need no download."""


class Evaluation(Section):
    """Scores by source length, and of attention as word alignment."""

    bleu_tokenizer: BleuTokenizer | None = None
    """null: by the target language: zh, ja-mecab and ko-mecab (char if MeCab is not installed), char for th, lo, km,
    my, bo and dz, 13a for all others. It also decides which checkpoint is best."""
    bins: Annotated[tuple[Size, ...], Field(strict=False, min_length=1)] = (10, 20, 30, 40, 50, 60, 70)
    """Largest source length of each bin, in words, or in characters if the language has no spaces between words; longer
    sentences form one more."""
    bootstrap: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """Resamples behind each 95% interval."""
    gold: GoldAlignment | None = None
    """At each validation the attention's alignment error rate on these pairs; a model without attention has none."""

    @field_validator("bins")
    @classmethod
    def _bins_ascend(cls, bins: tuple[int, ...]) -> tuple[int, ...]:
        if list(bins) != sorted(set(bins)):
            raise ValueError(f"must ascend: {list(bins)}")
        return bins


class Config(Section):
    """One run, whole.

    ``load_config`` also refuses options that contradict each other; a ``Config`` made by hand is not checked for that.
    """

    output: Text | None = None
    """The run directory; ``--output`` overrides it."""
    seed: Count = 1
    device: Text = "auto"
    """auto (a GPU if there is one), cpu, cuda, cuda:1, ..."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 autocast where the hardware multiplies it natively, else fp32."""
    kernels: Kernels = "auto"
    """auto: fused operations where there are some; plain: the readable path, equal but slower."""
    threads: Cores | None = None
    """CPU threads of PyTorch; null: as many as it chooses."""
    data: Data
    tokenizer: AnyTokenizer
    model: Model
    training: Training
    decoding: Decoding = Decoding()
    evaluation: Evaluation = Evaluation()
