"""Transcripts of integrations: Annif's own evaluation with ManyLabel as a backend; MCP, paperless-ngx and webhooks.

Each part starts a server, and prints what a user types and sees. Annif runs in a separate environment with NLTK's
`punkt_tab`: `pip install 'annif[omikuji]'`. The server of recorded responses in tests/support replaces paperless-ngx.
"""

import argparse
from pathlib import Path

from benchmarks.integrations import annif, mcp, paperless, webhooks

PARTS = {"annif": annif.run, "mcp": mcp.run, "paperless": paperless.run, "webhooks": webhooks.run}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to run")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with makupalat.jsonl.gz, for annif")
    parser.add_argument("--annif", default="annif", help="program of Annif; by default %(default)s")
    parser.add_argument("--port", type=int, default=8300, help="of the server; by default %(default)s")


def run(args: argparse.Namespace) -> None:
    """Run parts."""
    for part in args.only:
        print(f"\n## {part}\n", flush=True)
        PARTS[part](args)
