"""Multi-label ARFF files, as Mulan and MEKA write them: dense and sparse rows, nominal and numeric."""

from collections.abc import Iterator, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path

from manylabel_clients.river.files.stream import NO_LIMITS, FileFormatError, FileStream, LabelledRow, naming
from manylabel_core.datasets.formats.arff import ArffColumns, ArffRow
from manylabel_core.datasets.formats.arff_header import Header, choose_labels, meka_option, read_header
from manylabel_core.datasets.formats.mulan import read_label_names, xml_beside
from manylabel_core.datasets.formats.text import numbered_lines, opened_text


class ArffFile(FileStream):
    """Multi-label ARFF file as a river stream, dense or sparse.

    Numeric attributes and nominal ones of 0 and 1 become numbers, other nominal ones a feature ``attribute=value`` of
    1. A missing value (``?``) omits the feature from ``x`` or the label, which is then unknown, from ``y``. A sparse
    row omits zeros and, as in Weka, the first value of a nominal attribute. Labels are attributes of 0 and 1 (or false
    and true). A weight can follow a row in braces, ``120, wild, 1, {2.5}``: `examples` returns it, iteration does not.

    Parameters
    ----------
    path : str or path
    labels : path, int or sequence of str, optional
        Label attributes: a Mulan XML file, the first n attributes (n), the last n (-n), or their names. Default: the
        XML file next to the ARFF file (``emotions.xml`` for ``emotions.arff``, ``emotions-train.arff`` and
        ``emotionsTest-3.arff``), else MEKA's ``-C n`` in the name of the relation.

    Raises
    ------
    FileFormatError
        The file has unknown or repeated attributes, string, date or relational attributes, undeclared nominal values,
        or a weight that is not above 0 and at most 1,000. The message has the file and the line.

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
    {'tempo': 80.0, 'mood=calm': 1.0} {'rock': False}
    """

    def __init__(
        self, path: str | PathLike[str], labels: Sequence[str] | PathLike[str] | str | int | None = None
    ) -> None:
        super().__init__(path)
        with naming(self.path), opened_text(self.path) as file:
            header = read_header(numbered_lines(file), NO_LIMITS)
        self._n_lines = header.last_line
        chosen = _find_labels(self.path, header, labels)
        with naming(self.path):
            self._columns = ArffColumns(header, chosen)
            self._features = self._columns.feature_names()
        self.labels = self._columns.label_names
        self.n_samples = None
        self.n_features = len(self._features)
        self.sparse = self._columns.one_hot or self._begins_sparse()

    def examples(self) -> Iterator[LabelledRow]:
        """Iterate over (x, y), and (x, y, weight) of rows that have a weight."""
        for row in self._rows():
            y = dict.fromkeys(self.labels, False)
            y.update((self.labels[column], True) for column in row.relevant)
            for column in row.unknown:
                del y[self.labels[column]]
            x = {self._features[column]: value for column, value in row.x.items()}
            yield (x, y) if row.weight is None else (x, y, row.weight)

    def _rows(self) -> Iterator[ArffRow]:
        with naming(self.path), opened_text(self.path) as file:
            yield from self._columns.rows(islice(numbered_lines(file), self._n_lines, None))

    def _begins_sparse(self) -> bool:
        with naming(self.path), opened_text(self.path) as file:
            texts = (text.strip() for _, text in islice(numbered_lines(file), self._n_lines, None))
            return next((text[0] == "{" for text in texts if text and text[0] != "%"), False)


def _find_labels(path: Path, header: Header, labels: Sequence[str] | PathLike[str] | str | int | None) -> set[str]:
    """Return the names of the attributes that are labels (the parameter `labels` of `ArffFile`)."""
    if labels is None:
        labels = xml_beside(path) or meka_option(header.relation)
    if labels is None:
        cure = "put the Mulan XML next to it, or pass labels= (an XML file, names, n: the first n, -n: the last n)"
        raise FileFormatError(path, f"the label attributes are unknown: {cure}")
    if isinstance(labels, str | PathLike):
        xml = Path(labels)
        with naming(xml):
            labels = read_label_names(xml)
    with naming(path):
        return choose_labels(header, labels)
