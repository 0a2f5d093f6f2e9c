"""Shortlists: against all pieces, against NumPy, by hand, and as a user meets them."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.shortlist import measure_shortlist
from nmt import fast
from nmt.cli import serve
from nmt.cli.evaluate import main as evaluate
from nmt.cli.shortlist import main
from nmt.cli.translate import main as translate
from nmt.data.batching import Specials, pad_source
from nmt.data.corpus import Pair
from nmt.data.tokenizer import Tokenizers
from nmt.errors import ConfigError, DataError
from nmt.model import Seq2Seq
from nmt.runs.loading import load_run
from nmt.search import Limits, ListedModel, Sampling, Searchable, together
from nmt.serving.requests import Request
from nmt.translation.linking import Links, count_links, recall
from nmt.translation.options import SearchOptions
from nmt.translation.results import Translation
from nmt.translation.shortlist import Shortlist
from nmt.translation.translator import Translator
from tests.small_translator import ATTENTIONS, LINES, network, small_tokenizers, translator_of
from tests.test_cli_translate import save_run

CPU = torch.device("cpu")
GREEDY = SearchOptions(1, 1.0, 400, 1000, 2.0, attention=True)
BEAM = replace(GREEDY, beam_size=4, n_best=4)
RULED = replace(BEAM, min_length_factor=0.5, no_repeat_ngram=3, repetition_penalty=1.1, beam_groups=2, diversity=0.5)
SAMPLED = replace(GREEDY, sampling=Sampling(0.8))
SEARCHES = {"greedy": GREEDY, "beam": BEAM, "rules": RULED, "sampling": SAMPLED}


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    return small_tokenizers()


def of_lists(tokenizers: Tokenizers, lists: list[list[int]], always: list[int]) -> Shortlist:
    offsets = np.cumsum([0, *map(len, lists)])
    pieces = [piece for each in lists for piece in each]
    arrays = [np.array(each, np.int32) for each in (offsets, pieces, always)]
    return Shortlist(arrays[0], arrays[1], arrays[2], tokenizers.sha256)


@pytest.fixture(scope="module")
def everything(tokenizers: Tokenizers) -> Shortlist:
    return of_lists(tokenizers, [[]] * tokenizers.source.size, list(range(tokenizers.target.size)))


@pytest.fixture(scope="module")
def few(tokenizers: Tokenizers) -> Shortlist:
    """Three pieces for each source piece, five for every line."""
    random = np.random.default_rng(3)
    size = tokenizers.target.size
    return of_lists(
        tokenizers,
        [sorted(random.choice(size, 3, replace=False).tolist()) for _ in range(tokenizers.source.size)],
        random.choice(size, 5, replace=False).tolist(),
    )


def compare(found: list[Translation], expected: list[Translation], tolerance: float = 1e-5) -> None:
    for here, there in zip(found, expected, strict=True):
        assert [each.text for each in here.hypotheses] == [each.text for each in there.hypotheses]
        for each, other in zip(here.hypotheses, there.hypotheses, strict=True):
            assert each.pieces == other.pieces
            assert each.log_probability == pytest.approx(other.log_probability, rel=tolerance, abs=tolerance)
            if each.attention is not None and other.attention is not None:
                assert np.allclose(each.attention, other.attention, atol=tolerance)


# --- what it changes --------------------------------------------------------------------------------------------------


def test_the_benchmark_counts_what_a_list_changes(
    tokenizers: Tokenizers,
    everything: Shortlist,
    few: Shortlist,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a clock that we hold: a search with the list takes half the time of one without, which takes two seconds."""
    request.addfinalizer(partial(torch.set_num_threads, torch.get_num_threads()))
    run, lines = str(save_run(tmp_path / "run", ATTENTIONS[0])), LINES[:20]
    everything.save(tmp_path / "everything")
    few.save(tmp_path / "few")
    translator = Translator.load(run, "cpu")
    references = [each.text for each in translator.translate(lines, beam_size=3)]
    rows = []
    for name in ("everything", "few"):
        clock = iter([0.0, 2.0, 2.0, 3.0])
        monkeypatch.setattr("benchmarks.shortlist.time.process_time", lambda clock=clock: next(clock))
        rows.append(measure_shortlist(run, str(tmp_path / name), lines, references, "13a", 3, "fp32", 1))
    whole, some = rows
    assert (whole.sentences_per_second, whole.listed_per_second) == (10.0, 20.0)
    assert (whole.changed, whole.mean_list) == (0, tokenizers.target.size)
    found = [each.text for each in translator.translate(lines, beam_size=3, shortlist=few)]
    assert some.changed == sum(map(str.__ne__, references, found)) > 0
    assert some.bleu == whole.bleu == pytest.approx(100) and some.listed_bleu is not None and some.listed_bleu < 100
    sizes = [len(few.of(ids, (), tokenizers)) for ids in tokenizers.source.encode(lines)]
    assert some.mean_list == sum(sizes) / len(sizes)


