"""Comparison of two checkouts of this project: whether they learn identical states, bit for bit.

Each checkout is installed in its `.venv`. The Python of each runs the cases of `learners`, `adapters`, `trainers` and
`hosted` in a separate process, on seeded streams and sets; the results are compared as digests.
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
"""Digest of each quantity, or the message of a rejection, by case."""


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
    """Return the digests of one part, computed by the Python of a checkout with the cases of this checkout."""
    python = checkout.resolve() / ".venv/bin/python"
    environment = {**os.environ, **results.ONE_THREAD, "PYTHONPATH": str(ROOT)}
    command = [str(python), "-m", f"benchmarks.same_bits.{part}", matching]
    done = subprocess.run(command, env=environment, cwd="/", stdout=subprocess.PIPE, text=True, check=True)
    digests: Digests = json.loads(done.stdout)
    return digests


def _table(part: str, before: Digests, after: Digests, different: set[str]) -> list[str]:
    """Return a row for each learner or trainer of the part: the first word of its cases."""
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
