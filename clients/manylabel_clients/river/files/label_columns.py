"""Label attributes of an ARFF file: by Mulan's XML, MEKA's option or the user's choice."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from manylabel_clients.river.files.stream import FileFormatError, naming
from manylabel_core.datasets.formats.arff_header import Header, choose_labels, meka_option
from manylabel_core.datasets.formats.mulan import read_label_names, xml_beside


def find_labels(path: Path, header: Header, labels: Sequence[str] | PathLike[str] | str | int | None) -> set[str]:
    """Return the names of the attributes that are labels (the parameter `labels` of `ArffFile`)."""
    if labels is None:
        labels = xml_beside(path) or meka_option(header.relation)
    if labels is None:
        cure = "put the Mulan XML beside it or give labels= (an XML file, names, n: the first, -n: the last n)"
        raise FileFormatError(path, f"the label attributes are unknown: {cure}")
    if isinstance(labels, str | PathLike):
        xml = Path(labels)
        with naming(xml):
            labels = read_label_names(xml)
    with naming(path):
        return choose_labels(header, labels)
