"""Compare this checkout with another one, to the last digit.

Both train the demo's three systems and the reference shape on the demo corpus for a few updates, with ``kernels: auto``
and ``plain``, one thread each, and translate. The losses, scores and translations must be equal. Results of an earlier
call are used again only for the same commit and the same options.

    git worktree add ../older COMMIT
    python scripts/same_numbers.py --other ../older
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
COMMAND = "import sys; from nmt.cli.train import main; sys.exit(main())"
TIMES = ("seconds", "target_tokens_per_second")
"""Values of a metrics line that no two runs share."""
FILES = {"source": "en", "target": "fr"}
SMALL = {
    "embeddings": {"size": 128, "tie": "target"},
    "encoder": {"hidden": 128},
    "decoder": {"hidden": 128},
    "dropout": {"embedding": 0.1, "annotation": 0.0, "readout": 0.1},
}
MODELS: dict[str, dict[str, Any]] = {
    "none": {"attention": {"type": "none"}, **SMALL},
    "bahdanau": {"attention": {"type": "bahdanau", "score": {"hidden": 128}}, **SMALL},
    "luong": {"attention": {"type": "luong", "score": "general"}, **SMALL},
    "reference": {
        "attention": {"type": "bahdanau", "score": {"hidden": 512}},
        "embeddings": {"size": 256},
        "encoder": {"hidden": 512},
        "decoder": {"hidden": 512, "readout": 512},
    },
}


def configuration(
    model: str, kernels: str, precision: str, updates: int, corpus: Path, optimizer: str
) -> dict[str, Any]:
    """The configuration of one training run; ``optimizer`` is the key that the checkout has for it."""

    def split(name: str, **options: int) -> dict[str, Any]:
        return {side: str(corpus / f"{name}.{language}") for side, language in FILES.items()} | options

    return {
        "threads": 1,
        "kernels": kernels,
        "precision": precision,
        "data": {
            "source_language": "en",
            "target_language": "fr",
            "train": split("train"),
            "validation": split("validation", limit=200),
            "test": split("test", limit=100),
        },
        "tokenizer": {"type": "bpe", "vocabulary": 2500},
        "model": MODELS[model],
        "training": {
            "updates": updates,
            "batch_tokens": 3600,
            "log_every": 5,
            optimizer: {"type": "adam", "learning_rate": 5e-3, "betas": [0.9, 0.98]},
            "schedule": {"type": "inverse_square_root", "warmup": 100},
            "validation": {"every": 30, "first": None, "sentences": 60},
        },
        "evaluation": {
            "bins": [10, 20, 30, 40, 50, 60],
            "gold": {**split("validation"), "links": str(corpus / "validation.align"), "limit": 60},
        },
    }


def state(checkout: Path) -> str:
    """Return the commit of a checkout, and a digest of what was changed since."""
    git = ["git", "-C", str(checkout)]
    commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    changes = subprocess.run([*git, "diff", "HEAD"], capture_output=True, check=True).stdout
    return commit.strip() + (f"-{hashlib.sha256(changes).hexdigest()[:8]}" if changes else "")


def train(
    checkout: Path, folder: Path, corpus: Path, model: str, kernels: str, precision: str, updates: int
) -> dict[str, Any]:
    """Train once in a checkout, unless ``folder`` holds it already; return what must be the same everywhere."""
    run = folder / f"{model}-{kernels}-{precision}-{updates}"
    if not (run / "test.hypotheses.txt").exists():
        folder.mkdir(parents=True, exist_ok=True)
        schema = "".join(path.read_text() for path in (checkout / "nmt" / "config").rglob("*.py"))
        key = "optimizer" if "optimizer:" in schema else "optimiser"
        config = configuration(model, kernels, precision, updates, corpus, key)
        path = run.with_suffix(".yaml")
        path.write_text(yaml.safe_dump(config))
        subprocess.run(
            [sys.executable, "-c", COMMAND, "--config", path, "--output", run, "--overwrite"],
            env=os.environ | {"PYTHONPATH": str(checkout), "NMT_CACHE": str(folder / "cache")},
            cwd=folder,  # not the checkout: what is imported must come from PYTHONPATH
            check=True,
            stderr=subprocess.DEVNULL,
        )
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        "metrics": [{name: value for name, value in line.items() if name not in TIMES} for line in lines],
        "translations": (run / "test.hypotheses.txt").read_text(),
    }


def main() -> int:
    """Train in both checkouts and compare; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, required=True, metavar="CHECKOUT", help="a checkout of another commit")
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "same", metavar="DIR", help="where runs go")
    parser.add_argument("--updates", type=int, default=60, metavar="N", help="updates of each run (default: 60)")
    parser.add_argument("--precision", default="auto", help="auto (the default: as the demo), fp32 or bf16")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="runs at the same time (default: 2)")
    arguments = parser.parse_args()
    corpus = arguments.output.resolve() / "corpus"
    if not (corpus / "train.en").exists():
        subprocess.run([sys.executable, ROOT / "scripts" / "make_demo_corpus.py", "--output", corpus], check=True)
    names = [(model, kernels) for model in MODELS for kernels in ("auto", "plain")]
    folders = {checkout: state(checkout) for checkout in (arguments.other.resolve(), ROOT)}

    def compare(name: tuple[str, str]) -> bool:
        found = [
            train(checkout, arguments.output.resolve() / folder, corpus, *name, arguments.precision, arguments.updates)
            for checkout, folder in folders.items()
        ]
        same = found[0] == found[1]
        last = [line["loss"] for line in found[1]["metrics"] if line["split"] == "train"][-1]
        print(f"{' '.join(name)}: {'same' if same else 'DIFFERENT'} (last loss {last!r})", flush=True)
        return same

    with ThreadPoolExecutor(arguments.jobs) as pool:
        return 0 if all(list(pool.map(compare, names))) else 1


if __name__ == "__main__":
    sys.exit(main())
