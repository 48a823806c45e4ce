"""Validation of documents and blobs, and paging of long lists, for all stores."""

import re
from collections.abc import Awaitable, Callable

from manylabel_service.errors import DocumentDamaged
from manylabel_service.storage.checksums import unseal
from manylabel_service.storage.protocol import MAX_DOCUMENT_BYTES, Document

MAX_NAME_BYTES = 256

PAGE_DOCUMENTS = 1_000
PAGE_BYTES = 1 << 20
"""Approximate maximum bytes of a list read in one step."""

_KIND = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

Page = tuple[list[Document], bool]
"""Page of documents ordered by revision, and whether it is the last page."""


def check_document(kind: str, name: str = "any", value: bytes = b"") -> None:
    """Raise ValueError for an invalid document."""
    if not _KIND.fullmatch(kind):
        raise ValueError(f"a kind is 1 to 64 of a-z, 0-9, '.', '_' and '-', not {kind!r}")
    check_key(name)
    if len(value) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"a document has at most {MAX_DOCUMENT_BYTES:,} bytes, not {len(value):,}")


def check_key(key: str) -> None:
    """Raise ValueError for an invalid key of a blob or name of a document."""
    if not 0 < len(key.encode()) <= MAX_NAME_BYTES:
        raise ValueError(f"a name or key is 1 to {MAX_NAME_BYTES} bytes of UTF-8, not {key!r}")


def sealed_document(kind: str, name: str, revision: int, sealed: object) -> Document:
    """Return a document from a value that is sealed with its kind and name."""
    value = unseal(sealed, kind, name)
    return Document(name, revision, value or b"", damaged=value is None)


def intact(kind: str, document: Document | None) -> Document | None:
    """Return a document; raise `DocumentDamaged` if it is damaged."""
    if document is not None and document.damaged:
        raise DocumentDamaged(kind, document.name, document.revision)
    return document


async def collect(page: Callable[[int], Awaitable[Page]], after: int) -> list[Document]:
    """Collect the documents that changed after a revision, page by page.

    A document that changes meanwhile moves to the end of the list and is read again; the last state is returned.
    """
    found: dict[str, Document] = {}
    ended = False
    while not ended:
        documents, ended = await page(after)
        for document in documents:
            found.pop(document.name, None)
            found[document.name] = document
            after = max(after, document.revision)  # the name of a damaged document may be unreadable
    return list(found.values())
