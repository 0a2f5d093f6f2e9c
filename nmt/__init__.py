"""Recurrent neural machine translation with attention, from raw text to the length-decay figure.

The library in a few names; the commands run the same code:

>>> import nmt
>>> translator = nmt.Translator.load("runs/tiny")
>>> [translation] = translator.translate(["oak elm"], beam_size=5)
>>> translation.text
'ELM OAK'
>>> translation.attention.shape  # pieces written, pieces read; both with the end symbol
(3, 3)
>>> sorted(nmt.evaluate("runs/tiny", "test.low", "test.up").scores)[:2]
['bleu', 'chrf']

``import nmt`` is quick: PyTorch is imported when a name is used that needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # as _HOMES has it
    from nmt.config import Config, load_config
    from nmt.errors import NmtError
    from nmt.evaluation.by_length import SystemScores
    from nmt.library.evaluation import evaluate
    from nmt.library.length_curve import LengthCurve, length_curve
    from nmt.library.training import train
    from nmt.translation.results import TranslatedHypothesis, Translation
    from nmt.translation.translator import Translator

__version__ = "0.1.0"
__all__ = [
    "Config",
    "LengthCurve",
    "NmtError",
    "SystemScores",
    "TranslatedHypothesis",
    "Translation",
    "Translator",
    "__version__",
    "evaluate",
    "length_curve",
    "load_config",
    "train",
]

_HOMES = {
    "Config": "nmt.config",
    "LengthCurve": "nmt.library.length_curve",
    "NmtError": "nmt.errors",
    "SystemScores": "nmt.evaluation.by_length",
    "TranslatedHypothesis": "nmt.translation.results",
    "Translation": "nmt.translation.results",
    "Translator": "nmt.translation.translator",
    "evaluate": "nmt.library.evaluation",
    "length_curve": "nmt.library.length_curve",
    "load_config": "nmt.config",
    "train": "nmt.library.training",
}
"""The module of each public name that is not defined here."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'nmt' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
