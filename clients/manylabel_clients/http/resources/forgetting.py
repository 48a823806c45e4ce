"""Forgetting of examples: requests and receipts."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from manylabel_clients.http.resources.resource import Resource, call, given
from manylabel_clients.http.responses import ForgetReceipt, Verification
from manylabel_clients.http.transport.exchange import Exchange, read
from manylabel_clients.http.transport.json_body import encode


class ForgettingCalls(Resource):
    """Calls to forget examples of one model."""

    @call
    def forget(
        self, *, refs: Iterable[str] | None = None, positions: Iterable[str] | None = None
    ) -> Exchange[ForgetReceipt]:
        """Start to forget the examples with these references, or at these positions of the log. Returns the receipt;
        `receipt` returns its progress.
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
