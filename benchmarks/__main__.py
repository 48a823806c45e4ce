"""The command `python -m benchmarks NAME`, from the root of the repository: runs a benchmark and records its output."""

import argparse
from pathlib import Path

from benchmarks import results
from benchmarks.batch import sections
from benchmarks.history import costs as history_costs
from benchmarks.history import measures as history
from benchmarks.http import many_models, parts
from benchmarks.install import extras as install
from benchmarks.integrations import parts as integrations
from benchmarks.online import (
    budget,
    calibration,
    drift,
    health,
    label_next,
    missing,
    promise,
    speed,
    streams,
    teacher,
    vectors,
)
from benchmarks.peers import compare as peers
from benchmarks.reproduce import papers
from benchmarks.same_bits import compare
from benchmarks.text import parts as text

BENCHMARKS = {
    "online": speed,
    "streams": streams,
    "budget": budget,
    "calibration": calibration,
    "drift": drift,
    "missing": missing,
    "vectors": vectors,
    "text": text,
    "label-next": label_next,
    "health": health,
    "history": history,
    "history-costs": history_costs,
    "promise": promise,
    "teacher": teacher,
    "http": parts,
    "many-models": many_models,
    "integrations": integrations,
    "batch": sections,
    "peers": peers,
    "install": install,
    "reproduce": papers,
    "same-bits": compare,
}
"""Benchmarks by name, each a module with a docstring, `add_arguments(parser)` and `run(args)`."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Comparisons with peers.")
    parser.add_argument(
        "--results", type=Path, default=results.FOLDER, help="folder for the output; by default %(default)s"
    )
    commands = parser.add_subparsers(dest="benchmark", required=True)
    for name, module in BENCHMARKS.items():
        summary = (module.__doc__ or "").partition("\n")[0]
        module.add_arguments(commands.add_parser(name, help=summary, description=summary))
    args = parser.parse_args()
    with results.recorded(args.benchmark, args.results):
        BENCHMARKS[args.benchmark].run(args)


if __name__ == "__main__":
    main()
