"""The scripts that stand beside the package. The benchmark measures what it says; how fast that is, is not tested."""

import math
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

import benchmark
import compare_peers
import lowest_versions
import make_demo_corpus
import try_package
from aligner import align
from benchmarks.cost import Cost, cost
from length_decay import interval_of
from nmt import __version__
from nmt.config.schema import FileCorpus
from nmt.data.corpus import Pair
from nmt.errors import DataError
from nmt.experiments.plan import load_experiment
from nmt.files import read_json
from peers.toolkits import TOOLKITS, Toolkit
from tests.models import TARGET, model_config
from tests.small_run import config, train
from tests.test_docs import PROJECT, ROOT
from textbook import Claim, Gain, Measured, cells, claims_of, gain, verdict
from textbook_scores import BASELINES, SCORES, sentence_error


def test_the_demo_corpus_is_written_in_the_sizes_asked_for(tmp_path: Path) -> None:
    sizes = ("--train", "7", "--validation", "3", "--test-per-bin", "1", "--seed", "2")
    assert make_demo_corpus.main(["--output", str(tmp_path), *sizes]) == 0
    lines = {path.name: len(path.read_text("utf-8").splitlines()) for path in tmp_path.iterdir()}
    expected = {"train": 7, "validation": 3, "test": 6}
    assert lines.pop("terms.tsv") == 0, "no word is frequent enough"
    assert lines == {f"{split}.{kind}": n for split, n in expected.items() for kind in ("en", "fr", "align")}
    assert make_demo_corpus.main(["--output", str(tmp_path), *sizes, "--longest", "20"]) == 0
    words = [len(line.split()) for line in (tmp_path / "test.en").read_text("utf-8").splitlines()]
    assert len(words) == 2 and words[0] <= 10 < words[1] <= 20


def test_the_lowest_versions_are_those_that_are_claimed() -> None:
    pins = dict(line.split("==") for line in lowest_versions.constraints())
    tested = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    assert {f"{name}=={pins[name]}" for name in ("torch", "pytest")} <= {*tested}
    claimed = PROJECT["dependencies"]
    lowest = {f"{name}>={version}" for name, version in pins.items()}
    assert {each for each in claimed if not each.startswith("torch")} <= lowest


@pytest.mark.slow
def test_the_package_is_built_and_works_where_nothing_else_is(tmp_path: Path) -> None:
    """The wheel, and the source distribution, installed by pip into environments that have what they need and no
    toolkit: the same files; and of the latter the commands train, translate, score and draw. ``make test-package``
    tries both where there is nothing else."""
    built = try_package.build(ROOT, tmp_path / "packages")
    name = f"nmt_attention-{__version__}"
    assert [path.name for path in built] == [f"{name}-py3-none-any.whl", f"{name}.tar.gz"]
    with zipfile.ZipFile(built[0]) as archive:
        assert "nmt/py.typed" in archive.namelist()
        assert not [name for name in archive.namelist() if name.startswith(("tests", "scripts"))]
    with tarfile.open(built[1]) as archive:
        assert any(name.endswith("/LICENSE") for name in archive.getnames())
    installed = []
    for package in built:
        environment = tmp_path / package.suffix
        venv.create(environment)
        site = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
        # its own .pth files, with the toolkit as it is being written, are not read there
        (site / "others.pth").write_text(sysconfig.get_path("purelib"))
        pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin/python"), "--disable-pip-version-check"]
        offline = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed"]
        subprocess.run([*pip, "install", *offline, str(package)], check=True, capture_output=True)
        installed.append({path.relative_to(site) for path in (site / "nmt").rglob("*.py")})
    assert installed[0] == installed[1]
    assert try_package.smoke(environment, tmp_path / "work").startswith("BLEU ")


# --- the benchmark ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_row_holds_what_others_read_from_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.json"
    options = ["--variant", "none", "--precision", "fp32", "--shape", "2x3x4", "--repeats", "1", "--json", str(rows)]
    assert benchmark.main(options) == 0
    (row,) = read_json(rows)["rows"]
    assert (row["variant"], row["precision"], row["device"], row["shape"]) == ("none", "fp32", "cpu", "2 x 3 -> 4")
    assert row["share"] == pytest.approx(row["flops_per_second"] / row["product_flops_per_second"])
    assert row["target_tokens_per_second"] == pytest.approx(8 / row["milliseconds_per_step"] * 1e3)
    header, _, printed = (line.strip("|").split("|") for line in capsys.readouterr().out.splitlines()[-3:])
    assert printed[[cell.strip() for cell in header].index("share")].strip() == f"{row['share']:.2f}"


