"""Pure learning: arrays in, arrays out. Knows no HTTP, no storage and no clock."""

from pathlib import Path

from manylabel_core._compiled import discard_stale_kernels

discard_stale_kernels(Path(__file__).parent)  # before any kernel is loaded

from manylabel_core.metrics import Prequential  # noqa: E402
from manylabel_core.online import FALT, SALT, KernelFALT  # noqa: E402
from manylabel_core.vocabulary import Vocabulary  # noqa: E402

__all__ = ["FALT", "SALT", "KernelFALT", "Prequential", "Vocabulary"]
