"""Multi-label files in the libsvm format: ``1,3 5:0.2 7:1``."""

from collections.abc import Iterator, Sequence
from math import isfinite
from os import PathLike

from manylabel_clients.river._stream import FileFormatError, FileStream, Row, numbered_lines, unique_names


class LibsvmFile(FileStream):
    """A multi-label libsvm file as a river stream.

    A line holds the relevant labels, separated by commas, then ``feature:value`` pairs, separated by blanks.
    A line whose first word has a colon has no relevant label; ``#`` starts a comment; empty lines are
    skipped. A first line of three integers (rows, features, labels), as the extreme-classification
    repository writes it, is understood.

    Parameters
    ----------
    path : str or path
    labels : sequence of str, optional
        The names of all labels, by the number they have in the file. Without it the names are what stands
        in the file, and unless the first line tells how many labels there are, the file is read through
        once, one line at a time, to find them.
    features : sequence of str, optional
        The names of all features, by number. Without it the names are what stands in the file.
    zero_based : bool
        Whether the first label and the first feature have the number 0 rather than 1. Matters only with
        names.

    Raises
    ------
    FileFormatError
        With the file and the line number: a word that is no pair, a value that is no finite number, a feature
        that comes twice in a line, a number without a name.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "songs.svm")
    ...     _ = path.write_text("1,2 1:0.5 3:2\\n2:1\\n")
    ...     for x, y in LibsvmFile(path, labels=["rock", "jazz"]):
    ...         print(x, y)
    {'1': 0.5, '3': 2.0} {'rock': True, 'jazz': True}
    {'2': 1.0} {'rock': False, 'jazz': False}
    """

    sparse = True

    def __init__(
        self,
        path: str | PathLike[str],
        labels: Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        *,
        zero_based: bool = False,
    ) -> None:
        super().__init__(path)
        header = self._header()
        self.n_samples, self.n_features, n_labels = header or (None, None, None)
        self._has_header = header is not None
        self._features = None if features is None else _numbered(self, features, "features", zero_based)
        self._labels = None if labels is None else _numbered(self, labels, "labels", zero_based)
        if features is not None:
            self.n_features = len(features)
        if labels is not None:
            self.labels = tuple(labels)
        elif n_labels is not None:
            self.labels = tuple(str(label) for label in range(n_labels))
        else:
            self.labels, self.n_samples = self._look_through()

    def __iter__(self) -> Iterator[Row]:
        for line, words in self._rows():
            y = dict.fromkeys(self.labels, False)
            if ":" not in words[0]:
                for word in words[0].split(","):
                    y[self._label(word, line)] = True
                del words[0]
            x = dict(self._pair(word, line) for word in words)
            if len(x) != len(words):
                raise FileFormatError(self.path, "a feature comes twice", line=line)
            yield x, y

    def _header(self) -> tuple[int, int, int] | None:
        for _, text in numbered_lines(self.path):
            words = text.split()
            # Nothing else may look so: after the labels every word of a row has a colon.
            if len(words) == 3 and all(word.isascii() and word.isdigit() for word in words):
                rows, features, labels = map(int, words)
                return rows, features, labels
            break
        return None

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        for line, text in numbered_lines(self.path):
            words = text.partition("#")[0].split()
            if words and not (line == 1 and self._has_header):
                yield line, words

    def _look_through(self) -> tuple[tuple[str, ...], int]:
        found: dict[str, None] = {}
        n_samples = 0
        for _, words in self._rows():
            n_samples += 1
            if ":" not in words[0]:
                found.update(dict.fromkeys(words[0].split(",")))
        numbers = all(label.isascii() and label.isdigit() for label in found)
        return tuple(sorted(found, key=int) if numbers else found), n_samples

    def _label(self, word: str, line: int) -> str:
        if self._labels is not None:
            return _named(self, self._labels, word, "label", line)
        if word not in self.labels:
            detail = f"label {word!r} is not among the {len(self.labels)} labels of the file"
            raise FileFormatError(self.path, detail, line=line)
        return word

    def _pair(self, word: str, line: int) -> tuple[str, float]:
        name, colon, text = word.rpartition(":")
        try:
            value = float(text) if colon and name else float("nan")
        except ValueError:
            value = float("nan")
        if not isfinite(value):
            raise FileFormatError(self.path, f"{word!r} is not feature:number", line=line)
        return (name if self._features is None else _named(self, self._features, name, "feature", line)), value


def _numbered(file: LibsvmFile, names: Sequence[str], what: str, zero_based: bool) -> dict[str, str]:
    """Map the numbers in the file to names."""
    names = unique_names(file.path, names, what)
    return {str(number): name for number, name in enumerate(names, start=0 if zero_based else 1)}


def _named(file: LibsvmFile, names: dict[str, str], word: str, what: str, line: int) -> str:
    try:
        return names[word]
    except KeyError:
        low, high = next(iter(names), "0"), next(reversed(names), "0")
        detail = f"{what} {word!r} has no name: allowed are the numbers {low} to {high}"
        raise FileFormatError(file.path, detail, line=line) from None
