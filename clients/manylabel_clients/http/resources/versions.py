"""Versions of a trained model, and which one is served."""

from __future__ import annotations

from manylabel_clients.http.resources.resource import Resource, call, new_key, with_query
from manylabel_clients.http.responses import ModelDetail, Promoted, Version
from manylabel_clients.http.transport.exchange import Exchange, read
from manylabel_clients.http.transport.json_body import encode


class VersionCalls(Resource):
    """Calls about the versions of one trained model."""

    @call
    def versions(self) -> Exchange[list[Version]]:
        """Return the versions of the model, newest first."""
        return (yield from self._list(f"{self._path}/versions", "versions", Version))

    @call
    def promote(self, version: int | None = None, *, force: bool = False, key: str | None = None) -> Exchange[Promoted]:
        """Serve another version of a trained model, newer or older, or promote this follower.

        A follower and its leader exchange algorithm and state at one position of the log.

        Parameters
        ----------
        version : int, optional
            Number of a version of a trained model; omitted for a follower.
        force : bool, default=False
            Whether to serve a version whose features or scaling differ from those of the served one.
        key : str, optional
            Idempotency key for a follower: with the same key, a retry does not promote it again.

        Raises
        ------
        Conflict
            The features or scaling of the version differ and `force` is false, or the follower cannot be promoted. The
            message states the reason.
        """
        body = None if version is None else encode({"version": version, **({"force": True} if force else {})})
        # Promoting a version twice has no further effect; promoting a follower twice switches back.
        response = yield from self._post(f"{self._path}/promote", body, new_key(key) if version is None else None)
        return read(response, Promoted)

    @call
    def download_version(self, version: int, *, names: bool = False) -> Exchange[bytes]:
        """Return the bytes of a version's estimator, for `from_bytes` of `manylabel_core.batch`.

        With `names` it is a safetensors file with the estimator and the names of features and labels.
        """
        path = with_query(f"{self._path}/versions/{version}", names="true" if names else None)
        return (yield from self._download(path))

    @call
    def delete_version(self, version: int) -> Exchange[None]:
        """Delete a version that is not served."""
        yield from self._delete(f"{self._path}/versions/{version}")

    @call
    def detail(self, version: int | None = None) -> Exchange[ModelDetail]:
        """Return scores and relations of labels, weights of views, and convergence of the fit.

        The default is the served version; `manylabel_clients.plots` draws the details.
        """
        return (yield from self._get(with_query(f"{self._path}/detail", version=version), ModelDetail))
