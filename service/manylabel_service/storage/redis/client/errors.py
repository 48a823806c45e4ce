"""Translation of errors of Redis and of the connection to errors of the service."""

import ssl

import redis.exceptions as failed

from manylabel_service.errors import StorageFull, StorageUnavailable, StoreUnusable

# Refusal of Redis -> what the operator should do, and whether the same call succeeds once that is done.
_REFUSALS: tuple[tuple[type[Exception], str, bool], ...] = (
    (failed.OutOfMemoryError, "it has reached its maxmemory: raise it", True),
    (failed.ReadOnlyError, "it is a replica now: the address must be that of the primary", True),
    (failed.BusyLoadingError, "it is loading its data", True),
    (failed.ClusterDownError, "its cluster lacks a node", True),
    (failed.TryAgainError, "its cluster is moving keys", True),
    (failed.NoPermissionError, "its user needs more rights, see docs/operations.md", False),
    (failed.AuthenticationError, "set a valid user and password", False),
)

# By the first word, for errors without a class in the client library, and for errors inside a script, which Redis
# before 7.0 wraps into text such as "ERR Error running script (...): -OOM command not allowed ...".
_WORDS = {
    "OOM": _REFUSALS[0][1:],
    "READONLY": _REFUSALS[1][1:],
    "MISCONF": ("it cannot write to its disk, see its own log", True),
    "NOREPLICAS": ("it has fewer replicas than min-replicas-to-write", True),
    "BUSY": ("it is busy with a script", True),
}

UNREACHED = (
    failed.ConnectionError,
    failed.TimeoutError,
    failed.RedisClusterException,
    OSError,
    TimeoutError,
)
"""Errors of a call without a response from Redis, except those in `_REFUSALS`."""


def gone(error: BaseException, address: str) -> StorageUnavailable:
    """Return the exception to raise for an error from a store that had already been opened."""
    if (refusal := _refusal(error)) is not None:
        advice, heals = refusal
        detail = f"Redis at {address} refused: {_text(error)}; {advice}"
        return StorageFull(detail) if refusal == _WORDS["OOM"] else StorageUnavailable(detail, heals)
    if isinstance(error, failed.TimeoutError | TimeoutError):
        return StorageUnavailable(
            f"Redis at {address} did not respond in time; check that it runs and the network", heals=True
        )
    # A Redis that requires a client certificate and does not accept it closes the connection, usually without an
    # error.
    tls = "rediss:" in address
    asked = ", and that it accepts the client certificate, if it requires one (redis_cert_file)" if tls else ""
    return StorageUnavailable(
        f"no connection to Redis at {address} ({_text(error)}); check that it runs{asked}", heals=True
    )


def unusable(error: StorageUnavailable, address: str) -> StoreUnusable | None:
    """Return the exception to raise at opening for a permanent error; None for a transient one."""
    cause = error.__cause__
    if isinstance(cause, failed.AuthenticationError | failed.NoPermissionError):
        return StoreUnusable(
            f"Redis at {address} rejects the login ({_text(cause)}): set a valid user and password, in the "
            "address or as redis_password, and that user the rights named in docs/operations.md"
        )
    if (reason := _certificate_error(cause)) is not None:
        return StoreUnusable(
            f"Redis at {address} has a certificate that is not trusted ({reason}): name the file of its authority "
            "as redis_ca_file"
        )
    return None if error.heals else StoreUnusable(error.detail)


def forbidden(error: StorageUnavailable) -> bool:
    """Return whether Redis forbids or renames a command, as managed services do."""
    cause = error.__cause__
    return isinstance(cause, failed.NoPermissionError) or "unknown command" in str(cause)


def _refusal(error: BaseException) -> tuple[str, bool] | None:
    for kind, advice, heals in _REFUSALS:
        if isinstance(error, kind):
            return advice, heals
    if not isinstance(error, failed.ResponseError):
        return None
    text = str(error)
    found = [meaning for word, meaning in _WORDS.items() if text.startswith(f"{word} ") or f"-{word} " in text]
    return found[0] if found else ("see the cause", False)


def _certificate_error(error: BaseException | None) -> str | None:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message or str(error)
        error = error.__cause__ or error.__context__
    return None


def _text(error: BaseException) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__
