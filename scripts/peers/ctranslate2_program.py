"""Translate a file with CTranslate2 and a directory that ``nmt-export --ctranslate2`` has written: ``DIR SOURCE OUTPUT
BEAM PRECISION WORKERS THREADS``. Runs in CTranslate2's environment, without this toolkit.
"""

import sys
from pathlib import Path

import ctranslate2
import sentencepiece


def translate(folder: str, source: str, output: str, beam: str, precision: str, workers: str, threads: str) -> None:
    """Translate a file: workers, each of which translates batches of its own, of 64 sentences of like length, with some
    threads."""
    pieces = {
        side: sentencepiece.SentencePieceProcessor(model_file=f"{folder}/{side}.model") for side in ("source", "target")
    }
    how = {"inter_threads": int(workers), "intra_threads": int(threads)}
    translator = ctranslate2.Translator(folder, compute_type=precision, **how)
    results = translator.translate_batch(
        [pieces["source"].encode(line, out_type=str) for line in read_lines(source)],
        beam_size=int(beam),
        max_batch_size=64,
        length_penalty=1.0,
        max_decoding_length=256,
    )
    texts = [pieces["target"].decode(result.hypotheses[0]) for result in results]
    Path(output).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def read_lines(path: str) -> list[str]:
    """Read the lines of a file that has some. A line ends with a line feed and nothing else does, as in the toolkit."""
    return Path(path).read_bytes().decode("utf-8").removesuffix("\n").split("\n")


if __name__ == "__main__":
    translate(*sys.argv[1:])
