"""Ids of stored predictions: ULIDs, 26 characters of Crockford's base32.

The first ten characters are the creation time in milliseconds of Unix time (48 bits), the others are random (80 bits).
Ids therefore sort by age, and an unknown id shows whether it may have expired.
"""

import re
from hashlib import blake2b

from manylabel_service.clock import now_ms
from manylabel_service.environment import secrets

N_RANDOM_BYTES = 10
MAX_MS = 2**48 - 1

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
PATTERN = rf"^[0-7][{_DIGITS}]{{25}}$"
"""The characters encode 130 bits, of which the first two are 0."""
_ID = re.compile(PATTERN)


def make(unix_ms: int, random: bytes) -> str:
    """Return an id. Raises ValueError if a parameter is not allowed.

    Parameters
    ----------
    unix_ms : milliseconds of Unix time, 0 to `MAX_MS`.
    random : `N_RANDOM_BYTES` bytes.

    Examples
    --------
    >>> make(1_700_000_000_000, bytes(10))
    '01HF7YAT000000000000000000'
    """
    if not 0 <= unix_ms <= MAX_MS:
        raise ValueError(f"unix_ms must be 0 to {MAX_MS}, not {unix_ms}")
    if len(random) != N_RANDOM_BYTES:
        raise ValueError(f"random must be {N_RANDOM_BYTES} bytes, not {len(random)}")
    number = unix_ms << 80 | int.from_bytes(random)
    return "".join(_DIGITS[number >> shift & 31] for shift in range(125, -1, -5))


def new() -> str:
    """Return a random id with the current time."""
    return make(now_ms(), secrets.token_bytes(N_RANDOM_BYTES))


def valid(id: str) -> bool:
    """Return whether a string is an id."""
    return _ID.fullmatch(id) is not None


def timestamp_of(id: str) -> int:
    """Return the creation time of an id, in milliseconds of Unix time. Raises ValueError if the string is not an id."""
    if not valid(id):
        raise ValueError(f"a prediction id has 26 characters of Crockford's base32, not {id!r}")
    ms = 0
    for digit in id[:10]:
        ms = ms << 5 | _VALUES[digit]
    return ms


def chance(id: str) -> float:
    """Return a uniform number, at least 0 and below 1, by a hash of an id; only the id is known to determine it."""
    digest = blake2b(id.encode(), digest_size=8, person=b"chance").digest()
    return (int.from_bytes(digest) >> 11) * 2.0**-53
