"""Multi-label ARFF files, as Mulan and MEKA write them: dense and sparse rows, nominal and numeric."""

import re
from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from manylabel_clients.river._mulan_labels import find_labels
from manylabel_clients.river._stream import FileFormatError, FileStream, Row, numbered_lines, unique_names

_TRUTH = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|\S+)\s+(.+)", re.IGNORECASE)
_FIELD = re.compile(rf"(?:{_QUOTED}|[^,'\"])*")


class ArffFile(FileStream):
    """A multi-label ARFF file as a river stream, dense or sparse.

    Numeric attributes give their value, nominal ones of 0 and 1 the number, other nominal ones a feature
    ``attribute=value`` of 1. A missing value (``?``) leaves the feature out; a label whose value is missing
    is left out of ``y``: it is unknown. A sparse row leaves out what is 0 and, as in Weka, the first value
    of a nominal attribute. Labels are attributes of 0 and 1 (or false and true).

    Parameters
    ----------
    path : str or path
    labels : path, int or sequence of str, optional
        Which attributes are labels: a Mulan XML file, the first n attributes (n), the last n (-n), or their
        names. Without it: the XML beside the file (``emotions.xml`` for ``emotions.arff``,
        ``emotions-train.arff`` and ``emotionsTest-3.arff``), else MEKA's ``-C n`` in the relation's name.

    Raises
    ------
    FileFormatError
        With the file and the line number: unknown or repeated attributes, string, date and relational
        attributes, instance weights, values that are none of the attribute's.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> text = '''@relation songs
    ... @attribute tempo numeric
    ... @attribute mood {calm, wild}
    ... @attribute rock {0, 1}
    ... @data
    ... 120, wild, 1
    ... {0 80}
    ... '''
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "songs.arff")
    ...     _ = path.write_text(text)
    ...     for x, y in ArffFile(path, labels=-1):
    ...         print(x, y)
    {'tempo': 120.0, 'mood=wild': 1.0} {'rock': True}
    {'mood=calm': 1.0, 'tempo': 80.0} {'rock': False}
    """

    def __init__(
        self, path: str | PathLike[str], labels: Sequence[str] | PathLike[str] | str | int | None = None
    ) -> None:
        super().__init__(path)
        relation, attributes, self._first_line = _header(self.path)
        names = unique_names(self.path, [attribute.name for attribute in attributes], "attributes")
        chosen = find_labels(self.path, names, relation, labels)
        self.labels = tuple(name for name in names if name in chosen)
        self._columns = [_label(self.path, a) if a.name in chosen else _feature(a) for a in attributes]
        self._unsaid = {i: c.unsaid for i, c in enumerate(self._columns) if c.unsaid is not None}
        self.n_samples = None
        self.n_features = sum(column.n_features for column in self._columns)
        one_hot = any(column.n_features > 1 for column in self._columns)
        self.sparse = one_hot or next((text[0] == "{" for _, text in self._data_lines()), False)

    def __iter__(self) -> Iterator[Row]:
        for line, text in self._data_lines():
            try:
                row = self._row(text)
            except ValueError as error:
                raise FileFormatError(self.path, str(error), line=line) from None
            yield row

    def _data_lines(self) -> Iterator[tuple[int, str]]:
        for line, text in numbered_lines(self.path):
            text = text.strip()
            if line > self._first_line and text and text[0] != "%":
                yield line, text

    def _row(self, text: str) -> Row:
        x: dict[str, float] = {}
        y: dict[str, bool] = {}
        # Left out of a sparse row is a value too: the label's False, a nominal attribute's first.
        fields = self._unsaid | self._sparse(text) if text[0] == "{" else self._dense(text)
        for i, token in fields.items():
            if token != "?":
                column = self._columns[i]
                name, value = column.read(token)
                if column.is_label:
                    y[name] = bool(value)
                else:
                    x[name] = value
        return x, y

    def _dense(self, text: str) -> dict[int, str]:
        tokens = _split(text)
        if len(tokens) != len(self._columns):
            raise ValueError(f"{len(tokens)} values, there are {len(self._columns)} attributes")
        return dict(enumerate(map(_unquote, tokens)))

    def _sparse(self, text: str) -> dict[int, str]:
        body = text[1:].rstrip("}").strip()
        if text.count("}") != 1 or not text.endswith("}"):
            raise ValueError("a sparse row is {index value, ...} and nothing after it (no instance weights)")
        pairs = [field.split(None, 1) for field in _split(body)] if body else []
        fields: dict[int, str] = {}
        for pair in pairs:
            index = int(pair[0]) if len(pair) == 2 and pair[0].isdecimal() else -1
            if not 0 <= index < len(self._columns) or index in fields:
                raise ValueError(f"{' '.join(pair)!r} is not index value, index 0 to {len(self._columns) - 1}, once")
            fields[index] = _unquote(pair[1])
        return fields


