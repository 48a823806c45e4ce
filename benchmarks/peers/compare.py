"""Batch trainers compared with forests, boosting, chains and linear machines with tuned thresholds.

Sets have their official split, if any. Settings and thresholds of every contender are chosen by one rule inside the
training half (`selection`). Every contender has the same CPU time per set (`--seconds`) for search, thresholds, fits to
all rows and prediction. A search stops early enough for the later steps; a contender that exceeds its time "did not
finish". Contenders run one at a time, each in a separate process with one thread.

Columns: micro-F1 and macro-F1, each with the setting and thresholds chosen for it; micro-F1 of the default setting with
thresholds; ranking loss and average precision of the setting for micro-F1; CPU seconds of a fit of that setting to all
rows, of predicting the test half, and in total.

The file --raw has a JSON line per result. These are not run again, so a run can be interrupted, unless they did not
finish or stopped their search early and --seconds is larger now. --from prints the table of such a file.
"""

import argparse
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.peers import child
from benchmarks.peers.child import call, contenders
from benchmarks.peers.tasks import OF_VIEWS, SETS

RAW = results.FOLDER / "peers.jsonl"
LEVEL = 0.01
"""Maximum distance from the best at which ours counts as level."""
DONE = "in good order"
COLUMNS = {"micro-F1": 9, "macro-F1": 9, "default": 9, "rank loss": 10, "avg prec": 9}
COLUMNS |= {"train s": 9, "predict s": 10, "all s": 9}
HEAD = "".join(f"{name:>{width}}" for name, width in COLUMNS.items())

Line = dict[str, Any]


def run(args: argparse.Namespace) -> None:
    if args.from_file is None:
        if args.data is None:
            raise SystemExit("--data must name the folder with the datasets (or --from a file of results)")
        child.CONTEXT.set_forkserver_preload(child.PRELOADED)
        _run_all(args)
    raw = args.from_file or args.raw
    lines = [line for line in read(raw) if not args.sets or line["set"] in args.sets]
    print_tables(lines)


def _run_all(args: argparse.Namespace) -> None:
    args.raw.parent.mkdir(parents=True, exist_ok=True)
    there = {(line["set"], line["contender"]): line for line in read(args.raw)}
    for name in args.sets or SETS:
        for contender in contenders(args):
            if args.only and contender.name not in args.only:
                continue
            if not _is_due(there.get((name, contender.name)), args.seconds):
                continue
            began, load = datetime.now(UTC).isoformat(timespec="seconds"), os.getloadavg()[0]
            found = call(args, name, contender)
            where = {"set": name, "contender": contender.name, "ours": contender.ours, "package": contender.package}
            how = {"budget": args.seconds, "began": began, "load": round(load, 2), **results.state_of(results.ROOT)}
            with args.raw.open("a") as file:
                file.write(json.dumps({**where, **how, **found}) + "\n")
            print(f"{name:14}{contender.name:26}{found['ended']:40} load {load:.1f}", flush=True)


def _is_due(line: Line | None, seconds: float) -> bool:
    """Return whether a contender has not been run, could not be run, or had too little time."""
    if line is None or line["ended"].startswith(("failed", "not run: needs")):
        return True
    cut_short = line["left_out"] > 0 if line["ended"] == DONE else not line["ended"].startswith("not run")
    return bool(cut_short and line["budget"] < seconds)


def read(path: Path) -> list[Line]:
    """Return the last line of each set and contender."""
    if not path.exists():
        return []
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    return list({(line["set"], line["contender"]): line for line in lines}.values())


