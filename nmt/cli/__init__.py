"""The command line: a typed function is a command; its parameters are the options, its docstring is the help.

``nmt-prepare`` is the function ``prepare`` in ``prepare.py``, and so are the others. Parameters before ``*`` are
positional arguments, those after it options, and ``**decoding`` stands for an option for each key of the section
``decoding``. Another heading than ``Args:`` names a group in ``--help``; the last paragraph of a docstring may be
``examples:``. A new command needs a line below and one in ``pyproject.toml``.
"""

COMMANDS = {
    "nmt-prepare": "checks and encodes a corpus",
    "nmt-train": "trains a system",
    "nmt-translate": "translates lines",
    "nmt-score": "computes log-probabilities and alignments of existing translations",
    "nmt-evaluate": "computes BLEU, chrF, scores by length, alignment error rate",
    "nmt-length-curve": "draws BLEU against source length, and measures why it falls",
    "nmt-experiment": "trains systems with several seeds and compares them",
    "nmt-report": "writes one HTML page to explore systems",
    "nmt-serve": "serves a system over HTTP",
    "nmt-export": "prepares a run for browsers, CTranslate2, ONNX Runtime or the Hugging Face hub",
}