class _Attribute(NamedTuple):
    name: str
    values: tuple[str, ...] | None  # None: numeric
    line: int


class _Column(NamedTuple):
    is_label: bool
    read: Callable[[str], tuple[str, float]]  # a word of the file -> name and value; ValueError
    unsaid: str | None  # the word that a sparse row means by leaving the column out, where that is not 0
    n_features: int


def _header(path: Path) -> tuple[str, list[_Attribute], int]:
    """Return the relation, the attributes, and the number of the line with @data."""
    relation = ""
    attributes: list[_Attribute] = []
    for line, text in numbered_lines(path):
        text = text.strip()
        keyword = text.split(None, 1)[0].lower() if text else "%"
        if keyword == "@data":
            return relation, attributes, line
        if keyword == "@relation":
            relation = _unquote(text[len(keyword) :].strip())
        elif keyword == "@attribute":
            attributes.append(_attribute(path, line, text))
        elif keyword[0] != "%":
            raise FileFormatError(path, f"{keyword!r} in the header: @relation, @attribute or @data is due", line=line)
    raise FileFormatError(path, "there is no @data line")


def _attribute(path: Path, line: int, text: str) -> _Attribute:
    match = _ATTRIBUTE.fullmatch(text)
    if match is None:
        raise FileFormatError(path, "an attribute is: @attribute name type", line=line)
    name, kind = _unquote(match[1]), match[2].strip()
    if kind.lower() in ("numeric", "real", "integer"):
        return _Attribute(name, None, line)
    if kind[0] != "{" or kind[-1] != "}":
        detail = f"attribute {name!r} is {kind.split()[0]!r}: allowed are numeric, real, integer and {{a, b, ...}}"
        raise FileFormatError(path, detail, line=line)
    try:
        return _Attribute(name, tuple(map(_unquote, _split(kind[1:-1]))), line)
    except ValueError as error:
        raise FileFormatError(path, str(error), line=line) from None


def _label(path: Path, attribute: _Attribute) -> _Column:
    name, values, line = attribute
    if values is not None and not all(value.lower() in _TRUTH for value in values):
        raise FileFormatError(path, f"label {name!r} has the values {', '.join(values)}: 0 and 1 are due", line=line)

    def read(token: str) -> tuple[str, float]:
        try:
            return name, _TRUTH[token.lower()]
        except KeyError:
            raise ValueError(f"label {name!r} is {token!r}: 0 or 1 is due") from None

    return _Column(True, read, values[0] if values else "0", 0)


def _feature(attribute: _Attribute) -> _Column:
    name, values, _ = attribute
    if values is None:
        return _Column(False, _number_reader(name), None, 1)
    if set(values) <= {"0", "1"}:
        return _Column(False, _choice_reader(name, {v: (name, float(v)) for v in values}), values[0], 1)
    one_hot = {value: (f"{name}={value}", 1.0) for value in values}
    return _Column(False, _choice_reader(name, one_hot), values[0], len(values))


def _number_reader(name: str) -> Callable[[str], tuple[str, float]]:
    def read(token: str) -> tuple[str, float]:
        try:
            value = float(token)
        except ValueError:
            value = float("nan")
        if not isfinite(value):
            raise ValueError(f"attribute {name!r} is {token!r}: a finite number is due")
        return name, value

    return read


def _choice_reader(name: str, choices: dict[str, tuple[str, float]]) -> Callable[[str], tuple[str, float]]:
    def read(token: str) -> tuple[str, float]:
        try:
            return choices[token]
        except KeyError:
            raise ValueError(f"attribute {name!r} is {token!r}: one of {', '.join(choices)} is due") from None

    return read


def _split(text: str) -> list[str]:
    """Split at the commas that stand outside of quotes."""
    if "'" not in text and '"' not in text:
        return [field.strip() for field in text.split(",")]
    fields, position = [], 0
    while match := _FIELD.match(text, position):
        fields.append(match[0].strip())
        position = match.end()
        if position == len(text):
            return fields
        if text[position] != ",":
            break
        position += 1
    raise ValueError("a quote is not closed")


def _unquote(token: str) -> str:
    if len(token) < 2 or token[0] not in "'\"" or token[-1] != token[0]:
        return token
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), token[1:-1])
