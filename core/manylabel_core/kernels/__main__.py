"""``python -m manylabel_core.kernels compile [TIER ...]`` compiles what is missing, all tiers by default.

``python -m manylabel_core.kernels ship`` compiles all tiers for each target into the package, for ``make dist``.
"""

import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process that forks has one thread


def main(command: str = "", *tiers: str) -> str | None:
    """Run a command; return an error message, or None."""
    from manylabel_core.kernels import TIERS, KernelsOutdated, compile_missing
    from manylabel_core.kernels.shipping import ship

    unknown = set(tiers) - set(TIERS)
    if command not in {"compile", "ship"} or unknown or (tiers and command == "ship"):
        return f"usage: python -m manylabel_core.kernels compile [TIER ...] | ship; tiers: {', '.join(TIERS)}"
    try:
        if command == "ship":
            ship()
        else:
            compile_missing(tiers or TIERS)
    except KernelsOutdated as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
