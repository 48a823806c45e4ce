"""Records to named features: one rule for each kind of value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from manylabel_core.records.bounds import (
    MAX_NAME_BYTES,
    PACKED,
    SURELY_SHORT,
    Path,
    RecordError,
    RecordLimits,
    bounded,
)
from manylabel_core.records.text import TextReader, TextSettings
from manylabel_core.rows import MAX_MAGNITUDE

if TYPE_CHECKING:
    from manylabel_core.records.vectors import Encoded

BARE = "text"
"""Field name of a record that is a bare string."""

_WEIGHTS_KEPT = 256


_PRECISE = Context(prec=30)


class _Weights(dict[int, float]):
    """Weights of tokens by count, 1 + log(count); Decimal gives the same logarithm on every host, without numba."""

    def __missing__(self, count: int) -> float:
        weight = 1.0 + float(Decimal(count).ln(_PRECISE))
        if count < _WEIGHTS_KEPT:
            self[count] = weight
        return weight


_WEIGHTS = _Weights()

_WANTED = "must be a number, true, false, null, a string, a list of strings, a list of numbers, or an object of these"


class RecordEncoder:
    """Encoder of records as named features.

    - A number is a feature with the name of its field; true is 1, false is 0. A 0 is a value and is kept.
    - Null, an empty string and an empty list are absent: no feature.
    - A string is a category, `country=FR` with the value 1; a list of strings is several categories. Case and spaces
      are kept.
    - A string in a field that is text (see `TextSettings`) becomes its tokens, `title=word`, with the value 1 +
      log(number of occurrences). The tokens of a list of strings are counted together.
    - A list of 1 to 8,192 numbers is a vector, a separate block of features. It may also be the base64 encoding of
      little-endian float32 or float16 numbers, ``{"f32": "AACAPwAAAEA="}`` or ``{"f16": "ADwAQA=="}``.
    - Fields of an object in the record are named with a dot, `author.country=FR`.
    - A bare string is a text, like the record ``{"text": string}``.

    The type of a value takes precedence: a number in a text field is a number. A name of more than 256 bytes, from a
    long word or category, ends in a digest, so that it stays unique. Names are in the order of the record. Those of a
    text are in the order in which its tokens first occur: words, then longer runs, then parts of words.

    Parameters
    ----------
    text : TextSettings, optional
    limits : RecordLimits, optional

    Examples
    --------
    >>> encoder = RecordEncoder(TextSettings(fields=["title"]))
    >>> encoder.encode({"title": "Tora! Tora!", "year": 1970, "country": "JP", "seen": True, "rating": None})
    {'title=tora': 1.6931471805599454, 'year': 1970.0, 'country=JP': 1.0, 'seen': 1.0}
    >>> encoder.encode({"tags": ["war", "sea"], "studio": {"name": "Fox"}})
    {'tags=war': 1.0, 'tags=sea': 1.0, 'studio.name=Fox': 1.0}
    >>> encoder.read({"title": "Tora!", "embedding": [0.25, -0.5]})
    Encoded(features={'title=tora': 1.0}, vectors={'embedding': array([ 0.25, -0.5 ], dtype=float32)})
    >>> encoder.encode("a bare string")
    {'text=bare': 1.0, 'text=string': 1.0}
    """

    def __init__(self, text: TextSettings | None = None, limits: RecordLimits | None = None) -> None:
        self.text = text or TextSettings()
        self.limits = limits or RecordLimits()
        self._reader = TextReader(self.text)
        self._fields = frozenset(self.text.fields or ())

    def encode(self, record: str | Mapping[str, Any]) -> dict[str, float]:
        """Return the features of a record by name, finite float64 of at most `MAX_MAGNITUDE`.

        Raises the errors of `read`, or RecordError for a vector.
        """
        reading = self._reading_of(record)
        for _, value, path in reading.vectors:
            if len(value):
                raise RecordError(path, "must not be a vector: only numbers and strings are allowed here")
        return reading.features

    def read(self, record: str | Mapping[str, Any]) -> Encoded:
        """Return the features and the vectors of a record.

        Raises
        ------
        RecordError
            A value of another type; a number that is not finite or is above `MAX_MAGNITUDE`; a string that is not valid
            Unicode (a lone surrogate); a name that is empty, longer than 256 bytes, or also used by another field
            (``{"a.b": 1, "a": {"b": 2}}``); a record that exceeds the limits.
        """
        from manylabel_core.records.vectors import Encoded, read_vectors  # exported models run without NumPy

        reading = self._reading_of(record)
        return Encoded(reading.features, read_vectors(reading.vectors))

    def _reading_of(self, record: str | Mapping[str, Any]) -> _Reading:
        reading = _Reading(self.limits, self._reader, self._fields, self.text.longer_than)
        if isinstance(record, str):
            reading.add_texts(BARE, [record], ())
        elif isinstance(record, Mapping):
            reading.add_object(record, (), 1)
        else:
            raise RecordError((), "must be an object or a string")
        return reading


class _Reading:
    """State of the encoding of one record."""

    __slots__ = (
        "_characters",
        "_fields",
        "_limits",
        "_longer_than",
        "_n_fields",
        "_names",
        "_reader",
        "_tokens",
        "features",
        "vectors",
    )

    def __init__(
        self, limits: RecordLimits, reader: TextReader, fields: frozenset[str], longer_than: int | None
    ) -> None:
        self._limits = limits
        self._reader = reader
        self._fields = fields
        self._longer_than = longer_than
        self._characters = self._tokens = self._n_fields = 0
        self._names: set[str] = set()
        self.features: dict[str, float] = {}
        self.vectors: list[tuple[str, Any, Path]] = []

    def add_object(self, fields: Mapping[str, Any], path: Path, depth: int) -> None:
        if depth > self._limits.depth:
            raise RecordError(path, f"must be at most {self._limits.depth} objects deep, including the record")
        self._spend_fields(len(fields))
        for key, value in fields.items():
            self._add_field((*path, key), value, depth)

    def _add_field(self, path: Path, value: Any, depth: int) -> None:
        if value is None:
            return
        name = self._take_name(path)
        if isinstance(value, str):
            self._add_strings(name, [value], path)
        elif isinstance(value, int | float):  # bool is an int
            self._add_number(name, value, path)
        elif isinstance(value, Mapping):
            if _is_packed(value):
                self.vectors.append((name, value, path))
            else:
                self.add_object(value, path, depth + 1)
        elif _is_vector(value):
            self.vectors.append((name, value, path))
        elif isinstance(value, list | tuple):
            self._spend_fields(len(value))
            self._add_strings(name, _strings(value, path), path)
        else:
            self._add_number(name, value, path)

    def _take_name(self, path: Path) -> str:
        key = path[-1]
        if not isinstance(key, str):
            raise RecordError(path, "must have a string as its name")
        name = key if len(path) == 1 else ".".join(path)  # type: ignore[arg-type]  # above it are only names
        if not key.isascii():
            _check_unicode(key, path)
        if not key or (len(name) > SURELY_SHORT and len(name.encode()) > MAX_NAME_BYTES):
            raise RecordError(path, f"must have a name of 1 to {MAX_NAME_BYTES} bytes")
        if name in self._names:
            raise RecordError(path, f"must not have the same name as another field, {name!r}")
        self._names.add(name)
        return name

    def _add_number(self, name: str, value: Any, path: Path) -> None:
        try:
            number = value.__float__()  # text numbers have no underscores, unlike those of float()
        except OverflowError:
            number = float("inf")
        except (AttributeError, TypeError, ValueError) as error:
            raise RecordError(path, _WANTED) from error
        if not abs(number) <= MAX_MAGNITUDE:  # NaN is excluded too
            raise RecordError(path, f"must be finite and at most {MAX_MAGNITUDE:g} in absolute value")
        self._add({name: number}, path)

    def _add_strings(self, name: str, strings: list[str], path: Path) -> None:
        if name in self._fields or self._has_long(strings):
            self.add_texts(name, strings, path)
        else:
            self._spend_characters(strings, path)
            self._add({bounded(f"{name}={string}"): 1.0 for string in strings if string}, path)

    def add_texts(self, name: str, texts: list[str], path: Path) -> None:
        self._spend_characters(texts, path)
        tokens = [token for text in texts for token in self._reader.tokens(text, self._spend_tokens)]
        counts = Counter(tokens)
        if not counts:
            return
        prefix = f"{name}="
        found = {prefix + token: _WEIGHTS[count] for token, count in counts.items()}
        if len(prefix) + len(max(counts, key=len)) > SURELY_SHORT:
            found = {bounded(name): weight for name, weight in found.items()}
        self._add(found, path)

    def _has_long(self, strings: list[str]) -> bool:
        return self._longer_than is not None and any(len(string) > self._longer_than for string in strings)

    def _spend_characters(self, strings: list[str], path: Path) -> None:
        for string in strings:
            self._characters += len(string)
            if not string.isascii():
                _check_unicode(string, path)
        if self._characters > self._limits.characters:
            detail = f"must have at most {self._limits.characters:,} characters in all its strings together"
            raise RecordError((), detail)

    def _spend_fields(self, count: int) -> None:
        self._n_fields += count
        if self._n_fields > self._limits.fields:
            detail = f"must have at most {self._limits.fields:,} fields, strings in lists included"
            raise RecordError((), detail)

    def _spend_tokens(self, count: int) -> None:
        self._tokens += count
        if self._tokens > self._limits.tokens:
            raise RecordError((), f"must have at most {self._limits.tokens:,} tokens in all its texts together")

    def _add(self, found: dict[str, float], path: Path) -> None:
        wanted = len(self.features) + len(found)
        self.features.update(found)
        if len(self.features) != wanted:
            raise RecordError(path, "must not produce a feature that another field produces")


def _is_vector(value: Any) -> bool:
    """Return whether a value is a vector: an empty list, one that begins with a number, or an array."""
    if isinstance(value, list | tuple):
        first = next((one for one in value if one is not None), None)
        return not value or (isinstance(first, int | float) and not isinstance(first, bool)) or hasattr(first, "dtype")
    return hasattr(value, "dtype") and hasattr(value, "ndim") and value.ndim > 0


def _is_packed(value: Mapping[Any, Any]) -> bool:
    """Return whether an object is a vector in base64."""
    return len(value) == 1 and all(key in PACKED and isinstance(text, str) for key, text in value.items())


def _check_unicode(string: str, path: Path) -> None:
    try:
        string.encode()
    except UnicodeEncodeError as error:
        raise RecordError(path, "must be valid Unicode") from error


def _strings(values: list[Any] | tuple[Any, ...], path: Path) -> list[str]:
    """Return the strings of a list, without nulls."""
    for place, value in enumerate(values):
        if not (value is None or isinstance(value, str)):
            are_strings = any(isinstance(one, str) for one in values)
            raise RecordError((*path, place), "must be a string" if are_strings else "must be a string or a number")
    return [value for value in values if value is not None]
