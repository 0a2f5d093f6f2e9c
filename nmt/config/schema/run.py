"""The sections ``decoding`` and ``evaluation``, and the configuration of a run as a whole."""

from collections.abc import Collection, Iterator
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, field_validator

from nmt.config.schema.attention import NoAttention
from nmt.config.schema.base import Beam, Count, PathText, Pieces, Problem, Section, Size, Text
from nmt.config.schema.data import AnyTokenizer, Data, GivenTokenizer, LearnedTokenizer
from nmt.config.schema.model import Model
from nmt.config.schema.training import Training

Kernels = Literal["auto", "plain"]


class Decoding(Section):
    """Translation, unless the command line says otherwise."""

    model_config = ConfigDict(use_attribute_docstrings=True)  # for --help; slow, so not for all sections

    beam_size: Beam = 5
    """Hypotheses kept at each step; 1: greedy search."""
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 1.0
    """Exponent a of ((5 + length) / 6)^a (Wu et al. 2016), the divisor of a log-probability; 0: none."""
    batch_tokens: Pieces = 16384
    """Largest batch: source tokens with padding, times the beam size."""
    max_source: Pieces = 1000
    """Longest source line, in pieces; the rest is cut off with a warning."""
    max_length_factor: Annotated[float, Field(ge=0, le=100)] = 2.0
    """Longest translation: this many pieces for each source piece, and ten more."""
    min_length_factor: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Shortest translation: this many pieces for each source piece."""
    to: Text | None = None
    """Tag of a training corpus, such as <2de>, put before each line without one."""
    no_repeat_ngram: Annotated[int, Field(ge=0, le=100)] = 0
    """Pieces in a row that may not repeat in a translation (Paulus et al. 2018); 0: no limit."""

    def contradictions(self) -> Iterator[Problem]:
        """Find a least length beyond the greatest."""
        if self.min_length_factor > self.max_length_factor:
            most = f"decoding.max_length_factor ({self.max_length_factor:g})"
            text = f"{self.min_length_factor:g} is more than {most}; must be up to that"
            yield Problem("decoding.min_length_factor", text)

    def unknown_tag(self, tags: Collection[str]) -> Iterator[Problem]:
        """Find a tag that is not one of those of the training corpora."""
        if self.to not in (None, *tags):
            right = f"the tags are: {', '.join(tags)}" if tags else "leave it out, or give a corpus this tag"
            yield Problem("decoding.to", f"no training corpus has the tag '{self.to}'; {right}")


class Gold(Section):
    """Word alignments made by people."""

    links: PathText
    """File with the links of each pair, ``i-j`` sure, ``ipj`` possible."""
    first: Annotated[int, Field(ge=0, le=1)] = 0
    """Index of the first word in ``links``."""


class GoldAlignment(Gold):
    """Sentence pairs with word alignments made by people."""

    source: PathText
    """File with the source sentences."""
    target: PathText
    """File with their translations."""
    limit: Size | None = None
    """Read only the first ``limit`` pairs."""


BleuTokenizer = Literal["13a", "zh", "ja-mecab", "ko-mecab", "char", "intl", "none"]
"""sacreBLEU's tokenizers that need no download."""


class Evaluation(Section):
    """Scores."""

    bleu_tokenizer: BleuTokenizer | None = None
    """Tokenizer of BLEU; null: by the target language."""
    bins: Annotated[tuple[Size, ...], Field(min_length=1)] = (10, 20, 30, 40, 50, 60, 70)
    """Maximum source length of each bin, in words; longer sentences form one more bin."""
    bootstrap: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """Bootstrap resamples for each 95% interval."""
    gold: GoldAlignment | None = None
    """Pairs on which each validation measures the alignment error rate of the attention."""

    @field_validator("bins")
    @classmethod
    def _bins_ascend(cls, bins: tuple[int, ...]) -> tuple[int, ...]:
        if list(bins) != sorted(set(bins)):
            raise ValueError(f"found {list(bins)}; must be in ascending order without repetitions")
        return bins


class Config(Section):
    """Configuration of a run."""

    output: PathText | None = None
    """Run directory; ``--output`` overrides it."""
    seed: Count = 1
    """Seed of all random numbers."""
    device: Text = "auto"
    """auto (a GPU if there is one), cpu, cuda, cuda:1."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 if the GPU supports it, or if a trial on the CPU is faster; else fp32."""
    kernels: Kernels = "auto"
    """auto: fused operations; plain: the readable, slower ones."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """CPU threads; null: one for each permitted core."""
    data: Data
    tokenizer: AnyTokenizer
    model: Model
    training: Training
    decoding: Decoding = Decoding()
    evaluation: Evaluation = Evaluation()

    def contradictions(self) -> Iterator[Problem]:
        """Find every contradiction, under the key to change first."""
        yield from self.model.contradictions()
        yield from self.data.contradictions()
        yield from self.decoding.contradictions()
        yield from self.decoding.unknown_tag(self.data.tags)
        given = isinstance(self.tokenizer, GivenTokenizer)
        share = "the same file as tokenizer.source and tokenizer.target" if given else "tokenizer.shared: true"
        if self.model.embeddings.tie == "all" and not self.tokenizer.shared:
            yield Problem("model.embeddings.tie", f"'all' needs one vocabulary: {share}; or use tie 'target'")
        if self.data.glossary is not None and not self.tokenizer.shared:
            yield Problem("data.glossary", f"needs one vocabulary: {share}")
        if isinstance(self.tokenizer, LearnedTokenizer) and self.tokenizer.dropout and self.tokenizer.type != "bpe":
            yield Problem("tokenizer.dropout", f"'{self.tokenizer.type}' has no merges; leave it out, or use type bpe")
        for name in ("protect", "glossary", "rough") if self.tokenizer.type == "word" else ():
            if getattr(self.data, name):
                yield Problem(f"data.{name}", "needs pieces within words; leave it out, or use another tokenizer.type")
        for links in self.data.linked if self.data.glossary is not None else ():
            yield Problem(links, "links words that data.glossary replaces; leave one of them out")
        gold = self.evaluation.gold is not None and not isinstance(self.model.attention, NoAttention)
        if self.training.validation.metric == "aer" and not gold:
            text = "'aer' needs an attention, and in evaluation.gold the links that it is compared with"
            yield Problem("training.validation.metric", text)
        key, guided = "training.guided_attention", self.training.guided_attention is not None
        for links in () if guided else self.data.linked:
            yield Problem(links, f"has no effect without {key}; leave it out")
        if guided and not self.data.linked:
            yield Problem(key, "needs the word links of the training set; name their file in data.train.links")
        if guided and isinstance(self.model.attention, NoAttention):
            yield Problem(key, "needs an attention, and model.attention.type is 'none'; leave it out, or choose one")
        for other, used in (("tokenizer.dropout", self.tokenizer.dropout), ("data.rough", self.data.rough)):
            if guided and used:
                yield Problem(other, f"changes the pieces that {key} has links for; leave one out")