def print_tables(lines: list[Line]) -> None:
    verdicts = []
    for name in dict.fromkeys(line["set"] for line in sorted(lines, key=_order)):
        of_set = [line for line in lines if line["set"] == name]
        task = next((line["task"] for line in of_set if "task" in line), "")
        print(f"\n== {name}: {task}\n{'':28}{HEAD}")
        for line in of_set:
            print(f"{'* ' if line['ours'] else '  '}{line['contender']:26}{_cells(line)}")
        verdicts.append(_verdict(name, [line for line in of_set if line["ended"] == DONE]))
    print("\n* ours. Best of ours and of the others, by the measure that setting and cuts were chosen for:")
    print("\n".join(text for text, _ in verdicts))
    won = sum(each for _, each in verdicts)
    print(f"ours best, or within {LEVEL} of the best, in one of the two: {won} of {len(verdicts)}")
    _print_conditions(lines)


def _order(line: Line) -> int:
    return (*SETS, *OF_VIEWS, line["set"]).index(line["set"])


def _cells(line: Line) -> str:
    if line["ended"] != DONE:
        return f" {line['ended']}"
    micro, macro, default = (line["measured"][target] for target in ("micro_f1", "macro_f1", "default"))
    cells = f"{micro['micro_f1']:9.3f}{macro['macro_f1']:9.3f}{default['micro_f1']:9.3f}{micro['ranking_loss']:10.3f}"
    predicting = "" if micro["prediction"] is None else f"{micro['prediction']:.3f}"
    cells += f"{micro['average_precision']:9.3f}{micro['training']:9.2f}{predicting:>10}{line['seconds']:9.1f}"
    return cells + (f"  ({line['left_out']} settings not reached)" if line["left_out"] else "")


def _verdict(name: str, done: list[Line]) -> tuple[str, bool]:
    text, won = f"  {name:14}", False
    if not any(line["ours"] for line in done) or all(line["ours"] for line in done):
        return f"{text}nothing to compare", False
    for target in ("micro_f1", "macro_f1"):

        def reached(line: Line, target: str = target) -> float:
            return float(line["measured"][target][target])

        ours, theirs = (max((line for line in done if line["ours"] is side), key=reached) for side in (True, False))
        ahead = reached(ours) - reached(theirs)
        won = won or ahead >= -LEVEL
        text += f"{target.replace('_f1', '-F1')} {reached(ours):.3f} ({ours['contender']}), {reached(theirs):.3f} "
        text += f"({theirs['contender']}): {ahead:+.3f}   "
    return text, won


def _print_conditions(lines: list[Line]) -> None:
    versions = {line["package"]: line["version"] for line in lines if line.get("version")}
    loads = [line["load"] for line in lines]
    print(f"seconds for one contender and set: {', '.join(sorted({format(line['budget'], 'g') for line in lines}))}")
    print(f"load of the machine: {min(loads, default=0.0)} to {max(loads, default=0.0)}")
    print(f"commits: {', '.join(sorted({line['commit'][:8] for line in lines}))}")
    print("packages: " + ", ".join(f"{name} {found}" for name, found in versions.items()))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, help="folder with the datasets")
    parser.add_argument("--sets", nargs="+", choices=(*SETS, *OF_VIEWS), help="datasets; by default the twelve")
    parser.add_argument("--only", nargs="+", metavar="CONTENDER", help="contenders by name; all by default")
    parser.add_argument("--seconds", type=float, default=600.0, help="for a contender and set; by default %(default)s")
    parser.add_argument(
        "--wall", type=float, default=4.0, help="times that by the clock, on a busy machine; by default %(default)s"
    )
    parser.add_argument("--raw", type=Path, default=RAW, help="results, a line of JSON each; by default %(default)s")
    parser.add_argument("--from", dest="from_file", type=Path, help="print the tables of such a file, and run nothing")
    parser.add_argument("--meka", type=Path, help="the moa.jar of capymoa's wheel, which holds MEKA")
    parser.add_argument("--clus", type=Path, help="the jar of CLUS; by default that of the package pyclus")
    for flag in ("boomer", "pecos"):
        parser.add_argument(f"--{flag}", type=Path, help=f"the Python of an environment that has {flag}")