# --- search -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("attention", ATTENTIONS, ids=lambda attention: str(attention["type"]))
def test_a_list_of_all_pieces_changes_nothing(
    tokenizers: Tokenizers, everything: Shortlist, attention: dict[str, Any], search: str
) -> None:
    model, options = network(tokenizers, attention), SEARCHES[search]
    for kernels in ("auto", "plain"):
        translator = translator_of(model, tokenizers, kernels=kernels)
        expected = translator.translate(LINES[:15], options)
        compare(translator.translate(LINES[:15], options, shortlist=everything), expected)


def test_the_output_layer_has_one_of_few_widths() -> None:
    """oneDNN prepares a product for each new one."""
    asked = []

    class Noting:
        """Takes note of the tokens that it is to have."""

        def among(self, tokens: Tensor) -> "Noting":
            asked.append(tokens)
            return self

    limits = Limits(1, 2, (0, 1), torch.tensor([9, 9]))
    lists = [np.arange(5, 100), np.arange(50, 135)]
    ListedModel(Noting(), lists, limits)  # type: ignore[arg-type]
    [tokens] = asked
    assert len(tokens) == 256 and set(tokens.tolist()) == {0, 1, 2, *range(5, 135)}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("attention", ATTENTIONS, ids=lambda attention: str(attention["type"]))
def test_few_pieces_give_the_same_whatever_the_kernels_and_the_neighbours(
    tokenizers: Tokenizers, few: Shortlist, attention: dict[str, Any], search: str
) -> None:
    model, options = network(tokenizers, attention), replace(SEARCHES[search], shortlist=few)
    translator = translator_of(model, tokenizers)
    expected = translator.translate(LINES[:20], options)
    assert [each.text for each in expected] != [
        each.text for each in translator.translate(LINES[:20], options, shortlist=None)
    ]
    compare(translator_of(model, tokenizers, kernels="plain").translate(LINES[:20], options), expected, 1e-4)
    for tokens in (1, 10_000):
        compare(translator.translate(LINES[:20], options, batch_tokens=tokens), expected, 1e-4)


class Restricted(Searchable[Any]):
    """A network to which all tokens but some do not exist: the plain twin of a shortlist, for one sentence."""

    def __init__(self, searchable: Searchable[Any], own: list[int]) -> None:
        self.searchable, self.own, self.attends = searchable, own, searchable.attends

    def encode(self, source: Tensor, lengths: Tensor) -> Any:
        return self.searchable.encode(source, lengths)

    def start(self, memory: Any) -> Any:
        return self.searchable.start(memory)

    def step(self, previous: Tensor, state: Any, /) -> tuple[Tensor, Any, Tensor | None]:
        log_probs, state, attention = self.searchable.step(previous, state)
        some = torch.full_like(log_probs, -torch.inf)
        some[:, self.own] = log_probs[:, self.own]
        return some.log_softmax(-1), state, attention


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("attention", ATTENTIONS[:3], ids=lambda attention: str(attention["type"]))
def test_the_search_is_that_of_a_network_without_the_other_pieces(
    tokenizers: Tokenizers, few: Shortlist, attention: dict[str, Any], search: str
) -> None:
    model, options = network(tokenizers, attention), SEARCHES[search]
    begin = ["", LINES[30]] * 5
    found = translator_of(model, tokenizers).stream(LINES[:10], replace(options, shortlist=few), prefixes=begin)
    plain, expected = fast.search(model, torch.float32, "plain"), list[Translation]()
    for number, (line, prefix) in enumerate(zip(LINES[:10], begin, strict=True), 1):
        [source], [forced] = tokenizers.source.encode([line]), tokenizers.target.encode([prefix])
        restricted = Restricted(plain, few.of(source, forced, tokenizers).tolist())
        translator = Translator(lambda _, made=restricted: made, tokenizers, CPU)  # type: ignore[misc]
        expected += translator.stream([line], options, prefixes=[prefix], first=number)
    compare(list(found), expected, 1e-4)


