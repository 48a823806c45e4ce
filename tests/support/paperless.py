"""The routes of paperless-ngx that the sidecar uses, as its documentation has them, over documents in memory."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.http_server import http_server

TOKEN = "0123456789abcdef"
NAMES = ("tags", "correspondents", "document_types")


@dataclass
class Paperless:
    """A paperless-ngx.

    Attributes
    ----------
    edits : bodies of bulk edits, in their order.
    requests : methods and paths with queries, in their order.
    refusing : status of every response; None for the right ones.
    """

    url: str = ""
    names: dict[str, dict[int, dict[str, Any]]] = field(default_factory=lambda: {kind: {} for kind in NAMES})
    documents: dict[int, dict[str, Any]] = field(default_factory=dict)
    edits: list[dict[str, Any]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    refusing: int | None = None
    next_host: str | None = None
    _now: datetime = field(default_factory=lambda: datetime.now(UTC) - timedelta(days=1))

    def now(self) -> str:
        """A time, later than all before."""
        self._now += timedelta(seconds=1)
        return self._now.isoformat()

    def name(self, kind: str, name: str, matching_algorithm: int = 6, **more: Any) -> int:
        """Add a tag, a correspondent or a document type; its id."""
        id = 1 + max(self.names[kind], default=0)
        tag = {"is_inbox_tag": False, "parent": None} if kind == "tags" else {}
        fields = {"id": id, "slug": name.lower(), "name": name, "matching_algorithm": matching_algorithm}
        self.names[kind][id] = {**fields, "match": "", "is_insensitive": True, "document_count": 0, **tag, **more}
        return id

    def add(self, title: str, content: str, **more: Any) -> int:
        """Add a document; its id."""
        id, now = 1 + max(self.documents, default=0), self.now()
        fields = {
            "id": id,
            "title": title,
            "content": content,
            "tags": [],
            "correspondent": None,
            "document_type": None,
        }
        self.documents[id] = {**fields, "created": now, "added": now, "modified": now, "owner": None, **more}
        return id

    def edit(self, id: int, **fields: Any) -> None:
        """Change a document, as a person does."""
        self.documents[id].update(fields, modified=self.now())

    # -- routes -----------------------------------------------------------------------------------

    def get(self, path: str, query: dict[str, str]) -> Any:
        """Respond to a GET, with None for 404."""
        if path == "":
            return {kind: f"{self.url}/api/{kind}/" for kind in (*NAMES, "documents")}
        kind, _, id = path.partition("/")
        if id:
            return self.documents.get(int(id)) if kind == "documents" else self.names[kind].get(int(id))
        rows = list(self.documents.values()) if kind == "documents" else list(self.names[kind].values())
        for name, value in query.items():
            if name.endswith("__gt"):
                by, least = name.removesuffix("__gt"), datetime.fromisoformat(value)
                rows = [row for row in rows if datetime.fromisoformat(row[by]) > least]
        order = query.get("ordering", "id")
        rows.sort(key=lambda row: (row[order.lstrip("-")], row["id"]), reverse=order.startswith("-"))
        page, size = int(query.get("page", 1)), int(query.get("page_size", 25))
        if page > 1 and (page - 1) * size >= len(rows):
            return None
        more = page * size < len(rows)
        base = f"{self.next_host or self.url}/api/{kind}/?page_size={size}&page="
        return {
            "count": len(rows),
            "next": f"{base}{page + 1}" if more else None,
            "previous": f"{base}{page - 1}" if page > 1 else None,
            "all": [row["id"] for row in rows],
            "results": rows[(page - 1) * size : page * size],
        }

    def post(self, path: str, body: Any) -> Any:
        """Respond to a POST, with None for 404."""
        if path in NAMES:
            return self.names[path][self.name(path, **body)]
        if path != "documents/bulk_edit":
            return None
        self.edits.append(body)
        parameters = body["parameters"]
        for id in body["documents"]:
            document = self.documents[id]
            match body["method"]:
                case "modify_tags":
                    tags = [*document["tags"], *(t for t in parameters["add_tags"] if t not in document["tags"])]
                    self.edit(id, tags=[tag for tag in tags if tag not in parameters["remove_tags"]])
                case "set_correspondent":
                    self.edit(id, correspondent=parameters["correspondent"])
                case "set_document_type":
                    self.edit(id, document_type=parameters["document_type"])
                case other:
                    raise AssertionError(other)
        return {"result": "OK"}


@contextmanager
def paperless() -> Iterator[Paperless]:
    """Serve a paperless-ngx without documents."""
    served, lock = Paperless(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond(None)

        def do_POST(self) -> None:
            self._respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _respond(self, body: Any) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            path = parts.path.removeprefix("/api/").strip("/")
            with lock:
                served.requests.append(f"{self.command} {self.path}")
                if served.refusing or self.headers["Authorization"] != f"Token {TOKEN}":
                    return self._send(served.refusing or 401, {"detail": "refused"})
                found = served.get(path, query) if body is None else served.post(path, body)
            return self._send(404 if found is None else 200 if body is None or "result" in found else 201, found)

        def _send(self, status: int, document: Any) -> None:
            content = json.dumps(document).encode()
            self.send_response(status)
            if status in (301, 302, 307):
                self.send_header("Location", f"{served.url}/elsewhere")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with http_server(Handler) as served.url:
        yield served
