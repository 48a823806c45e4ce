"""Limits of a record, and the error of a rejected one."""

from dataclasses import dataclass
from hashlib import blake2b

MAX_NAME_BYTES = 256
"""Maximum length of a feature name, in bytes of UTF-8."""

SURELY_SHORT = MAX_NAME_BYTES // 4
"""Number of characters up to which a name never exceeds the maximum."""

_DIGEST_BYTES = 8

MAX_VECTOR_LENGTH = 8_192
"""Maximum number of values of a vector."""

PACKED = ("f32", "f16")
"""Key of an object that holds a vector in base64, and its type: little-endian float32 or float16."""

MAX_VECTOR_FIELDS = 8
"""Maximum number of vector fields in the records of a model."""

Path = tuple[str | int, ...]
"""Path to a value in a record: keys of objects, positions in lists."""


class RecordError(ValueError):
    """A record is invalid.

    `path` has the keys of objects and positions in lists, () for the record itself; `detail` states the allowed values
    and follows the name of the field.
    """

    def __init__(self, path: Path, detail: str) -> None:
        place = ".".join(map(str, path)) or "the record"
        super().__init__(f"{place.encode(errors='backslashreplace').decode()} {detail}")
        self.path = path
        self.detail = detail


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """Limits on the time and memory of one record."""

    characters: int = 100_000
    """Maximum number of characters of all strings together."""
    tokens: int = 50_000
    """Maximum number of tokens (words, runs of words, parts of words) of all texts together, including repeated ones.
    """
    depth: int = 8
    """Maximum depth of nested objects, including the record."""
    fields: int = 50_000
    """Maximum number of fields, including those of nested objects, and of strings in lists."""


def bounded(name: str) -> str:
    """Return a name of at most `MAX_NAME_BYTES`; the end of a longer name is replaced by a digest of the whole name."""
    if len(name) <= SURELY_SHORT:
        return name
    written = name.encode()
    if len(written) <= MAX_NAME_BYTES:
        return name
    digest = blake2b(written, digest_size=_DIGEST_BYTES).hexdigest()
    return written[: MAX_NAME_BYTES - 1 - len(digest)].decode(errors="ignore") + "~" + digest