def normalized(model: Seq2Seq, tokenizers: Tokenizers, source: list[int], target: list[int], own: list[int]) -> float:
    """Sum over the target pieces of log p - log of the sum of p over the list, in float64 by NumPy."""
    specials = Specials.of(tokenizers)
    padded, lengths = pad_source([source], specials)
    with torch.inference_mode():
        logits, _ = model(padded, lengths, torch.tensor([[specials.target_bos, *target[:-1]]]))
    listed = logits[0].double().numpy()[:, own]
    places = [own.index(piece) for piece in target]
    highest = listed.max(1)
    total = highest + np.log(np.exp(listed - highest[:, None]).sum(1))
    return float((listed[np.arange(len(target)), places] - total).sum())


@pytest.mark.parametrize("kernels", ["auto", "plain"])
def test_probabilities_are_normalized_over_the_list_of_the_line(
    tokenizers: Tokenizers, few: Shortlist, kernels: Any
) -> None:
    model = network(tokenizers, ATTENTIONS[0])
    translations = translator_of(model, tokenizers, kernels=kernels).translate(LINES[:10], BEAM, shortlist=few)
    for line, translation in zip(LINES, translations, strict=False):
        [source] = tokenizers.source.encode([line])
        own = few.of(source, (), tokenizers).tolist()
        for each in translation.hypotheses:
            target = [tokenizers.target.piece_id(piece) for piece in each.pieces]
            assert set(target) <= set(own) and translation.listed == len(own)
            expected = normalized(model, tokenizers, source, target, own)
            assert each.log_probability == pytest.approx(expected, rel=1e-4)


class Fixed(Searchable[Any]):
    """Says the same of each token at each step; the state is the sentences of the rows."""

    attends = False

    def __init__(self, probabilities: Tensor) -> None:
        self.logits = probabilities.log()
        self.read: list[list[int]] = []

    def encode(self, source: Tensor, lengths: Tensor) -> Any:
        raise NotImplementedError

    def start(self, memory: Any) -> Any:
        raise NotImplementedError

    def step(self, previous: Tensor, state: Any, /) -> tuple[Tensor, Any, None]:
        self.read.append(previous.tolist())
        return self.logits.expand(len(previous), -1), state, None

    def among(self, tokens: Tensor) -> "Fixed":
        some = Fixed(self.logits[tokens].exp())
        some.read = self.read
        return some


class Rows:
    """A state without content."""

    def expand(self, width: int) -> "Rows":
        return self

    def select(self, rows: Tensor) -> "Rows":
        return self


def test_two_lists_by_hand() -> None:
    """p = 0.1, 0.2, 0.3, 0.4 of PAD 0, EOS 1, and 2, 3; 4 is BOS, of which the network says 0."""
    model = Fixed(torch.tensor([0.1, 0.2, 0.3, 0.4, 0.0]))
    limits = Limits(4, 1, (0, 4), torch.tensor([5, 5]))
    listed = ListedModel(model, [np.array([2]), np.array([3, 2])], limits)
    assert (listed.limits.bos_id, listed.limits.eos_id, listed.limits.forbidden) == (0, 1, (2, 0))
    assert listed.lists.tokens[0, :4].tolist() == [4, 1, 0, 2] and listed.lists.tokens[1].tolist() == [4, 1, 0, 3, 2]
    state = listed.start(Rows())
    log_probs, state, _ = listed.step(torch.tensor([0, 0]), state)
    assert log_probs.exp().flatten().tolist() == pytest.approx(
        [0, 0.2 / 0.6, 0.1 / 0.6, 0.3 / 0.6, 0, 0, 0.2, 0.1, 0.4, 0.3]
    )
    # the second sentence alone goes on, with two hypotheses
    log_probs, _, _ = listed.step(torch.tensor([3, 4]), state.select(torch.tensor([1])).expand(2))
    assert log_probs.exp().flatten().tolist() == pytest.approx([0, 0.2, 0.1, 0.4, 0.3] * 2)
    assert model.read == [[4, 4], [3, 2]]
    assert listed.places([[2, 1], [3, 2]]) == [[3, 1], [3, 4]]


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("attention", ATTENTIONS, ids=lambda attention: str(attention["type"]))
def test_logits_of_some_tokens_are_those_of_all(
    tokenizers: Tokenizers, attention: dict[str, Any], precision: torch.dtype
) -> None:
    model = network(tokenizers, attention)
    if precision == torch.int8 and attention["type"] == "transformer":
        return  # has no twin
    tokens = torch.tensor([7, 3, 60, 1, 80])
    source, lengths = pad_source([[5, 6, 7], [8]], Specials.of(tokenizers))
    for kernels in ("auto", "plain") if precision != torch.int8 else ("auto",):
        searchable = fast.search(model, precision, kernels, beam_size=2)
        with torch.inference_mode(), searchable.searching():
            state = searchable.start(searchable.encode(source, lengths))
            previous = torch.tensor([2, 9])
            every, _, _ = searchable.step(previous, state)
            some, _, _ = searchable.among(tokens).step(previous, state)
            again, _, _ = searchable.step(previous, state)
        assert some.dtype == torch.float32 and some.shape == (2, 5)
        expected = every[:, tokens].log_softmax(-1)
        tolerance = 0.1 if precision == torch.bfloat16 and kernels == "plain" else 1e-4
        assert torch.allclose(some.log_softmax(-1), expected, rtol=0, atol=tolerance)
        assert torch.equal(again, every), "the searchable itself stays as it is"


