"""Forgetting of examples: requests and receipts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from manylabel_clients.http.resources.resource import Resource, call, given
from manylabel_clients.http.transport.exchange import Exchange, read
from manylabel_clients.http.transport.json_body import encode


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """Result of a request to forget examples."""

    id: str
    model: str
    status: str
    """"running", "done" or "failed"; then nothing has changed."""
    created: str
    ended: str | None
    key_id: str | None
    entries: int
    """Number of entries of the log that contained these examples."""
    examples: int
    """Number of examples forgotten; 0 if the history has none of them."""
    predictions: int
    """Number of stored predictions deleted, because these examples labelled them."""
    since: str | None
    """Position at which the history begins; what was taught before stays in the weights."""
    first: str | None
    position: str | None
    """Log position at which the new state replaced the old one."""
    checksum_before: str | None
    checksum_after: str | None
    metrics_before: dict[str, float | None] | None
    """Cumulative metrics of the old state at this position."""
    metrics_after: dict[str, float | None] | None
    build: str | None
    kept: Sequence[str]
    """Copies that are not deleted and need a check."""
    beyond_reach: Sequence[str]
    """Copies that the server cannot delete."""
    archive: str | None
    """"pending" while the archive has the examples, then "purged"; None without an archive."""
    error: str | None


@dataclass(frozen=True, slots=True)
class Verification:
    """Comparison of stored states with the replayed history."""

    equal: bool
    since: str
    position: str
    states: int
    differs_at: str | None


class ForgettingCalls(Resource):
    """Calls to forget examples of one model."""

    @call
    def forget(
        self, *, refs: Iterable[str] | None = None, positions: Iterable[str] | None = None
    ) -> Exchange[ForgetReceipt]:
        """Start to forget the examples of references, or of positions in the log; return the receipt, whose progress
        `receipt` returns.
        """
        which = given(
            refs=None if refs is None else list(refs), positions=None if positions is None else list(positions)
        )
        return read((yield from self._post(f"{self._path}/forget", encode(which))), ForgetReceipt)

    @call
    def receipts(self) -> Exchange[list[ForgetReceipt]]:
        """Return the receipts of the model, the latest first; at most 100."""
        return (yield from self._list(f"{self._path}/forget", "receipts", ForgetReceipt))

    @call
    def receipt(self, id: str) -> Exchange[ForgetReceipt]:
        """Return a receipt."""
        return (yield from self._get(f"{self._path}/forget/{quote(id, safe='')}", ForgetReceipt))

    @call
    def verify(self) -> Exchange[Verification]:
        """Replay the history of the model, and compare each stored state."""
        return read((yield from self._post(f"{self._path}/verify", None)), Verification)