@pytest.mark.slow
def test_decoding_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(config(tmp_path, updates=2))
    rows, run, source = tmp_path / "rows.json", tmp_path / "run", tmp_path / "lines"
    source.write_text("a b\n\nc\n", "utf-8")
    options = ["--decode", str(run), "--input", str(source), "--repeats", "1", "--beam-size", "2"]
    assert benchmark.main([*options, "--precision", "fp32", "--json", str(rows)]) == 0
    assert [row["sentences"] for row in read_json(rows)["rows"]] == [3, 3]
    assert [line.split("|")[-2].strip() for line in capsys.readouterr().out.splitlines()[-2:]] == ["3 of 3", "3 of 3"]


# --- the work of a network, counted by hand from the papers' equations ------------------------------------------------

E, H, R, V = 5, 8, 5, TARGET
"""Embedding, decoder, readout, target vocabulary; one direction of the encoder has 4 units, so annotations have H."""
ENCODER = 2 * 3 * 4 * (E + 4)
LAYERS, PAIR = 3 * (4 * 8 * 8 + 2 * 8 * 6 + 2 * 8 * 8), 3 * 2 * 8
BY_HAND = {
    "none": Cost(4 * H + 3 * H * H + 2 * R * H, ENCODER, 3 * H * (E + H) + 2 * R * (H + E) + R * V),
    "bahdanau": Cost(4 * H, ENCODER + 7 * H, 3 * H * (E + 2 * H) + 7 * H + 2 * R * (E + 2 * H) + R * V, 7 + H),
    "luong general": Cost(4 * H, ENCODER + H * H, 3 * H * (E + H + R) + R * 2 * H + R * V, 2 * H),
    "hard": Cost(4 * H, ENCODER + H * H + R * H, 3 * H * (E + H) + R * H, H + R * V),
    "transformer": Cost(0, LAYERS, LAYERS + 8 * V, pair=PAIR, source_pair=PAIR, target_pair=PAIR),
}


@pytest.mark.parametrize("variant", BY_HAND)
def test_it_is_what_the_equations_multiply(variant: str) -> None:
    assert cost(model_config(variant), V) == BY_HAND[variant]


def test_each_kind_of_pair_is_counted() -> None:
    """Sentences of 5 and 2 source tokens, and of 4 and 1 target tokens."""
    assert Cost(source_pair=2, target_pair=3).training_flops([5, 2], [4, 1]) == 6 * (2 * (25 + 4) + 3 * (10 + 1))
    assert Cost(1, 2, 3, pair=4).training_flops([5, 2], [4, 1]) == 6 * (2 + 2 * 7 + 3 * 5 + 4 * (20 + 2))


# --- other toolkits: made of two lines of Python; their output from their real logs -----------------------------------

TRAIN = """
for update in (250, 500, 750):
    print(f"update {update}: {4 * update} tokens/s", flush=True)
"""
TRANSLATE = "import sys; open(sys.argv[2], 'w').writelines(line.upper() for line in open(sys.argv[1]))"


@dataclass(frozen=True)
class Fake(Toolkit):
    """Prints rates, and translates into capitals."""

    rate = re.compile(r"(\d+) tokens/s")
    program: str = TRAIN

    def training(self, work: Path, updates: int, seed: int, threads: int) -> Sequence[str]:
        return [sys.executable, "-c", self.program]

    def translation(self, work: Path, source: Path, output: Path, beam: int) -> Sequence[str]:
        return [sys.executable, "-c", TRANSLATE, str(source), str(output)]


def test_training_and_translation_are_measured_once(tmp_path: Path) -> None:
    task, work = tmp_path / "task", tmp_path / "fake"
    task.mkdir()
    work.mkdir()
    (task / "test2016.de").write_text("ein hund läuft im park .\nzwei katzen schlafen heute .\n", encoding="utf-8")
    (task / "test2016.en").write_text("EIN HUND LÄUFT IM PARK .\nZWEI KATZEN SCHLAFEN HEUTE .\n", encoding="utf-8")
    trained = compare_peers.train(Fake(), work, 750, 1, 60)
    assert trained.tokens_per_second == 2500  # of 2,000 and 3,000: the first is left out
    assert not trained.stopped
    fails = Fake(program="raise SystemExit(1)")
    assert compare_peers.train(fails, work, 750, 1, 60) == trained  # read, not made again
    with pytest.raises(DataError, match="failed with status 1"):
        compare_peers.train(fails, work, 800, 1, 60)
    translated = compare_peers.translate(Fake(), work, task, 5)
    assert translated.bleu == pytest.approx(100)
    assert compare_peers.translate(Fake(), work, task, 5) == translated


@pytest.mark.parametrize(
    ("name", "log", "rates"),
    [
        ("eole", "sents:     603; bsz: 1805/1846/121; 468/478 tok/s;     98 sec;\n", [478]),
        ("eole", "[2026-11-23 00:11:39,981 INFO] validation BLEU: 12.5\n", []),
        ("nmt", "2026-11-23 00:08:54  training: 781 of 2,000 updates (39%), 4,407 tokens/s (5.5%)\n" * 2, [4407, 4407]),
        ("nmt", "validation     1,200    4.10   3.144       23.21  22.65       2s  best\n", []),
    ],
)
def test_toolkits_are_understood(name: str, log: str, rates: list[float]) -> None:
    assert TOOLKITS[name].rates(log) == rates


