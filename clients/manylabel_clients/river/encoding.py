"""Conversion of river's dicts of features and labels to checked values, in the order of the dict."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.rows import MAX_MAGNITUDE


class PredictedLabels(dict[Hashable, bool]):
    """Predicted labels: True or False for known labels, False for others.

    The metrics of river look up every true label. A label that was never predicted counts as missed; a plain dict would
    raise KeyError.
    """

    def __missing__(self, label: Hashable) -> bool:
        return False


class PredictedProbabilities(dict[Hashable, dict[bool, float]]):
    """Predicted probabilities of the known labels; 0 for others."""

    def __missing__(self, label: Hashable) -> dict[bool, float]:
        return both(0.0)


def both(probability: float) -> dict[bool, float]:
    """Return a label's probability in river's format."""
    return {False: 1.0 - probability, True: probability}


def known_values(x: Mapping[Any, Any]) -> tuple[Mapping[Any, Any], NDArray[np.float64]]:
    """Return the features that are not None, and their values, float64, in the order of `x`.

    Raises TypeError for a value that is neither a number, a bool nor None, and ValueError for one that is not finite or
    beyond `MAX_MAGNITUDE`.
    """
    array = _array(x)
    if array.dtype.kind not in "fiub" or array.ndim != 1:
        x = {name: value for name, value in x.items() if value is not None}
        array = np.array([_number(name, value) for name, value in x.items()])
    array = array.astype(np.float64, copy=False)
    # Negated, so that NaN is rejected too.
    if not np.abs(array).max(initial=0.0) <= MAX_MAGNITUDE:
        for name, value in x.items():
            if not abs(_number(name, value)) <= MAX_MAGNITUDE:
                limits = f"must be finite and at most {MAX_MAGNITUDE:g} in absolute value"
                raise ValueError(f"feature {name!r} is {value!r}: {limits}")
    return x, array


def is_record(x: Mapping[Any, Any]) -> bool:
    """Return whether `x` is a record, which has more than numbers."""
    return any(isinstance(value, str | list | tuple | Mapping | np.ndarray) for value in x.values())


def named_values(x: Mapping[Any, Any] | str) -> dict[str, Any] | str:
    """Return the features that are not None for JSON; a record or a text unchanged. Raises the errors of
    `known_values`."""
    if isinstance(x, str):
        return x
    try:
        known, numbers = known_values(x)
        plain = numbers.tolist()
    except TypeError:
        if not is_record(x):
            raise
        known, plain = x, list(x.values())
    return dict(zip(_strings(known, "feature"), plain, strict=True))


def truths(y: Mapping[Any, Any]) -> NDArray[np.bool_]:
    """Return the values of the labels, in the order of `y`; raise TypeError unless each is a bool, 0 or 1."""
    if not isinstance(y, Mapping):
        raise TypeError(f"y must be a dict of labels and bools, not {type(y).__name__}")
    array = _array(y) if y else np.zeros(0, dtype=bool)
    if array.dtype.kind == "b" and array.ndim == 1:
        return array
    for label, value in y.items():
        if not isinstance(value, bool | np.bool_ | int | float | np.number) or value not in (0, 1):
            raise TypeError(f"label {label!r} is {value!r}: must be True or False")
    return np.array([bool(value) for value in y.values()])


def named_truths(y: Mapping[Any, Any]) -> dict[str, bool]:
    """Return the true labels for JSON; raise TypeError unless each name is a string and each value a bool, 0 or 1."""
    return dict(zip(_strings(y, "label"), truths(y).tolist(), strict=True))


def _array(names: Mapping[Any, Any]) -> NDArray[Any]:
    """Return the values as a NumPy array of any type."""
    try:
        return np.array(list(names.values()))
    except ValueError:  # with lists of different lengths
        return np.array(None)


def _number(name: Hashable, value: Any) -> float:
    # float() would parse text, but conversion of text should be an explicit step of a river pipeline.
    if not isinstance(value, str | bytes | bytearray):
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
        except OverflowError:
            return float("inf")
    raise TypeError(f"feature {name!r} is {value!r}: must be a number, a bool, a string, or a list or dict of these")


def _strings(names: Iterable[Any], what: str) -> Iterable[str]:
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{what} {name!r}: the name must be a string, so that it can be sent as JSON")
        yield name
