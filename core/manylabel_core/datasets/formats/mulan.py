"""The XML file that names the labels of a Mulan ARFF file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.parsers import expat

from manylabel_core.datasets.formats.text import Source, opened
from manylabel_core.datasets.limits import BadDataset

MAX_XML_BYTES = 16 * 2**20


class _HasDoctype(Exception):
    pass


def xml_beside(path: Path) -> Path | None:
    """Return the XML file next to an ARFF file, if any; Mulan's train and test files of all folds share an XML file."""
    shared = re.sub(r"(?i)[-_]?(train|test)[-_]?\d*(-sparse)?$|-sparse$", "", path.stem)
    beside = (path.with_name(f"{stem}.xml") for stem in (path.stem, shared))
    return next((xml for xml in beside if xml.exists()), None)


def read_label_names(source: Source) -> list[str]:
    """Return the label names of a Mulan XML file, nested labels included, in the order of the file.

    A document type declaration is rejected at its start, so no entity can expand without bound or read another file.
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
    data = _read(source)
    try:
        parser.Parse(data, True)
    except _HasDoctype:
        line = parser.CurrentLineNumber
        raise BadDataset("document type declarations and entities are not allowed", line=line) from None
    except KeyError:
        raise BadDataset("a label has no name", line=parser.CurrentLineNumber) from None
    except expat.ExpatError as error:
        raise BadDataset(expat.ErrorString(error.code), line=error.lineno) from None
    except (ValueError, LookupError) as error:  # Python does not know the encoding
        raise BadDataset(str(error)) from None
    if not names:
        raise BadDataset("the XML has no <label name=...>")
    return names


def _read(source: Source) -> bytes:
    with opened(source) as file:
        data = file.read(MAX_XML_BYTES + 1)
    if len(data) > MAX_XML_BYTES:
        raise BadDataset(f"the XML has more than {MAX_XML_BYTES} bytes")
    return data
