"""Do two checkouts of this project learn the same, bit by bit?

Each checkout has a `.venv` in which it is installed. What is in `learners`, `adapters`, `trainers` and `hosted` is run
by the Python of either, in a process of its own, on streams and sets made from seeds; what comes out is compared as
digests.
"""

import argparse
import json
import os
import subprocess
from pathlib import Path

from benchmarks import results

PARTS = ("learners", "adapters", "trainers", "hosted")
ROOT = Path(__file__).resolve().parents[2]

Digests = dict[str, dict[str, str]]
"""By case, the digest of each quantity, or how the case was refused."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", type=Path, help="a checkout with its own .venv")
    parser.add_argument("after", type=Path, nargs="?", default=ROOT, help="another one; by default this")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--matching", default="", help='only cases with this text in their names, as "KernelFALT {\'budget"'
    )
    parser.add_argument("--show", type=int, default=20, help="differences to list, for each part")


def run(args: argparse.Namespace) -> None:
    rows, listed = [], []
    for name, checkout in (("before", args.before), ("after", args.after)):
        print(f"{name}: {results.state_of(checkout)}", flush=True)
    for part in args.only:
        before, after = (_digests(checkout, part, args.matching) for checkout in (args.before, args.after))
        different = sorted(case for case in {*before, *after} if before.get(case) != after.get(case))
        listed += [_difference(part, case, before, after) for case in different[: args.show]]
        rows += _table(part, before, after, set(different))
    print("| part | cases | refused by both | values compared | different |\n|---|---|---|---|---|")
    print("\n".join(rows))
    print("\n".join(listed))
    if listed:
        raise SystemExit(1)


def _digests(checkout: Path, part: str, matching: str) -> Digests:
    """The digests of one part, computed by the Python of a checkout with this checkout's cases."""
    python = checkout.resolve() / ".venv/bin/python"
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": str(ROOT)}
    command = [str(python), "-m", f"benchmarks.same_bits.{part}", matching]
    done = subprocess.run(command, env=environment, cwd="/", stdout=subprocess.PIPE, text=True, check=True)
    digests: Digests = json.loads(done.stdout)
    return digests


def _table(part: str, before: Digests, after: Digests, different: set[str]) -> list[str]:
    """A row for each learner or trainer of the part: the first word of its cases."""
    lines = []
    for name in dict.fromkeys(case.split()[0] for case in before):
        cases = [case for case in before if case.split()[0] == name]
        refused = sum("refused" in before[case] and before[case] == after.get(case) for case in cases)
        values = sum(len(before[case]) for case in cases) - refused
        unequal = sum(case in different for case in cases)
        lines.append(f"| {part}: {name} | {len(cases)} | {refused} | {values} | {unequal} |")
    if new := set(after) - set(before):
        lines.append(f"| {part}: only after | {len(new)} | | | {len(new)} |")
    return lines


def _difference(part: str, case: str, before: Digests, after: Digests) -> str:
    old, new = before.get(case, {}), after.get(case, {})
    names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    said = ", ".join(f"{name} {old.get(name, 'none')[:40]} -> {new.get(name, 'none')[:40]}" for name in names)
    return f"{part}: {case}: {said}"
