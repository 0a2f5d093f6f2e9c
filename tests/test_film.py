"""The film of learning in a run: recorded in training, cut where a run goes back, thinned."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from nmt.data.corpus import Pair
from nmt.errors import FileError
from nmt.runs.directory import RunDirectory
from nmt.runs.loading import load_run
from nmt.runs.log import SENTENCES, Filmed, add_frame, read_film
from nmt.translation.forced import force
from tests.comparison import differences
from tests.small_run import config, metrics, pickles, train
from tests.test_resume import train_until_crash

SENTENCE = Filmed("a b", "A", ["▁a", "▁b", "</s>"], ["▁A", "</s>"])


def frame(value: float = 0.5, sentence: Filmed = SENTENCE) -> list[tuple[Filmed, Any]]:
    return [(sentence, np.full((2, 3), value))]


def test_training_films_the_attention_while_it_reads_the_references(folder: Path) -> None:
    train(config(folder, output="filmed", validation={"samples": 1, "sentences": 3}))
    run, cpu = RunDirectory(folder / "filmed"), torch.device("cpu")
    found = read_film(run.film)
    assert found is not None and found.updates.tolist() == [2, 4] and pickles(run.path) == []
    lines = zip(*((folder / f"validation.{side}").read_text().splitlines() for side in ("low", "up")), strict=True)
    pairs = [Pair(each.source, each.reference) for each in found.sentences]
    assert pairs == [Pair(*both) for both in lines][:3]
    last = load_run(run.path, cpu, "last")
    expected = force(last.network, last.tokenizers, pairs, cpu)
    for sentence, weights, (_, forced) in zip(found.sentences, found.weights, expected, strict=True):
        assert (sentence.source_pieces, sentence.target_pieces) == (forced.source_pieces, forced.target_pieces)
        assert forced.attention is not None
        np.testing.assert_allclose(weights[-1], forced.attention, atol=1e-3)
    train(config(folder, "none", output="unfilmed", validation={"samples": 1}))
    assert read_film(RunDirectory(folder / "unfilmed").film) is None


def test_a_resumed_run_neither_loses_nor_doubles_a_frame(folder: Path) -> None:
    """Stopped between validations, and crashed between a frame and the checkpoint of its update."""
    how: dict[str, Any] = {"updates": 6, "save_every": 1, "validation": {"samples": 1}}
    whole, parts = (config(folder, output=name, **how) for name in ("whole", "parts"))
    train(whole)
    train(parts, stop_after=3)
    train_until_crash(parts, 4, method="save", resume=True)
    film_of_parts = read_film(folder / "parts" / "film.safetensors")
    assert film_of_parts is not None and film_of_parts.updates.tolist() == [2, 4]
    train(parts, resume=True)
    assert (folder / "parts" / "film.safetensors").read_bytes() == (folder / "whole" / "film.safetensors").read_bytes()
    assert [each["step"] for each in metrics(folder / "parts", "validation")] == [2, 4, 6]
    train(config(folder, output="bare", **how | {"validation": {"samples": 0}}))
    unfilmed = {"film.safetensors", "samples.jsonl"}
    assert set(differences(folder / "whole", folder / "bare")) <= unfilmed, "filming changes no training"


def test_frames_are_cut_and_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "film.safetensors"

    def updates() -> list[int]:
        found = read_film(path)
        assert found is not None and found.weights[0].shape == (len(found.updates), 2, 3)
        return [int(each) for each in found.updates]

    for update in (10, 20, 30):
        add_frame(path, update, frame(update / 40))
    add_frame(path, 20, frame(1.0))
    add_frame(path, 30, frame(math.nan))
    assert updates() == [10, 20]
    found = read_film(path)
    assert found is not None and found.weights[0][:, 0, 0].tolist() == [0.25, 1.0]
    monkeypatch.setattr("nmt.runs.log.MOST_FRAMES", 6)
    for update in range(30, 2010, 10):
        add_frame(path, update, frame())
        assert len(updates()) <= 6 and updates()[-1] == update
    ratios = np.array(updates()[1:]) / updates()[:-1]
    assert updates()[0] == 10 and ratios[:-1].min() >= 2 and ratios.max() < 4, "early frames are denser"
    add_frame(path, 210, frame(sentence=Filmed("b", "A", ["▁b", "</s>", "x"], ["▁A", "</s>"])))
    assert updates() == [210], "another film begins"
    with pytest.raises(FileError, match=r"film\.safetensors: cannot be written"):
        add_frame(tmp_path / "no" / "film.safetensors", 1, frame())


def test_a_malformed_film_is_no_film(tmp_path: Path) -> None:
    path = tmp_path / "film.safetensors"
    assert read_film(path) is None
    add_frame(path, 10, frame())
    arrays, sentences = load_file(path), SENTENCES.dump_json([SENTENCE]).decode()
    no_weights = {"updates": arrays["updates"]}
    for changed, text in ((arrays, sentences[:-1]), (arrays, "[]" * 9), (no_weights, sentences)):
        save_file(changed, path, {"sentences": text})
        assert read_film(path) is None
    save_file(arrays, path)
    assert read_film(path) is None
    path.write_bytes(path.read_bytes()[:-1])
    assert read_film(path) is None
    add_frame(path, 20, frame())
    assert read_film(path) is not None