def test_prefixes_are_admitted_and_forbidden_pieces_stay_forbidden(tokenizers: Tokenizers) -> None:
    nothing = of_lists(tokenizers, [[]] * tokenizers.source.size, [])
    model = network(tokenizers, ATTENTIONS[0])
    model.output.bias.data[[tokenizers.target.pad_id, tokenizers.target.bos_id]] += 50
    translator = translator_of(model, tokenizers)
    begin = [LINES[30], "", LINES[31]]
    for options in (GREEDY, BEAM):
        found = list(translator.stream(LINES[:3], replace(options, shortlist=nothing), prefixes=begin))
        for translation, prefix in zip(found, begin, strict=True):
            [forced] = tokenizers.target.encode([prefix])
            allowed = {*tokenizers.target.pieces([*forced, tokenizers.target.eos_id, tokenizers.target.unk_id])}
            for each in translation.hypotheses:
                assert each.pieces[: len(forced)] == tokenizers.target.pieces(forced)
                assert set(each.pieces) <= allowed


def test_an_ensemble_is_refused(tokenizers: Tokenizers, few: Shortlist) -> None:
    members = [fast.search(network(tokenizers, each), torch.float32) for each in ATTENTIONS[:2]]
    translator = Translator(lambda beam_size: together(members), tokenizers, CPU)
    with pytest.raises(ConfigError, match="a shortlist: is for one model"):
        translator.translate(LINES[:2], BEAM, shortlist=few)


# --- lists ------------------------------------------------------------------------------------------------------------


def test_the_list_of_a_line_by_hand(tokenizers: Tokenizers) -> None:
    lists: list[list[int]] = [[] for _ in range(tokenizers.source.size)]
    eos = tokenizers.source.eos_id
    lists[5], lists[6], lists[eos] = [20, 40], [20, 30], [50]
    shortlist = of_lists(tokenizers, lists, [70])
    target = tokenizers.target
    special = {target.pad_id, target.bos_id, target.eos_id, target.unk_id}
    assert shortlist.of([5, 5], (), tokenizers).tolist() == sorted(special | {20, 40, 50, 70})
    assert shortlist.of([5, 6, 9], [88], tokenizers).tolist() == sorted(special | {20, 30, 40, 50, 70, 88})
    assert shortlist.of([], (), tokenizers).tolist() == sorted(special | {50, 70})


def test_links_are_ranked_by_count(tokenizers: Tokenizers) -> None:
    links = Links(tokenizers)
    links.add(np.array([5, 5, 5, 6, 6]), np.array([30, 30, 20, 20, 10]), np.array([0.5, 0.5, 0.5, 0.5, 0.5]))
    links.add(np.array([5, 7]), np.array([40, 20]), np.array([1.0, 0.25]))
    one, two = links.shortlist(1, 0), links.shortlist(2, 1)
    # 5: 30 and 40 have 1, 20 has 1/2; 6: 10 and 20 have 1/2; 7: 20 has 1/4; of equal counts the lower id
    assert [one.pieces[one.offsets[i] : one.offsets[i + 1]].tolist() for i in (4, 5, 6, 7, 8)] == [
        [],
        [30],
        [10],
        [20],
        [],
    ]
    assert two.always.tolist() == [20], "it has 5/4 of all; a line has it anyway, so that no piece needs it"
    assert [two.pieces[two.offsets[i] : two.offsets[i + 1]].tolist() for i in (5, 6, 7)] == [[30, 40], [10], []]
    assert one.always.tolist() == []
    assert one.offsets[-1] == 3 and len(one.offsets) == tokenizers.source.size + 1
    assert links.shortlist(9, 90).always.tolist() == [10, 20, 30, 40], "pieces that never occur are not frequent"


