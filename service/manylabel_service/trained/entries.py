"""What stands in the log of a trained model.

A version comes in two entries. A `Reserve` gives a job a position, at which the contents are then stored; a `Commit`
says that they are there, and only then there is a version. So a publisher may die at any moment: what it leaves is
listed nowhere, and it, or another, goes on from there.

Now and then a `Compaction` of all before comes into the log, which is trimmed then: promoting to and fro does not
make it longer and longer.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from manylabel_service.errors import UnreadableEntry


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Reserve(_Entry):
    """The position of this entry is for the contents of a job's version."""

    kind: Literal["draft"] = "draft"
    job: str


class Commit(_Entry):
    """The contents of a job's version are complete, at the position of its draft."""

    kind: Literal["whole"] = "whole"
    job: str
    at: str
    promote: bool
    trainer: str
    params: dict[str, Any]
    rows: int
    measures: dict[str, float] | None
    created_unix_ms: int
    size_bytes: int


class Promote(_Entry):
    """From here on this version is served."""

    kind: Literal["promote"] = "promote"
    version: int


class Delete(_Entry):
    """There is no such version any more."""

    kind: Literal["retire"] = "retire"
    version: int


class Listed(_Entry):
    """A version, in a summary."""

    number: int
    position: str
    size_bytes: int
    job: str
    trainer: str
    params: dict[str, Any]
    rows: int
    measures: dict[str, float] | None
    created_unix_ms: int


class Compaction(_Entry):
    """What the log up to `as_of` comes to. Entries may stand between that position and this one."""

    kind: Literal["summary"] = "summary"
    as_of: str
    last: int
    served: int | None
    versions: list[Listed]
    retired: list[Listed]
    """Deleted versions whose jobs must not make another."""
    drafts: dict[str, str]


Entry = Reserve | Commit | Promote | Delete | Compaction

_ENTRY: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")])


def encode(entry: Entry) -> bytes:
    """An entry as bytes of JSON."""
    return entry.model_dump_json().encode()


def decode(payload: bytes) -> Entry:
    """The entry that `encode` wrote.

    Raises
    ------
    UnreadableEntry
        The bytes are not one, or one that only a newer program knows.
    """
    try:
        return _ENTRY.validate_json(payload)
    except ValidationError as error:
        raise UnreadableEntry(f"not an entry of a trained model: {error}") from error
