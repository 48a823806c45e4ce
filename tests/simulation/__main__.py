"""Run lifetimes: ``python -m tests.simulation --seed N`` repeats one, and prints its trace if a promise was broken."""

import argparse
import gc
import os
import sys
import time
import traceback
from collections import Counter

SHOWN = 60
"""Lines of a trace that are printed."""


def main() -> int:
    """Return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=1, help="number of lifetimes")
    parser.add_argument("--theme", help="run only the lifetimes of a theme, such as forget")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="processor seconds after which none begins")
    parser.add_argument("--lines", type=int, default=SHOWN, help="lines of the trace to print; 0: all")
    parser.add_argument("--keep-going", action="store_true", help="go on after a violation")
    parser.add_argument("--coverage", action="store_true", help="print where servers have crashed, and where never")
    parser.add_argument("--at-calls", action="store_true", help="also crash servers at calls of the store of each kind")
    parser.add_argument("--twice", action="store_true", help="run each lifetime twice, and compare the traces")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets must follow from the seed
        command = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})

    from tests.simulation.coverage import Coverage
    from tests.simulation.lifetimes import Lifetime
    from tests.simulation.world import Violation

    from manylabel_service.hosting.kernels import SERVED, load

    load(SERVED)
    gc.freeze()
    coverage = Coverage() if options.coverage else None
    began, total, failed = time.process_time(), Counter[str](), 0
    for seed in range(options.seed, options.seed + options.count):
        if time.process_time() - began >= options.seconds:
            break
        traces = []
        for _ in range(2 if options.twice else 1):
            lifetime = Lifetime(seed, coverage, options.at_calls)
            if options.theme not in (None, lifetime.theme):
                lifetime.world.loop.dispose()
                continue
            try:
                lifetime.run()
            except Exception as violation:
                failed += 1
                print(f"seed {seed}: {violation} ({time.process_time() - began:.1f} s)")
                if not isinstance(violation, Violation):
                    traceback.print_exc(file=sys.stdout)
                if not options.keep_going:
                    for at, process, text in lifetime.world.trace[-options.lines :]:
                        print(f"{at:10.4f} {process:>6} {text}")
                    print(lifetime.world.cause)
            traces.append(lifetime.world.trace)
            total["lifetimes"] += 1
            total[f"of {lifetime.theme}"] += 1
            total["callbacks"] += lifetime.world.loop.steps
            total["processes that ended"] += len(lifetime.world.loop.crashed)
            total.update(lifetime.done)
            total.update(lifetime.world.faults.counts)
        if traces and traces[0] != traces[-1]:
            failed += 1
            print(f"seed {seed}: two runs differ")
        if failed and not options.keep_going:
            break
    if coverage is not None:
        print("\n".join(coverage.lines()))
    seconds = time.process_time() - began
    rate = total["lifetimes"] / seconds * 3_600 if seconds else 0.0
    print(f"{dict(total)} in {seconds:.1f} s of processor time: {rate:,.0f} lifetimes per hour; {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
