"""Learning on arrays, independent of HTTP, storage and clocks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manylabel_core import batch
from manylabel_extras import require

if TYPE_CHECKING:
    from manylabel_core.batch import LSAMML, M3L, MLRL, SSMLRL, PrBR, PrML
    from manylabel_core.metrics import Prequential
    from manylabel_core.online import FALT, SALT, KernelFALT, KernelPassiveAggressive, KernelSALT, PassiveAggressive
    from manylabel_core.records.vectorizer import RecordVectorizer
    from manylabel_core.vocabulary import Vocabulary

require(__name__, "core")

__all__ = [
    "FALT",
    "LSAMML",
    "M3L",
    "MLRL",
    "SALT",
    "SSMLRL",
    "KernelFALT",
    "KernelPassiveAggressive",
    "KernelSALT",
    "PassiveAggressive",
    "PrBR",
    "PrML",
    "Prequential",
    "RecordVectorizer",
    "Vocabulary",
]

_HOMES = {
    **dict.fromkeys(__all__, "online"),
    **dict.fromkeys(batch.__all__, "batch"),
    "Prequential": "metrics",
    "RecordVectorizer": "records.vectorizer",
    "Vocabulary": "vocabulary",
}
"""Module of each name; the others are online learners."""


def __getattr__(name: str) -> Any:
    # Imported on first use: the learners load numba, which code that only reads a dataset or a state does not need.
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
