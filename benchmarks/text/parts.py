"""Records with text: encoding time, throughput of a stream, and quality, compared with other libraries."""

import argparse
from pathlib import Path

from benchmarks.text import encoding, indexers, many_labels, quality, stream, titles, vectors

PARTS = {
    "encoding": encoding.run,
    "stream": stream.run,
    "quality": quality.run,
    "titles": titles.run,
    "many-labels": many_labels.run,
    "indexers": indexers.run,
    "vectors": vectors.run,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to run")
    parser.add_argument(
        "--sets", nargs="+", choices=many_labels.SETS, default=list(many_labels.SETS), help="sets of many-labels"
    )
    parser.add_argument("--indexers", type=Path, help="Python with the peers of indexers")
    parser.add_argument("--rows", type=int, help="documents of each set of indexers; by default all")
    parser.add_argument("--records", type=int, default=2_000, help="records to read; by default %(default)s")
    parser.add_argument("--repeats", type=int, default=7, help="runs of each contender; by default %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with debtags.jsonl.gz, for the others")
    parser.add_argument("--peer-seconds", type=float, default=120.0, help="time of a slow peer; default %(default)s")
    parser.add_argument("--port", type=int, default=8300, help="of the server; by default %(default)s")
    parser.add_argument("--out", type=Path, help="folder for the plot (PNG)")


def run(args: argparse.Namespace) -> None:
    for part in args.only:
        PARTS[part](args)
