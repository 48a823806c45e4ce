"""Catalogue of the history of a model: a document that names its segments. Its states are snapshots."""

from typing import NamedTuple, Self

import structlog
from pydantic import ConfigDict

from manylabel_service.errors import BlobDamaged, BlobNotFound
from manylabel_service.storage import (
    START,
    ModelMeta,
    Store,
    StoredModel,
    position_key,
)
from manylabel_service.storage.blob_collection import BlobCollection

KIND = "history"
"""Kind of the documents, which are named by the incarnation."""

BLOBS = "history/"

MAX_SEGMENTS = 4_096
"""Maximum number of segments of one history, because their names must fit in one document."""

log = structlog.get_logger()


class Segment(NamedTuple):
    """Bounds of a segment: it has the entries after one position, up to another."""

    id: str
    after: str
    through: str
    entries: int
    raw_bytes: int
    """Total size of the payloads in bytes."""
    size_bytes: int
    """Size of the blob in bytes."""
    first_ms: int
    last_ms: int
    """Times of the first and the last entry in milliseconds."""


class Catalogue(StoredModel):
    """Segments of a history, in the order of the log.

    Entries after `begin` are in the segments, later ones in the log. There is a snapshot at `begin`, unless that is the
    beginning of the log, or no state is stored yet.

    Attributes
    ----------
    moved_to : position in the log of this store that corresponds to the end of the last segment, if this segment comes
        from a store with other positions; there are no entries in between.
    """

    model_config = ConfigDict(frozen=True)

    begin: str = START
    segments: tuple[Segment, ...] = ()
    moved_to: str | None = None

    @property
    def through(self) -> str:
        """Position up to which the log is in segments."""
        return self.moved_to or (self.segments[-1].through if self.segments else self.begin)

    @property
    def size_bytes(self) -> int:
        """Total size of all blobs in bytes."""
        return sum(each.size_bytes for each in self.segments)

    @property
    def ids(self) -> set[str]:
        """Ids of all blobs."""
        return {each.id for each in self.segments}

    def segment_after(self, position: str) -> Segment | None:
        """Return the segment with the first entry after a position; None if no segment has it."""
        key = position_key(position)
        if key < position_key(self.begin):
            return None
        return next((segment for segment in self.segments if position_key(segment.through) > key), None)

    def with_segment(self, segment: Segment) -> Self:
        """Return the catalogue with one more segment at the end."""
        return self.model_copy(update={"segments": (*self.segments, segment), "moved_to": None})

    def beginning_at(self, begin: str) -> Self:
        """Return the history after a position; the segment with this position stays whole."""
        key = position_key(begin)
        segments = tuple(segment for segment in self.segments if position_key(segment.through) > key)
        moved_to = self.moved_to if segments else None
        return self.model_copy(update={"begin": begin, "segments": segments, "moved_to": moved_to})


class CatalogueStore(BlobCollection[Catalogue]):
    """Catalogue and segments of one model."""

    def __init__(self, record: ModelMeta, store: Store) -> None:
        super().__init__(
            store.documents, store.blobs, KIND, str(record.incarnation), Catalogue, lambda found: found.ids
        )


LOST = (BlobNotFound, BlobDamaged)
"""Errors that mean that a blob of a catalogue is unreadable."""
