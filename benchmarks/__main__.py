"""`python -m benchmarks online`, `http`, `batch` or `reproduce`, from the root of the repository."""

import argparse

from benchmarks import batch, http, online, reproduce

BENCHMARKS = {"online": online, "http": http, "batch": batch, "reproduce": reproduce}
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
