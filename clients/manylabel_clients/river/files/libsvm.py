"""Multi-label files in the libsvm format: ``1,3 5:0.2 7:1``."""

from collections.abc import Iterator, Sequence
from os import PathLike

from manylabel_clients.river.files.stream import FileFormatError, FileStream, Row, naming
from manylabel_core.datasets.formats.libsvm import Words, begin
from manylabel_core.datasets.formats.text import check_names, numbered_lines, opened_text


class LibsvmFile(FileStream):
    """Multi-label libsvm file as a river stream.

    A line has the relevant labels, separated by commas, then ``feature:value`` pairs, separated by blanks. A line whose
    first word has a colon has no relevant label. ``#`` starts a comment; empty lines are skipped. The first line may
    have the numbers of rows, features and labels, as in the extreme classification repository.

    Parameters
    ----------
    path : str or path
    labels : sequence of str, optional
        Names of all labels, by their number in the file. By default, the numbers are the names; they are found by
        reading the file once, unless the first line has the number of labels.
    features : sequence of str, optional
        Names of all features, by their number in the file. By default, the numbers are the names.
    zero_based : bool
        Whether labels and features are numbered from 0 instead of 1, which matters only for names.

    Raises
    ------
    FileFormatError
        A word is not a pair, a value is not a finite number, a line has a feature twice, or a number has no name. The
        message has the file and the line.

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
        with naming(self.path), opened_text(self.path) as file:
            sizes, _ = begin(numbered_lines(file))
        self.n_samples, self.n_features, n_labels = sizes or (None, None, None)
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

    def examples(self) -> Iterator[Row]:
        """Iterate over (x, y)."""
        for words in self._rows():
            y = dict.fromkeys(self.labels, False)
            for label in words.labels:
                y[self._label(label, words.line)] = True
            x = {self._feature(feature, words.line): value for feature, value in words.features.items()}
            yield x, y

    def _rows(self) -> Iterator[Words]:
        with naming(self.path), opened_text(self.path) as file:
            yield from begin(numbered_lines(file))[1]

    def _look_through(self) -> tuple[tuple[str, ...], int]:
        found: dict[str, None] = {}
        n_samples = 0
        for words in self._rows():
            n_samples += 1
            found.update(dict.fromkeys(words.labels))
        numbers = all(label.isascii() and label.isdigit() for label in found)
        return tuple(sorted(found, key=int) if numbers else found), n_samples

    def _label(self, word: str, line: int) -> str:
        if self._labels is not None:
            return _named(self, self._labels, word, "label", line)
        if word not in self.labels:
            detail = f"label {word!r} is not among the {len(self.labels)} labels of the file"
            raise FileFormatError(self.path, detail, line=line)
        return word

    def _feature(self, word: str, line: int) -> str:
        return word if self._features is None else _named(self, self._features, word, "feature", line)


def _numbered(file: LibsvmFile, names: Sequence[str], what: str, zero_based: bool) -> dict[str, str]:
    """Map the numbers in the file to names."""
    with naming(file.path):
        names = check_names(tuple(names), what)
    return {str(number): name for number, name in enumerate(names, start=0 if zero_based else 1)}


def _named(file: LibsvmFile, names: dict[str, str], word: str, what: str, line: int) -> str:
    try:
        return names[word]
    except KeyError:
        low, high = next(iter(names), "0"), next(reversed(names), "0")
        detail = f"{what} {word!r} has no name: allowed are the numbers {low} to {high}"
        raise FileFormatError(file.path, detail, line=line) from None
