"""Which attributes of an ARFF file are labels: by Mulan's XML, MEKA's option or what the user says."""

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any
from xml.parsers import expat

from manylabel_clients.river._stream import FileFormatError

MAX_XML_BYTES = 64 * 2**20


class _HasDoctype(Exception):
    pass


def read_label_names(path: Path) -> list[str]:
    """Return the label names of a Mulan XML file, nested labels included, in the order of the file.

    A file with a document type declaration is refused as it begins: there is no way to declare an entity, so
    none can expand without bound or reach another file.
    """
    names: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag == "label":
            names.append(attributes["name"])

    def refuse(*_: Any) -> None:
        raise _HasDoctype

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(_read(path), True)
    except _HasDoctype:
        line = parser.CurrentLineNumber
        raise FileFormatError(path, "document type declarations and entities are not allowed", line=line) from None
    except KeyError:
        raise FileFormatError(path, "a label has no name", line=parser.CurrentLineNumber) from None
    except expat.ExpatError as error:
        raise FileFormatError(path, expat.ErrorString(error.code), line=error.lineno) from None
    if not names:
        raise FileFormatError(path, "no <label name=...> in it")
    return names


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MAX_XML_BYTES + 1)
    if len(data) > MAX_XML_BYTES:
        raise FileFormatError(path, f"larger than {MAX_XML_BYTES} bytes")
    return data


def find_labels(
    path: Path,
    attributes: Sequence[str],
    relation: str,
    labels: Sequence[str] | PathLike[str] | str | int | None,
) -> set[str]:
    """Return the names of the attributes that are labels (the parameter `labels` of `ArffFile`)."""
    if labels is None:
        labels = _neighbour(path) or _meka_option(relation)
    if labels is None:
        cure = "put the Mulan XML beside it or give labels= (an XML file, names, n: the first, -n: the last n)"
        raise FileFormatError(path, f"which attributes are labels is not known: {cure}")
    if isinstance(labels, int):
        if not 0 < abs(labels) <= len(attributes):
            raise FileFormatError(path, f"{labels} labels asked for, there are {len(attributes)} attributes")
        return set(attributes[:labels] if labels > 0 else attributes[labels:])
    names = set(read_label_names(Path(labels)) if isinstance(labels, str | PathLike) else labels)
    absent = names - set(attributes)
    if absent:
        raise FileFormatError(path, f"label {min(absent)!r} is not among the attributes")
    return names


def _neighbour(path: Path) -> Path | None:
    """Return the XML beside the file; Mulan's train and test files, of all folds, share one."""
    shared = re.sub(r"(?i)[-_]?(train|test)[-_]?\d*(-sparse)?$|-sparse$", "", path.stem)
    for stem in (path.stem, shared):
        xml = path.with_name(f"{stem}.xml")
        if xml.exists():
            return xml
    return None


def _meka_option(relation: str) -> int | None:
    """Return the number of labels in a relation like ``Music: -C 6``; negative counts from the end.

    Weka's filters keep the option in the name although they may have moved the attributes: not to be trusted.
    """
    match = re.search(r"(?:^|\s)-C\s+(-?\d+)", relation)
    return int(match[1]) if match and "weka.filters" not in relation else None
