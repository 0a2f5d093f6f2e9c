"""The engine in JavaScript gives the numbers, pieces and translations of the toolkit."""

import io
import json
import math
import re
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors.torch import save_file

import measure_web
from nmt.cli.export import ctranslate2_problems
from nmt.cli.export import main as export
from nmt.config import dump_config, load_run_config, schema
from nmt.data.tokenizer import Tokenizer, Tokenizers, learn
from nmt.errors import ConfigError, NmtWarning
from nmt.pages.web import SCORES, refuse_unknown_parts
from nmt.pages.web.exporting import export_web, refuse_unknown_pieces
from nmt.runs.checkpoints import unshared
from nmt.search.beam import beam_search
from nmt.translation.translator import Translator
from tests.models import ATTENTIONS, LUONG, RECURRENT, VARIANTS, forward, model_config, small_model
from tests.small_run import config, train
from tests.small_translator import PAIRS, save_run
from tests.toy_model import ToyModel, emitted, limits

SYSTEMS = {
    **{name: {"attention": attention} for name, attention in ATTENTIONS.items()},
    **RECURRENT,
    **{f"luong {score}": {"attention": LUONG | {"score": score}} for score in SCORES},
    "lstm in one direction, tied": {"encoder": {"type": "lstm", "hidden": 4, "directions": "forward"}}
    | {"attention": ATTENTIONS["bahdanau"], "embeddings": {"size": 5, "tie": "target"}},
}
"""Every recurrent part that a configuration can name."""


def skip_without_node() -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed: apt install nodejs")


def ask(task: str, **request: Any) -> Any:
    """The engine's answer, from Node."""
    skip_without_node()
    return measure_web.ask(task, **request)


@pytest.mark.parametrize("variant", SYSTEMS)
def test_log_probabilities_and_weights_are_those_of_the_network(variant: str, tmp_path: Path) -> None:
    model, source, target = small_model(**SYSTEMS[variant]), [4, 7, 5, 10, 6, 3], [2, 5, 12, 4]
    logits, weights = forward(model, torch.tensor([source]), torch.tensor([len(source)]), torch.tensor([target]))
    save_file({name: each.float() for name, each in unshared(model.state_dict()).items()}, tmp_path / "weights")
    section = model_config(**SYSTEMS[variant]).model_dump(include={"encoder", "decoder", "attention"})
    found = ask("steps", model=section, weights=str(tmp_path / "weights"), source=source, target=target)
    expected = logits.log_softmax(-1)[0].float()
    torch.testing.assert_close(torch.tensor([step["logProbs"] for step in found]), expected, rtol=0, atol=1e-5)
    if weights is None:
        assert all(step["weights"] is None for step in found)
    else:
        got = torch.tensor([step["weights"] for step in found], dtype=torch.float32)
        torch.testing.assert_close(got, weights[0].float(), rtol=0, atol=1e-5)


def test_weights_of_16_bits_are_read_as_they_are(tmp_path: Path) -> None:
    every = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.float16)
    every = every[every.isfinite()]
    save_file({"every": every}, tmp_path / "weights")
    assert ask("weights", weights=str(tmp_path / "weights")) == {"every": every.tolist()}


def parts(model: schema.Model) -> set[str]:
    return {model.encoder.type, model.decoder.type, getattr(model.attention, "score", model.attention).type}


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_part_of_the_package_is_run_by_the_engine_or_refused(variant: str) -> None:
    run = set[str]().union(*(parts(model_config(**sections)) for sections in SYSTEMS.values()))
    model = model_config(variant)
    unknown = parts(model) - run
    with pytest.raises(ConfigError, match=f"'({'|'.join(unknown)})'") if unknown else nullcontext():
        refuse_unknown_parts(model)


