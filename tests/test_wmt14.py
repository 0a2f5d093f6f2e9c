"""configs/wmt14/ on a small dataset with the layout of wmt/wmt14 on the hub: Parquet files, a folder for each pair."""

import json
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml

from nmt.cli.train import main
from nmt.config import load_config
from nmt.config.schema import HubCorpus
from nmt.data.corpus import read_pairs
from nmt.demo.corpus import write_corpus

FOLDER = Path(__file__).parent.parent / "configs/wmt14"
CONFIGS = {"en-de": ("de-en", 3), "en-fr": ("fr-en", 30)}
"""By configuration: the subset, which names the other language first, and the number of Parquet files of its training
set."""
SMALL = [
    "tokenizer.vocabulary=150",
    "data.filter.max_pieces=200",
    "model.embeddings.size=12",
    "model.encoder.hidden=8",
    "model.decoder.hidden=8",
    "model.decoder.readout=12",
    "training.updates=6",
    "training.batch_tokens=400",
    "training.save_every=3",
    "training.validation={every: 3, sentences: 4, samples: 0}",
    "evaluation.bootstrap=10",
    "decoding.max_length_factor=1",
    "device=cpu",
    "precision=fp32",
]


@pytest.fixture(params=CONFIGS)
def name(request: pytest.FixtureRequest) -> str:
    """The name of a configuration."""
    return str(request.param)


@pytest.fixture
def hub(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in, which ``datasets`` loads for ``wmt/wmt14`` as it would load the repository of the hub."""
    folder = tmp_path / "hub"
    subset, files = CONFIGS[name]
    languages = subset.split("-")
    write_corpus(tmp_path / "text", train=300, validation=10, test_per_bin=1, seed=1)
    (folder / subset).mkdir(parents=True)
    features = datasets.Features({"translation": datasets.Translation(languages=languages)})
    for split, count in {"train": files, "validation": 1, "test": 1}.items():
        sides = [(tmp_path / f"text/{split}.{side}").read_text("utf-8").splitlines() for side in ("fr", "en")]
        rows = [{"translation": dict(zip(languages, pair, strict=True))} for pair in zip(*sides, strict=True)]
        whole = datasets.Dataset.from_list(rows, features=features)
        for number in range(count):
            path = folder / subset / f"{split}-{number:05d}-of-{count:05d}.parquet"
            whole.shard(count, number).to_parquet(str(path))
    splits = [{"split": split, "path": f"{subset}/{split}-*"} for split in ("train", "validation", "test")]
    names = [{"name": "translation", "dtype": {"translation": {"languages": languages}}}]
    card = {
        "dataset_info": [{"config_name": subset, "features": names}],
        "configs": [{"config_name": subset, "data_files": splits}],
    }
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump(card)}---\n")
    load = datasets.load_dataset

    def from_the_folder(path: str, *, revision: str, **options: Any) -> Any:
        assert path == "wmt/wmt14" and len(revision) == 40
        return load(str(folder), **options)

    monkeypatch.setattr(datasets, "load_dataset", from_the_folder)
    return folder


def test_they_name_the_splits_of_the_hub(name: str) -> None:
    config = load_config(FOLDER / f"{name}.yaml")
    other = config.data.target_language
    assert name == f"{config.data.source_language}-{other}"
    for split in ("train", "validation", "test"):
        corpus = getattr(config.data, split)
        assert isinstance(corpus, HubCorpus)
        assert (corpus.hub, corpus.subset, corpus.split) == ("wmt/wmt14", CONFIGS[name][0], split)
        assert (corpus.source_key, corpus.target_key) == ("translation.en", f"translation.{other}")
    assert (config.tokenizer.model_dump()["vocabulary"], config.tokenizer.shared) == (32000, True)


@pytest.mark.usefixtures("hub")
def test_the_stand_in_is_read_in_its_order(name: str, tmp_path: Path) -> None:
    """The files of a split one after another, and the right language on each side."""
    data = load_config(FOLDER / f"{name}.yaml").data
    assert isinstance(data.train, HubCorpus)
    found = list(read_pairs(data.train, data.source_language, data.target_language))
    texts = [(tmp_path / f"text/train.{side}").read_text("utf-8").splitlines() for side in ("en", "fr")]
    assert found == list(zip(*texts, strict=True))


@pytest.mark.usefixtures("hub")
def test_they_train(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    small = [*SMALL, f"data.cache={tmp_path / 'cache'}"]
    if name == "en-fr":
        small.append("model.attention.hidden=8")
    arguments = [word for setting in small for word in ("--set", setting)]
    code = main(["--config", str(FOLDER / f"{name}.yaml"), "--output", str(run), *arguments])
    assert code == 0, capsys.readouterr().err
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert max(line["step"] for line in lines if line["split"] == "train") == 6
    report = json.loads((run / "data_report.json").read_text("utf-8"))
    assert report["splits"]["train"]["read"] == 300
    assert len((run / "test.hypotheses.txt").read_text("utf-8").splitlines()) == 6
