"""Sidecar of paperless-ngx with a server of recorded responses: documents, a new one, and a correction."""

import argparse
import tempfile
from pathlib import Path

from tests.support.paperless import TOKEN, Paperless, paperless

from benchmarks.integrations.typed import MANYLABEL, server, typed

INVOICE, LETTER = "invoice amount due please pay iban {}", "dear sir kind regards meeting {}"


def run(args: argparse.Namespace) -> None:
    """Print the output of the sidecar, and the documents of paperless afterwards."""
    with server(args.port) as (url, _), paperless() as there, tempfile.TemporaryDirectory() as directory:
        _fill(there)
        print("paperless has 40 documents that a person has labelled, and an inbox tag")

        def sync(*options: str) -> None:
            variables = {"PAPERLESS_TOKEN": TOKEN, "PAPERLESS_URL": there.url, "MANYLABEL_URL": url}
            flags = ("paperless", "--once", "--sure", "0.6", *options)
            typed(MANYLABEL, "manylabel", *flags, folder=Path(directory), more=variables)

        sync()
        bill = there.add("A bill", INVOICE.format("new"), tags=[1])
        odd = there.add("Odd", "nothing that was ever seen", tags=[1])
        print("\ntwo documents arrive in the inbox:", _shown(there, bill), _shown(there, odd), sep="\n")
        sync("--dry-run")
        sync()
        print("after that:", _shown(there, bill), _shown(there, odd), sep="\n")
        there.edit(odd, tags=[2], correspondent=2)
        print("\na person labels the second and takes it out of the inbox:", _shown(there, odd), sep="\n")
        sync()


def _fill(there: Paperless) -> None:
    there.name("tags", "Inbox", 0, is_inbox_tag=True)
    finance, invoice = there.name("tags", "Finance"), there.name("tags", "Invoice", parent=2)
    for name in ("Power Co", "Aunt Ada"):
        there.name("correspondents", name)
    for name in ("Bill", "Letter"):
        there.name("document_types", name)
    for number in range(20):
        there.add(f"Bill {number}", INVOICE.format(number), tags=[finance, invoice], correspondent=1, document_type=1)
        there.add(f"Hello {number}", LETTER.format(number), correspondent=2, document_type=2)


def _shown(there: Paperless, id: int) -> str:
    document = there.documents[id]
    tags = ", ".join(there.names["tags"][tag]["name"] for tag in document["tags"])
    others = [
        there.names[kind][document[field]]["name"]
        for kind, field in (("correspondents", "correspondent"), ("document_types", "document_type"))
        if document.get(field)
    ]
    return f"  {document['title']}: tags {tags or 'none'}; {', '.join(others) or 'no correspondent and type'}"
