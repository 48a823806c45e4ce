"""Client of the REST interface of paperless-ngx: lists and changes documents."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import httpx2

MATCH_AUTO = 6
"""Matching algorithm *Auto* of paperless; only labels with it are learnt and assigned."""
PAGE_DOCUMENTS = 25
"""Number of documents per page, each with its text."""
PAGE_NAMES = 100
MAX_PAGES = 1_000
"""Maximum number of pages of tags, correspondents and document types, 100 in each."""
MAX_BYTES = 2**26
"""Maximum bytes of a response."""
TIMEOUT_SECONDS = 60.0

KINDS = {"tag": "tags", "correspondent": "correspondents", "type": "document_types"}
"""Kinds of labels, and their paths in paperless."""


class PaperlessError(Exception):
    """Paperless cannot be reached or rejected a request; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Document:
    """Document: its text, and its labels in paperless, such as ``tag:3``."""

    id: int
    modified: str
    added: str
    record: dict[str, str]
    tags: frozenset[int]
    labels: frozenset[str]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Tags, correspondents and document types of paperless.

    Attributes
    ----------
    titles : names by label, of labels that are matched automatically.
    parents : label of the parent tag, by label.
    inbox : ids of inbox tags.
    tags : ids of tags by name.
    """

    titles: Mapping[str, str]
    parents: Mapping[str, str]
    inbox: frozenset[int]
    tags: Mapping[str, int] = field(repr=False)

    def of(self, kind: str) -> list[str]:
        """Return the labels of a kind."""
        return sorted(label for label in self.titles if label.startswith(f"{kind}:"))


class Archive:
    """Client of a paperless-ngx. Redirects are not followed, and no address in a response is requested.

    Parameters
    ----------
    url : address of paperless, with its base path.
    token : token of one of its users.
    transport : replaces the network, for tests.
    """

    def __init__(self, url: str, token: str, transport: httpx2.BaseTransport | None = None) -> None:
        headers = {"Authorization": f"Token {token}", "Accept": "application/json"}
        base = f"{url.rstrip('/')}/api/"
        self._client = httpx2.Client(
            base_url=base, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=False, transport=transport
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def catalogue(self) -> Catalogue:
        """Return the tags, correspondents and types; raises PaperlessError."""
        titles, parents, tags, inbox = dict[str, str](), dict[str, str](), dict[str, int](), set[int]()
        for kind, path in KINDS.items():
            for each in self._all(path):
                if each["matching_algorithm"] == MATCH_AUTO:
                    titles[f"{kind}:{each['id']}"] = each["name"]
                if kind == "tag":
                    tags[each["name"]] = each["id"]
                    if each.get("is_inbox_tag"):
                        inbox.add(each["id"])
                    if each.get("parent") is not None:
                        parents[f"tag:{each['id']}"] = f"tag:{each['parent']}"
        known = {label: parent for label, parent in parents.items() if label in titles and parent in titles}
        return Catalogue(titles, known, frozenset(inbox), tags)

    def documents(self, by: str, after: str) -> Iterator[Document]:
        """Yield the documents ``modified`` or ``added`` at or after a time, oldest first.

        A document that is modified meanwhile moves to the end and is yielded again.
        """
        seen: set[tuple[int, str]] = set()
        while True:
            query = {"ordering": by, f"{by}__gt": _before(after), "page_size": PAGE_DOCUMENTS}
            for page in range(1, MAX_PAGES):
                found = self._call("GET", "documents/", params={**query, "page": page})
                read = [_document(each) for each in found["results"]]
                new = [each for each in read if (each.id, getattr(each, by)) not in seen]
                if new or found.get("next") is None:
                    break
            if not new:
                return
            yield from new
            after = getattr(new[-1], by)
            seen = {pair for pair in seen if pair[1] >= after} | {(each.id, getattr(each, by)) for each in new}

    def create_tag(self, name: str) -> int:
        """Create a tag without a matching rule; return its id."""
        id: int = self._call("POST", "tags/", json={"name": name, "matching_algorithm": 0})["id"]
        return id

    def change(self, document: int, add: list[int], remove: list[int], one_of: Mapping[str, int]) -> None:
        """Add and remove tags of a document, and set its correspondent and type, if passed."""
        if add or remove:
            self._edit(document, "modify_tags", {"add_tags": add, "remove_tags": remove})
        if "correspondent" in one_of:
            self._edit(document, "set_correspondent", {"correspondent": one_of["correspondent"]})
        if "type" in one_of:
            self._edit(document, "set_document_type", {"document_type": one_of["type"]})

    def _edit(self, document: int, method: str, parameters: dict[str, Any]) -> None:
        body = {"documents": [document], "method": method, "parameters": parameters}
        self._call("POST", "documents/bulk_edit/", json=body)

    def _all(self, path: str) -> Iterator[dict[str, Any]]:
        for page in range(1, MAX_PAGES + 1):
            found = self._call("GET", f"{path}/", params={"page": page, "page_size": PAGE_NAMES, "ordering": "id"})
            yield from found["results"]
            if found.get("next") is None:
                return
        raise PaperlessError(f"paperless has more than {MAX_PAGES * PAGE_NAMES:,} {path}")

    def _call(self, method: str, path: str, **options: Any) -> Any:
        try:
            with self._client.stream(method, path, **options) as response:
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > MAX_BYTES:
                        raise PaperlessError(f"{method} {path}: more than {MAX_BYTES:,} bytes")
                if not 200 <= response.status_code < 300:
                    raise PaperlessError(f"{method} {path}: status {response.status_code}")
                return httpx2.Response(200, content=bytes(body)).json()
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise PaperlessError(f"{method} {path}: {error or type(error).__name__}") from error


def _document(found: Mapping[str, Any]) -> Document:
    try:
        one_of = {"correspondent": found["correspondent"], "type": found["document_type"]}
        labels = {f"{kind}:{id}" for kind, id in one_of.items() if id is not None}
        for time in (found["modified"], found["added"]):
            datetime.fromisoformat(time)
        return Document(
            id=int(found["id"]),
            modified=found["modified"],
            added=found["added"],
            record={"title": str(found["title"]), "content": str(found["content"] or "")},
            tags=frozenset(map(int, found["tags"])),
            labels=frozenset(labels | {f"tag:{id}" for id in found["tags"]}),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PaperlessError(f"a document cannot be read ({error}): is this paperless-ngx?") from error


def _before(time: str) -> str:
    """Return a time just before another, because filters exclude the time itself."""
    return (datetime.fromisoformat(time) - timedelta(microseconds=1)).isoformat()
