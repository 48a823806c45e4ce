"""river adapters: estimators in process, a remote model, files as streams, feeds into a server."""

from typing import TYPE_CHECKING, Any

from manylabel_extras import require

require(__name__, "river")

from manylabel_clients.river.feed import FeedInterrupted, FeedResult, feed
from manylabel_clients.river.files import (
    ArffFile,
    CsvFile,
    FileFormatError,
    LibsvmFile,
    NdjsonFile,
    NpzFile,
    TsvFile,
    open_stream,
)
from manylabel_clients.river.remote import RemoteModel

if TYPE_CHECKING:
    from manylabel_clients.river.estimators import (
        FALT,
        SALT,
        KernelFALT,
        KernelPassiveAggressive,
        KernelSALT,
        PassiveAggressive,
    )

__all__ = [
    "FALT",
    "SALT",
    "ArffFile",
    "CsvFile",
    "FeedInterrupted",
    "FeedResult",
    "FileFormatError",
    "KernelFALT",
    "KernelPassiveAggressive",
    "KernelSALT",
    "LibsvmFile",
    "NdjsonFile",
    "NpzFile",
    "PassiveAggressive",
    "RemoteModel",
    "TsvFile",
    "feed",
    "open_stream",
]


def __getattr__(name: str) -> Any:
    # Imported on use: the estimators load numba, which a client of a server does not need.
    if name in __all__:
        from manylabel_clients.river import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
