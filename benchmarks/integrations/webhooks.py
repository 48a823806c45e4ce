"""Webhooks with a receiver that verifies signatures: events, a failure that is repeated, and the delivery log."""

import argparse
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from benchmarks.http import servers
from benchmarks.integrations.typed import MANYLABEL, server, typed

SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDQuJzkeSaT4w="
PROMISE = {"precision": 0.9, "settled": 0.9, "missed": 0.05, "audit_rate": 0.05}


def run(args: argparse.Namespace) -> None:
    """Print the commands, and the events that the receiver gets."""
    with _receiver(args.port + 1) as received:
        address = f"http://127.0.0.1:{args.port + 1}"
        with server(args.port, "--webhook-urls", address) as (url, _):
            at = {"MANYLABEL_URL": url}
            wanted = ("--event", "label", "--event", "review", "--model", "tags-*")
            more = {**at, "MANYLABEL_WEBHOOK_SECRET": SECRET}
            typed(MANYLABEL, "manylabel", "webhooks", "create", f"{address}/hook", *wanted, more=more)
            for path, body in (
                ("/v1/models", {"name": "tags-en", "algorithm": "falt", "promise": PROMISE}),
                ("/v1/models/tags-en/update", {"x": {"due": 1}, "y": ["invoice"]}),
                ("/v1/models/tags-en/predict?keep=true", {"x": {"due": 1}}),
            ):
                print(f"$ curl -X POST {url}{path} -H 'Content-Type: application/json' -d '{json.dumps(body)}'")
                print(servers.post(args.port, path, json.dumps(body).encode()).decode(), flush=True)
            deadline = time.monotonic() + 120
            while len(received) < 3 and time.monotonic() < deadline:
                time.sleep(0.1)
            print("the receiver responds to the first request with 503, to others with 204:")
            print("\n".join(received), flush=True)
            (id,) = (each["id"] for each in json.loads(servers.get(args.port, "/v1/webhooks"))["webhooks"])
            typed(MANYLABEL, "manylabel", "webhooks", "test", id, more=at)
            typed(MANYLABEL, "manylabel", "webhooks", "show", id, more=at)


@contextmanager
def _receiver(port: int) -> Iterator[list[str]]:
    """Receive events on a port; yield lines that describe them."""
    from standardwebhooks.webhooks import Webhook

    received: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            Webhook(SECRET).verify(body, {name.lower(): value for name, value in self.headers.items()})
            status = 204 if received else 503
            received.append(f"{self.headers['webhook-id']}, signature verified, {status}: {body.decode()}")
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield received
        finally:
            listening.shutdown()
            thread.join()
