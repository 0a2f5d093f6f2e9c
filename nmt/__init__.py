"""Recurrent neural machine translation with attention, from raw text to the length-decay figure.

>>> import nmt
>>> nmt.Translator.load("runs/tiny").translate("oak elm").text
'ELM OAK'

``import nmt`` is quick: PyTorch is imported when a name is used that needs it.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # as _PUBLIC has it
    from nmt.config import Config as Config
    from nmt.config import load_config as load_config
    from nmt.errors import NmtError as NmtError
    from nmt.errors import NmtWarning as NmtWarning
    from nmt.evaluation.by_length import SystemScores as SystemScores
    from nmt.experiments.evaluation import evaluate as evaluate
    from nmt.experiments.length_curve import LengthCurve as LengthCurve
    from nmt.experiments.length_curve import length_curve as length_curve
    from nmt.search.greedy import Sampling as Sampling
    from nmt.training.train import train as train
    from nmt.translation.results import TranslatedHypothesis as TranslatedHypothesis
    from nmt.translation.results import Translation as Translation
    from nmt.translation.translator import Translator as Translator

__version__ = "0.1.0"

# oneDNN, and PyTorch beside it, keep a compiled matrix product for each shape, by default 1,024 each. They take
# gigabytes, and compiling a product again costs no measurable time. Both read their limit when they are first used.
for _limit in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_limit, "16")

_PUBLIC = {
    "nmt.config": ("Config", "load_config"),
    "nmt.errors": ("NmtError", "NmtWarning"),
    "nmt.evaluation.by_length": ("SystemScores",),
    "nmt.experiments.evaluation": ("evaluate",),
    "nmt.experiments.length_curve": ("LengthCurve", "length_curve"),
    "nmt.search.greedy": ("Sampling",),
    "nmt.training.train": ("train",),
    "nmt.translation.results": ("TranslatedHypothesis", "Translation"),
    "nmt.translation.translator": ("Translator",),
}
_HOMES = {name: module for module, names in _PUBLIC.items() for name in names}
"""The module of each public name that is not defined here."""
__all__ = ["__version__", *_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'nmt' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
