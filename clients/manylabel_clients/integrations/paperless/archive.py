"""Client of the REST interface of paperless-ngx: lists and changes documents."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2

MATCH_AUTO = 6
"""Matching algorithm *Auto* of paperless; only labels with it are learnt and assigned."""
PAGE_DOCUMENTS = 25
"""Number of documents per page; the response has the text of each."""
PAGE_NAMES = 100
MAX_PAGES = 1_000
"""Maximum number of pages of tags, correspondents and document types, 100 in each."""
MAX_DOCUMENTS = 100_000
"""Maximum number of documents per poll; the next poll continues."""
MAX_BYTES = 2**26
"""Maximum bytes of a response."""
TIMEOUT_SECONDS = 60.0

KINDS = {"tag": "tags", "correspondent": "correspondents", "type": "document_types"}
"""Kinds of labels, and their paths in paperless."""


class PaperlessError(Exception):
    """Paperless cannot be reached or rejected a request; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Document:
    """Document with its text, and its labels in paperless, such as ``tag:3``. Times are in RFC 3339."""

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
    titles : names, by label, of the labels that are matched automatically.
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
    """Client of a paperless-ngx. Redirects are not followed, and no address in a response is requested. The environment
    variable ``SSL_CERT_FILE`` names the certificates of a private authority; no other variable is read.

    Parameters
    ----------
    url : address of paperless, with its base path.
    token : token of one of its users.
    """

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Token {token}", "Accept": "application/json"}
        base = f"{url.rstrip('/')}/api/"
        self._client = httpx2.Client(
            base_url=base,
            headers=headers,
            timeout=TIMEOUT_SECONDS,
            verify=httpx2.create_ssl_context(trust_env=True),
            trust_env=False,
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def catalogue(self) -> Catalogue:
        """Return the tags, correspondents and types; raises PaperlessError."""
        titles, parents, tags, inbox = dict[str, str](), dict[str, str](), dict[str, int](), set[int]()
        for kind, path in KINDS.items():
            for each in self._all(path):
                try:
                    id, name = _id(each["id"]), _name(each["name"])
                    if each["matching_algorithm"] == MATCH_AUTO:
                        titles[f"{kind}:{id}"] = name
                    if kind == "tag":
                        tags[name] = id
                        if each.get("is_inbox_tag"):
                            inbox.add(id)
                        if each.get("parent") is not None:
                            parents[f"tag:{id}"] = f"tag:{_id(each['parent'])}"
                except (KeyError, TypeError) as error:
                    raise PaperlessError(f"{path} cannot be read ({error}): is this paperless-ngx?") from error
        known = {label: parent for label, parent in parents.items() if label in titles and parent in titles}
        return Catalogue(titles, known, frozenset(inbox), tags)

    def documents(self, by: str, after: str) -> Iterator[Document]:
        """Yield the documents that were ``modified`` or ``added`` at a time or later, oldest first; about MAX_DOCUMENTS
        at most.

        A document that is modified meanwhile moves to the end and is yielded again. Raises PaperlessError.
        """
        seen: set[tuple[int, str]] = set()
        n_documents = 0
        while n_documents < MAX_DOCUMENTS:
            query = {"ordering": by, f"{by}__gt": _before(after), "page_size": PAGE_DOCUMENTS}
            for page in range(1, MAX_PAGES):
                results, is_last = self._page("documents", {**query, "page": page})
                read = [_document(each) for each in results]
                new = [each for each in read if (each.id, getattr(each, by)) not in seen]
                if new or is_last:
                    break
            if not new:
                return
            yield from new
            n_documents += len(new)
            after = getattr(new[-1], by)
            seen = {pair for pair in seen if pair[1] >= after} | {(each.id, getattr(each, by)) for each in new}

    def create_tag(self, name: str) -> int:
        """Create a tag without a matching rule; return its id."""
        made = self._call("POST", "tags/", json={"name": name, "matching_algorithm": 0})
        try:
            return _id(made["id"])
        except (KeyError, TypeError) as error:
            raise PaperlessError(f"the new tag cannot be read ({error}): is this paperless-ngx?") from error

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
        n_names = 0
        for page in range(1, MAX_PAGES + 1):
            results, is_last = self._page(path, {"page": page, "page_size": PAGE_NAMES, "ordering": "id"})
            n_names += len(results)
            if n_names > MAX_PAGES * PAGE_NAMES:
                break
            yield from results
            if is_last:
                return
        raise PaperlessError(f"paperless has more than {MAX_PAGES * PAGE_NAMES:,} {path}")

    def _page(self, path: str, query: Mapping[str, Any]) -> tuple[list[dict[str, Any]], bool]:
        """Return the objects of a page, and whether it is the last."""
        found = self._call("GET", f"{path}/", params=query)
        results = found.get("results") if isinstance(found, dict) else None
        if not isinstance(results, list) or not all(isinstance(each, dict) for each in results):
            raise PaperlessError(f"the response to GET {path}/ has no list of {path}: is this paperless-ngx?")
        return results, found.get("next") is None

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
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, RecursionError) as error:
            raise PaperlessError(f"{method} {path}: {error or type(error).__name__}") from error


def _document(found: Mapping[str, Any]) -> Document:
    try:
        one_of = {"correspondent": found["correspondent"], "type": found["document_type"]}
        labels = {f"{kind}:{id}" for kind, id in one_of.items() if id is not None}
        tags = frozenset(map(_id, found["tags"]))
        return Document(
            id=_id(found["id"]),
            modified=parse_time(found["modified"]).isoformat(),
            added=parse_time(found["added"]).isoformat(),
            record={"title": _name(found["title"]), "content": _name(found["content"] or "")},
            tags=tags,
            labels=frozenset(labels | {f"tag:{id}" for id in tags}),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise PaperlessError(f"a document cannot be read ({error}): is this paperless-ngx?") from error


def _id(value: Any) -> int:
    """Return an id; raise TypeError for any other value."""
    if type(value) is not int:
        raise TypeError(f"{value!r:.100} is not an id")
    return value


def _name(value: Any) -> str:
    """Return a text with lone surrogates replaced by U+FFFD; raise TypeError for any other value."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.100} is not a text")
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parse_time(text: str) -> datetime:
    """Parse a time in RFC 3339; without an offset it is in UTC. Raises TypeError, ValueError or OverflowError for other
    values."""
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _before(time: str) -> str:
    """Return a time just before another, because filters exclude the time itself."""
    try:
        return (parse_time(time) - timedelta(microseconds=1)).isoformat()
    except OverflowError:  # the earliest possible time
        return time
