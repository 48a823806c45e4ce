"""``python -m manylabel_core.kernels compile [TIER ...] [--more FILE]`` compiles the missing specialisations, of all
tiers by default.

FILE lists additional ones. ``python -m manylabel_core.kernels ship`` compiles all tiers for each target into the
package, for ``make dist``.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process that forks has one thread


def main() -> str | None:
    """Run a command; return an error message, or None."""
    from manylabel_core.kernels import TIERS, KernelsOutdated, compile_missing
    from manylabel_core.kernels.shipping import ship

    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    compiling = commands.add_parser("compile")
    compiling.add_argument("tiers", nargs="*", metavar="TIER", help=f"one of {', '.join(TIERS)}")
    compiling.add_argument("--more", type=Path, metavar="FILE")
    commands.add_parser("ship")
    args = parser.parse_args()
    if args.command == "ship":
        ship()
        return None
    if unknown := set(args.tiers) - set(TIERS):
        parser.error(f"unknown tiers: {', '.join(sorted(unknown))}")
    try:
        compile_missing(args.tiers or TIERS, more=() if args.more is None else args.more.read_text().splitlines())
    except KernelsOutdated as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main())
