"""Examples and their labels: the accepted types, and their JSON."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from manylabel_clients.http.transport.json_body import encode, escaped, located


@dataclass(frozen=True, slots=True)
class Sparse:
    """Sparse example: `values[k]` in column `indices[k]`; None and all other columns are missing."""

    indices: Sequence[int]
    values: Sequence[float | None]


class Array(Protocol):
    """Any object with `tolist`, such as a NumPy array of shape (n_features,)."""

    def tolist(self, /) -> Any: ...


class SparseRow(Protocol):
    """One row of a SciPy sparse matrix: shape (1, n_features) or (n_features,)."""

    def tocsr(self) -> Any: ...


class Frame(Protocol):
    """Data frame of pandas, Polars or PyArrow: each row is a record."""

    @property
    def columns(self) -> Any: ...

    @property
    def shape(self) -> Any: ...


Features: TypeAlias = Mapping[Any, Any] | Sequence[float | None] | Sparse | Array | SparseRow | Frame | str
"""Example: numbers by name, all numbers in order, or numbers by column; or a record, which can also have strings, lists
of strings, bools and mappings, also as a data frame of one row.
"""

Labels: TypeAlias = Collection[str] | Mapping[str, bool]
"""True labels: names are complete (all others are false), a mapping is partial (all others are unknown)."""

Example: TypeAlias = (
    tuple[Features, Labels]
    | tuple[Features, Labels, float]
    | tuple[Features, Labels, float | None, str]
    | tuple[Features, Labels, float | None, str | None, str]
)
"""Example with its true labels, optionally followed by its weight, the source of its labels, and your reference
(`ref`).
"""

Line: TypeAlias = Example | bytes | None
"""Example of a numbered stream, or its JSON (`encode_example`), or None if the number has no example."""

Truth: TypeAlias = (
    tuple[str, Labels]
    | tuple[str, Labels, float]
    | tuple[str, Labels, float | None, str]
    | tuple[str, Labels, float | None, str | None, str]
)
"""Id of a stored prediction with its true labels, optionally followed by weight, source and ref."""


def encode_example(
    x: Features,
    y: Labels | None = None,
    weight: float | None = None,
    source: str | None = None,
    ref: str | None = None,
) -> bytes:
    """Return an example as ``{"x": ..., "y": ...}``, or with ``"views"``, and its weight, source and reference if any.

    Raises TypeError or ValueError if it cannot be sent; the message begins with the field path, like the server's.
    """
    views = _views(x)
    name = "x" if views is None else "views"
    with located(f"/{name}"):
        if views is None:
            value = x if isinstance(x, str) else _features(x)
        else:
            value = {view: _features(one) for view, one in views.items()}
        x_bytes = b'"%b":%b' % (name.encode(), encode(value))
    if y is None:
        return b"{%b}" % x_bytes
    with located("/y"):
        return b'{%b,"y":%b%b}' % (x_bytes, encode(labels_to_json(y)), _others(weight, source, ref))


def encode_pair(example: Example) -> bytes:
    """Return an example with its labels, weight, source and reference, like `encode_example`."""
    if not 2 <= len(example) <= 5:
        raise TypeError(f"must be (x, y), optionally followed by weight, source and ref, not {len(example)} values")
    return encode_example(*example)


def encode_line(line: Line) -> bytes:
    """Return the JSON of an example like `encode_pair`. An example that is JSON already is unchanged; None is an empty
    line."""
    if line is None:
        return b""
    if isinstance(line, bytes):
        if b"\n" in line or not line.strip():
            raise ValueError("the JSON of an example must be exactly one line, and not empty")
        return line
    return encode_pair(line)


def encode_truth(
    id: str, y: Labels, weight: float | None = None, source: str | None = None, ref: str | None = None
) -> bytes:
    """Return the true labels of a stored prediction, ``{"id": ..., "y": ...}``; raise like `encode_example`."""
    if not isinstance(id, str):
        raise TypeError(f"/id must be a string, not {type(id).__name__}")
    with located("/y"):
        return b'{"id":%b,"y":%b%b}' % (encode(id), encode(labels_to_json(y)), _others(weight, source, ref))


def _others(weight: float | None, source: str | None, ref: str | None) -> bytes:
    """Return the weight, source and reference that follow the labels; empty without them."""
    written = b""
    if weight is not None:
        with located("/weight"):
            written = b',"weight":%b' % encode(weight)
    if source is not None:
        with located("/source"):
            written += b',"source":%b' % encode(source)
    if ref is not None:
        with located("/ref"):
            written += b',"ref":%b' % encode(ref)
    return written


def _views(x: Any) -> Mapping[str, Any] | None:
    """Return the views of an example ``{"views": {...}}``; None for any other example, even with a feature named
    views."""
    if isinstance(x, Mapping) and x.keys() == {"views"} and isinstance(views := x["views"], Mapping):
        return views
    return None


def _features(x: Any) -> Any:
    """Return the features of one example as JSON; raise TypeError if `x` is no example."""
    if isinstance(x, Mapping):
        named = {_feature(name): value for name, value in x.items()}
        if len(named) < len(x):
            raise ValueError("must not have the same name as a string and as a number")
        return named
    if isinstance(x, Sparse):
        return {"indices": _listed(x.indices), "values": _listed(x.values)}
    if isinstance(x, (list, tuple)):
        return x
    if hasattr(x, "tocsr"):
        row = x.tocsr()
        if len(row.shape) == 2 and row.shape[0] != 1:
            raise TypeError(f"must be one row, not {row.shape[0]}")
        return {"indices": row.indices.tolist(), "values": row.data.tolist()}
    if is_frame(x):
        if len(x) != 1:
            raise TypeError(f"must be one row of a data frame, not {len(x)} (predict_many takes data frames)")
        return next(rows_of(x))
    if hasattr(x, "items"):  # a pandas Series
        return {_feature(name): value for name, value in x.items() if not _is_missing(value)}
    if hasattr(x, "tolist") and isinstance(plain := x.tolist(), list):
        return [None if value != value else value for value in plain]
    raise TypeError(
        "must be a mapping of names to numbers, a record, a text, a sequence of numbers, an array of one dimension, "
        f"Sparse(indices, values), one sparse row or one row of a data frame, not {type(x).__name__}"
    )


def labels_to_json(y: Any) -> Any:
    """Return the true labels of one example as JSON; raise TypeError if `y` is neither names nor a mapping of names
    to bool."""
    if isinstance(y, Mapping):
        return {_label(name): _truth(name, value) for name, value in y.items()}
    if isinstance(y, (set, frozenset)):
        # The order of a set differs between processes, but a retry from a new process must send the same bytes.
        return sorted(y)
    if isinstance(y, (list, tuple)):
        return y
    if hasattr(y, "items") and not is_frame(y):  # a pandas Series
        return {_label(name): _truth(name, value) for name, value in y.items() if not _is_missing(value)}
    if hasattr(y, "tolist") and isinstance(plain := y.tolist(), list):
        return plain
    raise TypeError(
        f"must be a list of names (complete) or a mapping of names to true or false (partial), not {type(y).__name__}"
    )


def _truth(name: str, value: Any) -> bool:
    if value not in (0, 1):  # True, False, 0, 1 and NumPy's equivalents
        raise TypeError(f"/{escaped(name)} must be true or false, not {value!r}")
    return bool(value)


def is_frame(value: Any) -> bool:
    """Return whether a value is a data frame of pandas, Polars or PyArrow."""
    return hasattr(value, "columns") and hasattr(value, "shape")


def rows_of(frame: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data frame as records without missing cells (None, NaN, NA, NaT).

    Raises TypeError if a name is not a string or a whole number, and ValueError if two columns have the same name.
    """
    names = [_feature(name) for name in getattr(frame, "column_names", frame.columns)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two columns have the name {twice!r}")
    if hasattr(frame, "itertuples"):
        rows = frame.itertuples(index=False, name=None)
    elif hasattr(frame, "iter_rows"):
        rows = frame.iter_rows()
    else:
        rows = zip(*(column.to_pylist() for column in frame.columns), strict=True)
    return ({name: value for name, value in zip(names, row, strict=True) if not _is_missing(value)} for row in rows)


def _feature(name: Any) -> str:
    """Return the name of a feature as a string; data frames without names of columns have whole numbers."""
    if isinstance(name, str):
        return name
    if isinstance(name, bool) or not hasattr(name, "__index__"):
        raise TypeError(f"names of features must be strings, not {name!r}")
    return str(int(name))


def _label(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"names of labels must be strings, not {name!r}")
    return name


def _is_missing(value: Any) -> bool:
    """Return whether a cell is None, NaN, or pandas' NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return type(value).__name__.startswith("float") and value != value


def _listed(numbers: Any) -> Any:
    return numbers.tolist() if hasattr(numbers, "tolist") else list(numbers)