@pytest.mark.parametrize("reverse", [False, True])
def test_links_are_those_of_the_attention(tokenizers: Tokenizers, reverse: bool) -> None:
    tokenizers = replace(tokenizers, reverse_source=reverse)
    model = network(tokenizers, ATTENTIONS[0])
    pairs = [Pair(line, line[::-1]) for line in LINES[:8]]
    links = count_links(model, tokenizers, [*pairs[:3], Pair("", "x"), *pairs[3:]], CPU)
    expected: dict[tuple[int, int], float] = {}
    specials = Specials.of(tokenizers)
    for pair in pairs:
        [source], [target] = tokenizers.source.encode([pair.source]), tokenizers.target.encode([pair.target])
        padded, lengths = pad_source([source], specials)
        with torch.inference_mode():
            logits, weights = model(padded, lengths, torch.tensor([[specials.target_bos, *target]]))
        assert weights is not None
        for row, place in zip(logits[0].double().numpy(), weights[0].argmax(1).tolist(), strict=True):
            probabilities = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
            for piece in np.argsort(-row)[:10].tolist():
                key = (int(padded[0, place]), piece)
                expected[key] = expected.get(key, 0.0) + probabilities[piece]
    size = tokenizers.target.size
    found = {divmod(key, size): count for key, count in zip(links.keys.tolist(), links.counts.tolist(), strict=True)}
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_recall_by_hand(tokenizers: Tokenizers) -> None:
    [[first, *_]] = tokenizers.target.encode([LINES[0]])
    shortlist = of_lists(tokenizers, [[]] * tokenizers.source.size, [first])
    pairs = [Pair(LINES[1], LINES[0]), Pair("", LINES[0]), Pair(LINES[0], "")]
    found = recall(shortlist, tokenizers, pairs)
    pieces = tokenizers.target.encode([LINES[0]])[0]
    assert (found.sentences, found.pieces, found.found, found.listed) == (1, len(pieces), pieces.count(first), 5)
    assert found.share == pieces.count(first) / len(pieces) and found.mean_list == 5


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_list_is_kept_in_a_file(tokenizers: Tokenizers, few: Shortlist, tmp_path: Path) -> None:
    few.save(tmp_path / "list")
    found = Shortlist.load(tmp_path / "list", tokenizers)
    for line in LINES[:5]:
        [source] = tokenizers.source.encode([line])
        assert found.of(source, (), tokenizers).tolist() == few.of(source, (), tokenizers).tolist()


def test_a_file_is_the_same_each_time(few: Shortlist, tmp_path: Path) -> None:
    few.save(tmp_path / "one")
    few.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_list_of_other_pieces_is_refused(tokenizers: Tokenizers, few: Shortlist, tmp_path: Path) -> None:
    other = replace(few, sha256=tokenizers.sha256 | {"target": "0" * 64})
    other.save(tmp_path / "list")
    with pytest.raises(ConfigError, match=r"list: its target tokenizer \(SHA-256 0000.*has the same tokenizers$"):
        Shortlist.load(tmp_path / "list", tokenizers)
    translator = translator_of(network(tokenizers, ATTENTIONS[2]), tokenizers)
    with pytest.raises(ConfigError, match="its target tokenizer"):
        translator.translate(LINES[:2], GREEDY, shortlist=other)


