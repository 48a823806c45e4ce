"""Benchmarks, from the root of the repository: `python -m benchmarks --help` names them."""

import argparse

from benchmarks import batch, budget, calibration, drift, http, online, reproduce, same_bits, streams

BENCHMARKS = {
    "online": online,
    "streams": streams,
    "budget": budget,
    "calibration": calibration,
    "drift": drift,
    "http": http,
    "batch": batch,
    "reproduce": reproduce,
    "same-bits": same_bits,
}
"""Each has a docstring, `add_arguments(parser)` and `run(args)`."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Comparisons with peers.")
    commands = parser.add_subparsers(dest="benchmark", required=True)
    for name, module in BENCHMARKS.items():
        summary = (module.__doc__ or "").partition("\n")[0]
        module.add_arguments(commands.add_parser(name, help=summary, description=summary))
    args = parser.parse_args()
    BENCHMARKS[args.benchmark].run(args)


if __name__ == "__main__":
    main()
