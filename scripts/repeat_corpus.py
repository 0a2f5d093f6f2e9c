"""Repeat a corpus, to try what a larger one needs: each repetition of each file becomes a file of its own, a shard.

examples:
  python scripts/repeat_corpus.py train.en.xz train.fr.xz --times 10 --output big
  python scripts/repeat_corpus.py train.tsv.gz --times 3 --output big

The first writes big/train-0001.en, big/train-0001.fr, ..., big/train-0010.fr, for a configuration with
data.train: {source: big/train-*.en, target: big/train-*.fr}.
"""

import argparse
import shutil
from pathlib import Path

from nmt.cli.common import command, say
from nmt.cli.files import writing
from nmt.cli.signature import whole
from nmt.data.lines import OPENERS, read_lines


def parser() -> argparse.ArgumentParser:
    """Define the options."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("files", nargs="+", metavar="FILE", help="text, also .gz and .xz; written as plain text")
    arguments.add_argument("--times", type=whole(1), default=10, metavar="N", help="repetitions (default: 10)")
    arguments.add_argument("--output", required=True, metavar="DIR", help="directory of the shards")
    return arguments


def repeat(path: Path, times: int, output: Path) -> list[Path]:
    """Write the shards of one file; the lines of each are those of the file."""
    name = Path(path.name.removesuffix(path.suffix) if path.suffix in OPENERS else path.name)
    shards = [output / f"{name.stem}-{number:04}{name.suffix}" for number in range(1, times + 1)]
    with writing(str(shards[0])), shards[0].open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in read_lines(path))
    for shard in shards[1:]:
        with writing(str(shard)):
            shutil.copyfile(shards[0], shard)
    return shards


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Repeat every file."""
    output = Path(arguments.output)
    with writing(str(output)):
        output.mkdir(parents=True, exist_ok=True)
    for path in map(Path, arguments.files):
        shards = repeat(path, arguments.times, output)
        say(f"{shards[0]} to {shards[-1].name}")


if __name__ == "__main__":
    raise SystemExit(main())