TEXT = [
    "Ein  Hund läuft über die Straße.",
    "L'œuvre coûte 3,50 €, n'est-ce pas\u00a0?",
    "Съешь ещё этих мягких французских булок",
    "我能吞下玻璃而不伤身体。 ﬁne ①②③ ＡＢＣ ½ ㎏",
    "مرحبا بالعالم",
    "e\u0301 \u200b \u3000 x\u00ad\u0001y",
    "emoji 😀😀 and \ud83d",
    "<s> </s> <unk> xyzxyz ▁▁",
    "eeeeeeeee" + "StraßecoûteläuftœuvreHundn'est" * 200,
    " ",
    "",
]
MODELS: dict[str, dict[str, Any]] = {
    "bpe": {"model_type": "bpe"},
    "unigram": {"model_type": "unigram"},
    "word": {"model_type": "word"},
    "char": {"model_type": "char"},
    "bpe, nothing normalized": {"model_type": "bpe", "normalization_rule_name": "identity"},
    "unigram, lower case": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf"},
    "bpe with tags": {"model_type": "bpe", "user_defined_symbols": ["<en>", "xyz"]},
    "unigram with tags": {"model_type": "unigram", "user_defined_symbols": ["<en>", "xyz"]},
    "unigram, no prefix": {"model_type": "unigram", "add_dummy_prefix": False},
    "bpe, all spaces": {"model_type": "bpe", "remove_extra_whitespaces": False},
}


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS.keys())
def test_pieces_are_those_of_sentencepiece(options: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = learned(**options)
    refuse_unknown_pieces(Tokenizers(tokenizer, tokenizer))
    (tmp_path / "source.model").write_bytes(tokenizer.model)
    found = ask("pieces", model=str(tmp_path / "source.model"), lines=TEXT)
    lines = [line.replace("\ud83d", "\ufffd") for line in TEXT]  # half of a pair, as every encoder writes it
    ids = tokenizer.encode(lines)
    assert [each["ids"] for each in found] == ids
    assert [each["text"] for each in found] == [tokenizer.decode(each) for each in ids]


@pytest.mark.parametrize(
    ("option", "reason"), [("byte_fallback", "falls back to bytes"), ("treat_whitespace_as_suffix", "spaces as suffix")]
)
def test_a_tokenizer_that_the_engine_does_not_run_is_refused(option: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"^target\.model: .*{reason}"):
        refuse_unknown_pieces(Tokenizers(learned(), learned(**{option: True}, vocab_size=400)))


def learned(**options: Any) -> Tokenizer:
    """A tokenizer that has learned some of the text."""
    model = io.BytesIO()
    special: dict[str, Any] = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "hard_vocab_limit": False}
    some = [line for line in TEXT if "\ud83d" not in line][:4] * 3  # the others have unknown characters
    options = {"vocab_size": 150, "minloglevel": 2} | special | options
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(some), model_writer=model, **options)
    return Tokenizer(model.getvalue())


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    """A run that has learned a little."""
    train(config(folder, updates=60, batch_tokens=400))
    return folder / "run"


LINES = ["oak elm ash", "fir", "", "yew box bay fig", "pine oak"]


