"""Requests to forget examples, receipts, and results of verifications."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from manylabel_service.api.schemas.base import ResponseModel
from manylabel_service.documented import Documented
from manylabel_service.hosting.examples import MAX_REF_BYTES
from manylabel_service.storage import POSITION

MAX_SELECTED = 1_000
"""Maximum references or positions of one request."""

_Ref = Annotated[str, Field(strict=True, min_length=1, max_length=MAX_REF_BYTES)]
_Position = Annotated[str, Field(strict=True, max_length=64, json_schema_extra={"pattern": POSITION})]


class ForgetRequest(Documented):
    """Request to forget examples: either those with a reference, or those of some entries of the log."""

    model_config = ConfigDict(extra="forbid")

    refs: Annotated[list[_Ref], Field(min_length=1, max_length=MAX_SELECTED, fail_fast=True)] | None = None
    """References (`ref`) of the examples."""
    positions: Annotated[list[_Position], Field(min_length=1, max_length=MAX_SELECTED, fail_fast=True)] | None = None
    """Positions of entries of the log, all of whose examples are forgotten."""


class ForgetReceipt(ResponseModel):
    """Receipt of a request to forget examples."""

    id: str
    """Id of the receipt."""
    model: str
    """Name of the model."""
    status: Literal["running", "done", "failed"]
    """Whether it is in progress, done, or failed; then nothing has changed."""
    created: str
    """Time of the request (RFC 3339, UTC)."""
    ended: str | None
    """Time of the end; null while it is running."""
    key_id: str | None
    """Id of the API key that requested it; null without a key."""
    entries: int
    """Number of entries of the log that had such examples."""
    examples: int
    """Number of examples that were forgotten; 0 if the history has none of them."""
    predictions: int
    """Number of stored predictions that were deleted, because these examples labelled them."""
    since: str | None
    """Position at which the history of the model begins. Earlier examples are not in the history and cannot be
    forgotten: they stay in the weights.
    """
    first: str | None
    """Position of the first entry that had such an example."""
    position: str | None
    """Position of the log at which the new state took the place of the old one."""
    checksum_before: str | None
    """Checksum of the old state at this position, recomputed from the history and equal to that of the model."""
    checksum_after: str | None
    """Checksum of the new state at this position."""
    metrics_before: dict[str, float | None] | None
    """Cumulative metrics of the old state at this position, as in `GET /v1/models/{name}/metrics`."""
    metrics_after: dict[str, float | None] | None
    """Cumulative metrics of the new state at this position."""
    build: str | None
    """Build of the server that computed both states."""
    replay_version: int | None
    """Replay version of both states."""
    kept: list[str]
    """Copies that are not deleted and need a check: forks, datasets, versions, downloads."""
    beyond_reach: list[str]
    """Copies that the server cannot delete."""
    archive: Literal["pending", "purged"] | None
    """`pending` until the next pass of the archive has deleted the old model, then `purged`; null without an archive.
    """
    error: str | None
    """Reason why it failed."""


class ForgetReceipts(ResponseModel):
    """Receipts of a model."""

    receipts: list[ForgetReceipt]
    """Receipts, the latest first; at most 100."""


class Verification(ResponseModel):
    """Comparison of stored states with the replayed history."""

    equal: bool
    """Whether all are equal, bit for bit."""
    since: str
    """Position at which the history of the model begins."""
    position: str
    """Position of the latest state that was compared."""
    states: int
    """Number of states that were compared."""
    differs_at: str | None
    """Position of the first that differs; null if none does."""
