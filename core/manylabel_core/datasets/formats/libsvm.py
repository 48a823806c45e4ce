"""Multi-label files in the libsvm format: ``1,3 5:0.2 7:1``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from manylabel_core.datasets.building import Columns, DatasetBuilder
from manylabel_core.datasets.dataset import SINGLE, Dataset
from manylabel_core.datasets.formats import cells
from manylabel_core.datasets.formats.text import Source, check_name, numbered_lines, opened_text
from manylabel_core.datasets.limits import BadDataset, ReaderLimits, check_number, shown


class Sizes(NamedTuple):
    """Sizes from a first line of three integers, as in the files of the extreme-classification repository."""

    rows: int
    features: int
    labels: int


class Words(NamedTuple):
    """Words of one line: labels and features as text."""

    line: int
    labels: list[str]
    features: dict[str, float]


def read_libsvm(source: Source, *, zero_based: bool | None = None, limits: ReaderLimits = ReaderLimits()) -> Dataset:  # noqa: B008
    """Return a dataset from a multi-label libsvm file.

    A line holds the relevant labels, separated by commas, then ``feature:value`` pairs, separated by blanks. A line
    whose first word has a colon has no relevant label; ``#`` starts a comment; empty lines are skipped. A first line
    may have three integers (rows, features, labels); then feature numbers start at 0. Labels keep their names in the
    file, numeric ones in ascending order; features are numbered and have no names.

    Parameters
    ----------
    source : path or binary stream
    zero_based : bool, optional
        Whether the first feature has the number 0 rather than 1. None: 0 if the file uses it or has a first line
        with sizes.
    limits : ReaderLimits

    Raises
    ------
    BadDataset
        With the line: a word that is not a pair, a value that is not a finite number, a feature that occurs twice or
        has an invalid number.
    """
    builder, names, width, lowest = DatasetBuilder(limits), dict[str, int](), 0, 1
    columns = builder.views[SINGLE] = Columns(dense=False)
    with opened_text(source, limits.bytes) as file:
        lines = numbered_lines(file)
        sizes, rows = begin(lines)
        if sizes is not None:
            limits.check("features", sizes.features, line=1)
            limits.check("labels", sizes.labels, line=1)
            names = {str(label): label for label in range(sizes.labels)}
        for words in rows:
            row = {_number(word, words.line, limits, sizes): value for word, value in words.features.items()}
            if len(row) < len(words.features):
                raise BadDataset("a feature occurs twice", line=words.line)
            width, lowest = max(width, max(row, default=-1) + 1), min(row, default=1) and lowest
            columns.add_sparse(row)
            builder.end_row(_labels(words, names, limits, sizes), words.line)
    if zero_based is False and lowest == 0:
        raise BadDataset("a feature has the number 0, but zero_based is false")
    first = 0 if zero_based or sizes is not None else min(lowest, 1)
    return _numbered(builder, names, width if sizes is None else sizes.features, first)


def begin(lines: Iterator[tuple[int, str]]) -> tuple[Sizes | None, Iterator[Words]]:
    """Yield the sizes of the first line, if present, and then the rows."""
    line, text = next(lines, (0, ""))
    sizes = _sizes(text)
    return sizes, _rows(lines if sizes else chain([(line, text)], lines))


def _sizes(text: str) -> Sizes | None:
    words = text.split(None, 3)
    # This cannot be a row: every word of a row after the labels contains a colon.
    if len(words) == 3 and all(word.isascii() and word.isdigit() and len(word) < 20 for word in words):
        return Sizes(*map(int, words))
    return None


def _rows(lines: Iterator[tuple[int, str]]) -> Iterator[Words]:
    for line, text in lines:
        words = text.partition("#")[0].split()
        if not words:
            continue
        labels = [] if ":" in words[0] else words.pop(0).split(",")
        features = dict(_pair(word, line) for word in words)
        if len(features) != len(words):
            raise BadDataset("a feature occurs twice", line=line)
        yield Words(line, labels, features)


def _pair(word: str, line: int) -> tuple[str, float]:
    name, colon, text = word.rpartition(":")
    try:
        if colon and name:
            return name, check_number(cells.number(text))
    except ValueError:
        pass
    raise BadDataset(f"{shown(word)} is not feature:number", line=line)


def _number(word: str, line: int, limits: ReaderLimits, sizes: Sizes | None) -> int:
    most = limits.features if sizes is None else sizes.features - 1
    if not (word.isascii() and word.isdigit()) or len(word) > 18 or int(word) > most:
        raise BadDataset(f"feature {shown(word)} must be a number from 0 to {most:,}", line=line)
    return int(word)


def _labels(words: Words, names: dict[str, int], limits: ReaderLimits, sizes: Sizes | None) -> list[int]:
    relevant = []
    for label in words.labels:
        column = names.get(label)
        if column is None:
            if sizes is not None:
                raise BadDataset(f"label {shown(label)} must be a number from 0 to {sizes.labels - 1}", line=words.line)
            check_name(label, "labels", words.line)
            column = names[label] = len(names)
            limits.check("labels", len(names), line=words.line)
        relevant.append(column)
    if len(set(relevant)) < len(relevant):
        raise BadDataset("a label occurs twice", line=words.line)
    return relevant


def _numbered(builder: DatasetBuilder, names: dict[str, int], width: int, first: int) -> Dataset:
    """Return the dataset with features numbered from `first`, and numeric labels in ascending order."""
    dataset = builder.done_single(tuple(names), width)
    X, Y, labels = dataset.X, dataset.Y, dataset.label_names
    if all(label.isascii() and label.isdigit() and len(label) < 20 for label in labels):
        order = sorted(range(len(labels)), key=lambda column: int(labels[column]))
        labels, Y = tuple(labels[column] for column in order), Y[:, order].tocsr()
        Y.sort_indices()
    return Dataset.of(X[:, first:] if first else X, Y, labels, labelled=dataset.labelled)