@pytest.mark.parametrize("beam", [1, 3])
def test_an_exported_run_translates_as_the_run(run: Path, beam: int, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    assert export(["--web", str(run), str(folder)]) == 0
    found = ask("translate", folder=str(folder), lines=LINES, beam=beam)
    expected = Translator.load(run).translate(LINES, beam_size=beam)
    assert [each["text"] for each in found] == [each.text for each in expected]
    assert [each["pieces"] for each in found] == [each.pieces for each in expected]
    assert found[0]["logProb"] == pytest.approx(expected[0].hypotheses[0].log_probability, abs=1e-3)
    assert found[2]["attention"] is None
    own = expected[0].attention
    assert own is not None
    torch.testing.assert_close(torch.tensor(found[0]["attention"]), torch.tensor(own), rtol=0, atol=1e-3)
    assert math.prod(found[0]["probabilities"]) == pytest.approx(math.exp(found[0]["logProb"]), rel=1e-3)
    first = found[0]
    for piece, probability, likely in zip(first["pieces"], first["probabilities"], first["candidates"], strict=True):
        assert dict(likely).get(piece, probability) == pytest.approx(probability, rel=1e-3)
        assert len(likely) == 3 and likely == sorted(likely, key=lambda each: -each[1])
        assert beam > 1 or likely[0][0] == piece
    if beam == 1:
        for wrong in (0, 1001):
            with pytest.raises(AssertionError, match=f"beam: {wrong}; must be a whole number from 1 to 1000"):
                ask("translate", folder=str(folder), lines=LINES, beam=wrong)
    assert {path.name for path in folder.iterdir()} >= {"index.html", "README.md", "engine", "config.json"}


@pytest.mark.parametrize("beam", [2, 5])
def test_hypotheses_that_are_equal_after_rounding_have_the_toolkits_order(beam: int) -> None:
    """Of pieces that differ in the last bits only, sums with the -100 of the first step are often equal."""
    model = ToyModel(1, 100)
    model.table = model.table.round() + 1e-6 * ToyModel(2, 100).table
    model.table[:, 0] -= 100
    found = ask("search", tables=model.table.tolist(), beam=beam, lengthPenalty=0)
    expected = beam_search(model, model.start(100), limits([8] * 100), beam_size=beam, length_penalty=0)
    assert found == [list(emitted(best)) for [best] in expected]


@pytest.fixture
def unrounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounded weights could turn a close decision."""
    monkeypatch.setattr(torch.Tensor, "half", torch.Tensor.float)


@pytest.mark.usefixtures("unrounded")
def test_an_exported_run_reads_tags(tmp_path: Path) -> None:
    tokenizers = learn(schema.LearnedTokenizer(type="bpe", vocabulary=91), PAIRS, ["<bt>"])
    corpus = {"source": "a", "target": "b", "tag": "<bt>"}
    run = save_run(tmp_path / "run", tokenizers=tokenizers, corpora={"c": corpus}, train={"mix": {"c": 1.0}})
    (run / "config.yaml").write_text((run / "config.yaml").read_text().replace("  to: null", "  to: <bt>"))
    problems = [*ctranslate2_problems(load_run_config(run))]
    assert "data.corpora.c.tag: CTranslate2 reads <bt> as other pieces; train a run without it" in problems
    export_web(run, tmp_path / "page")
    lines = [f"<bt> {PAIRS[0].source}", PAIRS[1].source, ""]
    found = ask("translate", folder=str(tmp_path / "page"), lines=lines, beam=1)
    expected = Translator.load(run).translate(lines, beam_size=1)
    assert [each["sourcePieces"] for each in found] == [each.source_pieces for each in expected]
    assert [each["text"] for each in found] == [each.text for each in expected]


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("ngram", [0, 1, 2])
@pytest.mark.usefixtures("unrounded")
def test_translations_obey_the_rules_of_the_run(run: Path, beam: int, ngram: int, tmp_path: Path) -> None:
    ruled, lines = tmp_path / "run", [*LINES, "oak elm ash " * 5]  # the last one runs out of pieces
    shutil.copytree(run, ruled)
    settings = load_run_config(run, ["decoding.min_length_factor=1.5", f"decoding.no_repeat_ngram={ngram}"])
    (ruled / "config.yaml").write_text(dump_config(settings))
    export_web(ruled, tmp_path / "page")
    found = ask("translate", folder=str(tmp_path / "page"), lines=lines, beam=beam)
    expected = Translator.load(ruled).translate(lines, beam_size=beam)
    assert [each["pieces"] for each in found] == [each.pieces for each in expected]


@pytest.mark.usefixtures("unrounded")
def test_any_text_has_the_translation_of_the_run(run: Path, tmp_path: Path) -> None:
    export_web(run, tmp_path)
    odd = ["😀 oak 👩‍👩‍👧", "\ud83d oak \udc4d", "<b onclick=x>oak</b> & \0\x1f"]
    long = [f"{' ' * 63_997}oak", f"{' ' * 63_998}oak", f"😀{' ' * 63_996}oak"]  # 64,000 characters are read
    lines = ["", " \t\u3000", "oak elm ash " * 400, *odd, *long]
    found = ask("translate", folder=str(tmp_path), lines=lines, beam=1)
    whole = [re.sub("[\ud800-\udfff]", "\ufffd", line) for line in lines]  # half of a pair, as every encoder writes it
    with pytest.warns(NmtWarning, match="line [38]: too long"):
        expected = Translator.load(run).translate(whole, beam_size=1)
    assert [each["pieces"] for each in found] == [each.pieces for each in expected]
    assert [each["cut"] for each in found] == [False, False, True, False, False, False, False, True, False]


def test_weights_and_the_beginning_may_be_given(run: Path, tmp_path: Path) -> None:
    export_web(run, tmp_path)
    line = LINES[:1]
    (free,) = ask("translate", folder=str(tmp_path), lines=line, beam=1)
    assert ask("translate", folder=tmp_path.as_uri(), lines=line, beam=1) == [free], "a URL instead of a path"
    (same,) = ask("translate", folder=str(tmp_path), lines=line, beam=1, clamp=free["attention"])
    assert (same["text"], same["logProb"]) == (free["text"], free["logProb"])
    last = [[0.0] * (len(free["sourcePieces"]) - 1) + [1.0]] * 20
    (other,) = ask("translate", folder=str(tmp_path), lines=line, beam=1, clamp=last)
    assert other["logProb"] != free["logProb"]
    (ended,) = ask("translate", folder=str(tmp_path), lines=line, beam=1, prefix=[free["pieces"][0], "</s>"])
    assert ended["pieces"] == [free["pieces"][0], "</s>"]


def test_the_engine_is_measured_beside_the_toolkit(run: Path, tmp_path: Path) -> None:
    skip_without_node()
    source, reference, rows = tmp_path / "source", tmp_path / "reference", tmp_path / "rows.json"
    lines = LINES[:2] * 6
    source.write_text("\n".join(lines) + "\n")
    reference.write_text("\n".join(lines).upper() + "\n")
    files = ["--input", str(source), "--reference", str(reference), "--pieces", str(source), "--json", str(rows)]
    assert measure_web.main([str(run), *files]) == 0
    made = json.loads(rows.read_text())
    assert made["pieces"] == {"lines": 24, "unequal": 0}
    assert [row["equal, %"] for row in made["rows"] if "equal, %" in row] == [100, 100]


@pytest.mark.slow
def test_the_page_translates_while_somebody_types(run: Path, tmp_path: Path) -> None:
    from tests.browser import opened, served  # it skips without selenium

    export_web(run, tmp_path / "page")
    with served(tmp_path / "page") as address, opened() as page:
        page.driver.get(address)
        page.until("return document.getElementById('target')?.textContent === ''")
        page.driver.find_element("id", "source").send_keys("oak elm\n<b>fir</b>")
        expected = [each.text for each in Translator.load(run).translate(["oak elm", "<b>fir</b>"], beam_size=1)]
        lines = "[...document.querySelectorAll('#target button')]"
        page.until(f"return {lines}.map((line) => line.textContent).join('\\n') === arguments[0]", "\n".join(expected))
        assert not page.js(f"return {lines}.some((line) => line.children.length)")
        assert page.console() == []