# --- verdicts on the claims of textbooks ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(ROOT.glob("configs/experiments/textbook/*.yaml")), ids=lambda path: path.stem)
def test_every_claim_compares_systems_that_there_are(path: Path) -> None:
    experiment = load_experiment(path)
    for claim in claims_of(experiment).values():
        assert {*claim.compared, *claim.beside} <= {*experiment.systems, *BASELINES} and claim.score in SCORES


def test_the_gain_is_that_of_students_t() -> None:
    """Differences 1, 2, 3: mean 2, deviation 1, and 4.303 / sqrt(3) = 2.484. Of 31 differences, 15 of them 1, 15 of
    them -1, and one 0: the deviation is 1, and 2.042 / sqrt(31) = 0.367. One seed resolves nothing. An error of 1
    over the sentences, alone 1.96, makes 2.484 to 3.164."""
    assert gain([11, 12, 13], [10, 10, 10]) == pytest.approx((2, 2 - 2.484, 2 + 2.484), abs=1e-3)
    assert gain([11, 12, 13], [10, 10, 10], 1) == pytest.approx((2, 2 - 3.164, 2 + 3.164), abs=1e-3)
    differences = [1.0, -1.0] * 15 + [0.0]
    assert gain(differences, [0.0] * 31) == pytest.approx((0, -0.367, 0.367), abs=1e-3)
    assert gain(2 * differences, [0.0] * 62).high < 0.27
    assert gain([90.0], [10.0]) == (80.0, -math.inf, math.inf)


def test_the_error_over_sentences_is_that_of_the_paired_mean() -> None:
    """Gains of 0 and 2 in turn have deviation 1, and their mean over 100 sentences the error 0.1, whatever the scores;
    seeds of which one gains what the other loses have none."""
    second = np.random.default_rng(1).normal(size=(100, 1))
    first = second + 2.0 * (np.arange(100)[:, None] % 2)
    assert sentence_error(lambda sums: sums[..., 0] / 100, [first], [second]) == pytest.approx(0.1, rel=0.1)
    assert sentence_error(lambda sums: sums[..., 0] / 100, [first, second], [second, first]) == pytest.approx(0)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.1, 3.0, "holds"),
        (-0.1, 3.0, "not resolved"),
        (-0.9, 0.9, "does not hold"),  # no difference that counts
        (0.1, 0.9, "does not hold"),  # a gain, but too small to count
        (0.1, 1.2, "not resolved"),  # whether it is too small
        (-3.0, -1.0, "the opposite holds"),
        (-0.9, -0.1, "does not hold"),
        (-3.0, 0.9, "does not hold"),
        (-3.0, 1.0, "not resolved"),
        (-math.inf, math.inf, "not resolved"),  # one seed
    ],
)
def test_the_verdict_is_that_of_the_interval(low: float, high: float, expected: str) -> None:
    assert verdict(Gain((low + high) / 2, low, high), margin=1.0) == expected


def test_a_share_stands_beside_that_without_brevity_penalty() -> None:
    claim = Claim(text="A", source="B", compared=("one", "other"), score="retained")
    scores = [[60.0, 70.0], [50.0, 50.0]]
    shown = cells(Measured("a", claim, 100, scores, 0.0, unpenalized=[[80.0, 90.0], [50.0, 60.0]]))
    assert shown[2] == "`one` 65.0/85.0, `other` 50.0/55.0"
    assert cells(Measured("a", claim, 100, scores, 0.0))[2] == "`one` 65.0, `other` 50.0"


def test_a_band_is_over_sentences_and_seeds() -> None:
    """Halves of 3 and 4 give 5; a system with one seed has only the first."""
    row = {"bleu": "20", "bleu_low": "17", "bleu_high": "23"}
    low, high = interval_of([row | {"half_over_seeds": "4"}, row | {"half_over_seeds": ""}], "bleu")
    assert low.tolist() == [15, 17] and high.tolist() == [25, 23]


def test_rare_words_are_compared_with_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train").write_text("le chat\n" * 21 + "un loup\n")
    plan: Any = MagicMock()
    plan.runs[0].config.data.train = FileCorpus(source="unread", target=str(tmp_path / "train"))
    monkeypatch.setattr("textbook_scores.with_references", lambda *_: [("un chat, le loup", "le le chat, un loup")])
    found = SCORES["recall_rare"].statistics(plan, plan.runs[0], {})
    assert found.tolist() == [[2, 2, 2, 3]] and SCORES["recall_rare"].value(found.sum(0)) == pytest.approx(100 / 3)


def test_the_aligner_links_words_that_occur_together() -> None:
    """The other order, which the prior does not expect."""
    words, pairs = [("a", "A"), ("b", "B")], [("a b", "B A")]
    assert align([Pair(*each) for each in pairs + 5 * words])[0] == {(1, 0), (0, 1)}