def test_other_files_are_refused(tokenizers: Tokenizers, few: Shortlist, tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text("no list")
    with pytest.raises(DataError, match="not a shortlist of nmt-shortlist"):
        Shortlist.load(path, tokenizers)
    beyond = np.full(1, tokenizers.target.size, np.int32)
    around = few.offsets.copy()
    around[1], around[2:-1] = 2**31 - 1, np.linspace(-(2**31), 0, len(around) - 3)  # differences that wrap around
    damages: list[dict[str, Any]] = [
        {"offsets": few.offsets[:-1]},
        {"offsets": few.offsets[::-1].copy()},
        {"offsets": around},
        {"pieces": few.pieces[:-1]},
        {"always": beyond},
        {"always": -beyond},
        {"pieces": few.pieces.astype(np.float32)},
    ]
    for damage in damages:
        replace(few, **damage).save(path)
        with pytest.raises(DataError, match="a damaged shortlist"):
            Shortlist.load(path, tokenizers)


# --- the commands -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("runs")
    return {str(each["type"]): str(save_run(folder / str(each["type"]), each)) for each in ATTENTIONS[:3]}


@pytest.fixture
def text(tmp_path: Path) -> dict[str, str]:
    for side, lines in (("source", LINES), ("target", [line[::-1] for line in LINES])):
        (tmp_path / side).write_text("".join(f"{line}\n" for line in lines))
    return {side: str(tmp_path / side) for side in ("source", "target")}


def test_the_commands(
    runs: dict[str, str], text: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, hypotheses = str(tmp_path / "list"), tmp_path / "hyp"
    made = ["--source", text["source"], "--target", text["target"], "--output", path, "--device", "cpu"]
    assert main(["--model", runs["bahdanau"], *made, "--best", "3", "--frequent", "5"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{path}: ") and "links, 5 pieces for every line" in out and "; recall " in out
    assert "the recall is that of the text the list is made from" in err
    how = ["--input", text["source"], "--output", str(hypotheses), "--device", "cpu"]
    for run in ("bahdanau", "none"):
        assert translate(["--model", runs[run], *how, "--shortlist", path]) == 0
        tokenizers = load_run(runs[run], CPU).tokenizers
        lists = [Shortlist.load(path, tokenizers).of(ids, (), tokenizers) for ids in tokenizers.source.encode(LINES)]
        mean, size = sum(map(len, lists)) / len(LINES), tokenizers.target.size
        said = f"nmt-translate: shortlist: {mean:,.0f} of {size:,} pieces a line on average\n"
        assert said in capsys.readouterr().err
        found = hypotheses.read_text().splitlines()
        translator = Translator.load(runs[run], "cpu")
        options = SearchOptions.from_config(translator.decoding, shortlist=Shortlist.load(path, translator.tokenizers))
        assert found == [each.text for each in translator.translate(LINES, options)]
        assert found != [each.text for each in translator.translate(LINES, attention=False)]
    scored = ["--source", text["source"], "--reference", text["target"], "--device", "cpu"]
    again = tmp_path / "again"
    assert evaluate(["--model", runs["none"], *scored, "--shortlist", path, "--output", str(again)]) == 0
    assert again.read_text() == hypotheses.read_text()
    sharded = tmp_path / "sharded"
    how[3] = str(sharded)
    assert translate(["--model", runs["none"], *how, "--shortlist", path, "--shard", "1/2"]) == 0
    assert "nmt-translate: shard 1/2: shortlist: " in capsys.readouterr().err
    assert len(json.loads((tmp_path / "sharded.job" / "job.json").read_text())["shortlist"]) == 64
    capsys.readouterr()
    assert translate(["--model", runs["none"], *how, "--shard", "2/2"]) == 2  # the other half without the list
    assert "shortlist" in capsys.readouterr().err


def test_a_server_translates_with_a_list(runs: dict[str, str], text: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    translator, path = Translator.load(runs["luong"], "cpu"), str(tmp_path / "list")
    shortlist = of_lists(translator.tokenizers, [[]] * translator.tokenizers.source.size, list(range(10, 30)))
    shortlist.save(path)
    asked = ["--model", runs["luong"], "--shortlist", path]
    answer = serve.translating(translator, serve.parser().parse_args(asked))(
        LINES[:5], Request(LINES[:5]), lambda: None
    )
    expected = translator.translate(LINES[:5], attention=False, shortlist=shortlist)
    assert [each.text for each, _ in answer] == [each.text for each in expected]
    assert [each.listed for each, _ in answer] == [24] * 5


def test_what_cannot_be_done_is_refused(
    runs: dict[str, str], text: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = ["--source", text["source"], "--target", text["target"], "--output", str(tmp_path / "list")]
    for options, said in (
        (["--model", runs["none"], *made], "none has no attention (model.attention.type is none); make the list with"),
        (
            ["--model", runs["bahdanau"], *made, "--check-source", text["source"]],
            "--check-source: has no effect without --check-target",
        ),
        (["--model", runs["bahdanau"], *made[:-1], text["source"]], "--output"),
    ):
        assert main(options) == 2
        assert said in capsys.readouterr().err
    both = ["--model", runs["none"], runs["luong"], "--input", text["source"], "--shortlist", text["target"]]
    assert translate(both) == 2
    assert "--shortlist: is for one run, and there are 2" in capsys.readouterr().err
    assert translate(["--model", runs["none"], "--input", text["source"], "--shortlist", text["target"]]) == 2
    assert "target: not a shortlist of nmt-shortlist" in capsys.readouterr().err
