"""Compile the functions that are not on disk yet: ``python -m manylabel_service.compile_functions [--niceness N] TIER
...``.

The process and its child processes end with their parent. The first tier is complete before the others begin; these
leave a core to the server.
"""

import argparse

from manylabel_core import kernels
from manylabel_service import processes

NAME = "manylabel-numba"
"""Name of the process and of its child processes in ``ps``."""


def main() -> None:
    """Compile tiers of functions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--niceness", type=int, default=0)
    parser.add_argument("tiers", nargs="+", choices=kernels.TIERS)
    args = parser.parse_args()
    processes.die_with_parent()
    processes.name(NAME)
    processes.lower_priority(args.niceness)
    n_cores = kernels.n_cores()
    for tiers, n_processes in ((args.tiers[:1], n_cores), (args.tiers[1:], max(1, n_cores - 1))):
        if tiers:
            kernels.compile_missing(tiers, n_processes=n_processes)


if __name__ == "__main__":
    main()
