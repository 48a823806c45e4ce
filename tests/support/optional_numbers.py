"""Plain transcription of the features that say that a record has an optional number."""

from collections.abc import Iterable, Sequence


class Stream:
    """Records of a stream, each as its features by name."""

    def __init__(self) -> None:
        self._earlier: list[dict[str, float]] = []

    def predicted(self, features: dict[str, float]) -> dict[str, float]:
        """A record with its additional features, as if it were the next."""
        return _whole(features, [*self._earlier, features])

    def learnt(self, features: dict[str, float]) -> dict[str, float]:
        """The next record with its additional features."""
        self._earlier.append(features)
        return _whole(features, self._earlier)


def of_batch(records: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """All records of a batch with their additional features."""
    return [_whole(features, records) for features in records]


def names_of_batch(records: Sequence[dict[str, float]]) -> list[str]:
    """Names of the columns of a batch."""
    names = _names(records)
    return [*names, *(name for name in _optional(records, names) if name not in names)]


def _whole(features: dict[str, float], records: Sequence[dict[str, float]]) -> dict[str, float]:
    given = _optional(records, features)
    return features | {name: 1.0 for name in given if name not in features}


def _optional(records: Sequence[dict[str, float]], names: Iterable[str]) -> list[str]:
    """Names of the features of the optional numbers among some names."""
    numbers = [name for name in _names(records) if "=" not in name]
    if len(numbers) > 256 or len(numbers) == len(_names(records)):
        return []
    return [f"{name}=given" for name in names if name in numbers and not all(name in one for one in records)]


def _names(records: Sequence[dict[str, float]]) -> list[str]:
    return list(dict.fromkeys(name for one in records for name in one))
