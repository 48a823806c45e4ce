"""Promise of parity through a server: calls saved in a closed loop, drifts, a noisy teacher, and processor time.

The teacher is the labels of the dataset. A client sends one document after the other, as text: it predicts and stores,
and submits the teacher's labels if the server asks. The server draws audits by the random ids of predictions, so each
run is another draw. "saved" is the share of documents answered without the teacher, of all and of the last quarter;
"agreed" the mean agreement of these answers, "excess" the most disagreements beyond the promise at any time. A run
counts as below if its number of wrong answers has a probability below 5 % at the target.

"last 500" is a client that asks a server without a promise: it answers if the score of `manylabel_core.parity` is above
the lowest threshold at which the last 500 answers of the teacher agree as promised, with at least 20 of them above, and
asks for 5 % of the others as audits.

Drift, half-way: "mind", a third of the frequent labels (at least 2 % of the documents) change places; "new", a fifth of
the labels appear only now; "mix", the share of documents with one of the commonest labels changes from 85 to 15 %;
"drop", the teacher stops giving a tenth of the frequent labels. The noisy teacher drops 10 % of its labels, and adds
one to 5 % of the documents.
"""

import argparse
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from benchmarks.data_sets import load_records
from benchmarks.http import servers
from benchmarks.http.calls import connected, send
from manylabel_core.parity import Parity, ParityTarget, agreement_of

EXACT = ParityTarget(0.95)
TARGETS = (EXACT, ParityTarget(0.9), ParityTarget(0.95, agreement="f1"))
NOISY_TARGETS = (EXACT, ParityTarget(0.9, agreement="f1"), ParityTarget(0.85, agreement="f1"))
WINDOW, LEAST = 500, 20
"""Answers of the teacher that a threshold is fitted to, and the least number above it."""
MODEL = "/v1/models/taught"
Call = Callable[..., Any]
AFTER = ((0, 250), (250, 1_000), (1_000, 2_000), (2_000, None))
"""Documents after a drift."""


class Stream(NamedTuple):
    """Documents in order, the teacher's labels, the true labels, and the first document after a drift."""

    records: list[dict[str, str]]
    teacher: list[set[str]]
    truth: list[set[str]]
    changes_at: int = 0


class Loop(NamedTuple):
    """Result of a closed loop: of each document the agreement of the answer (NaN if the teacher was asked), and whether
    the answer and the teacher's labels are the true ones."""

    agreed: NDArray[np.float64]
    true: NDArray[np.bool_]
    teacher_true: NDArray[np.bool_]
    openings: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with the datasets")
    parser.add_argument("--sets", default="reuters21578,debtags", help="by default %(default)s")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to run")
    parser.add_argument("--rows", type=int, default=8_000, help="first documents; by default %(default)s")
    parser.add_argument("--draws", type=int, default=3, help="draws of audits; by default %(default)s")
    parser.add_argument("--port", type=int, default=18750, help="of the server; by default %(default)s")


def run(args: argparse.Namespace) -> None:
    with servers.sqlite() as store, servers.manylabel(args.port, store, servers.CORES) as server:
        for part in args.only:
            print(f"\n## {part}\n", flush=True)
            PARTS[part](args, server)


@contextmanager
def model(port: int, target: ParityTarget | None) -> Iterator[Call]:
    """Create a model, delete it at the end; yield a function that sends requests."""
    spec = {"name": "taught", "algorithm": "falt", "sources": {"machine": 1}, "text": {"fields": ["title", "text"]}}
    with connected(port, timeout_seconds=600.0) as connection:
        call = partial(send, connection)
        call("POST", "/v1/models", spec if target is None else {**spec, "promise": target._asdict()})
        try:
            yield call
        finally:
            call("DELETE", MODEL)


# -- closed loops -------------------------------------------------------------------------------------


def closed(port: int, stream: Stream, target: ParityTarget) -> Loop:
    """Run the loop with a promise of parity."""
    with model(port, target) as call:

        def decide(record: dict[str, str], _: set[str]) -> tuple[bool, list[str], str]:
            one = call("POST", f"{MODEL}/predict?keep=true", {"x": record, "top": 1})
            return one["ask"], one["labels"], one["id"]

        def tell(id: str, _: dict[str, str], y: list[str]) -> None:
            call("POST", f"{MODEL}/labels", {"id": id, "y": y, "source": "machine"})

        loop = _loop(stream, target, decide, tell)
        openings = call("GET", f"{MODEL}/metrics")["promise"]["parity"]["openings"]
    return loop._replace(openings=openings)


def by_threshold(port: int, stream: Stream, target: ParityTarget, seed: int) -> Loop:
    """Run the loop with a threshold on the last answers of the teacher."""
    rng, parity, answers = np.random.default_rng(seed), Parity(target), deque[tuple[float, float]](maxlen=WINDOW)
    bar = np.inf
    with model(port, None) as call:

        def decide(record: dict[str, str], teacher: set[str]) -> tuple[bool, list[str], str]:
            nonlocal bar
            one = call("POST", f"{MODEL}/predict", {"x": record, "probabilities": True})
            names = list(one["scores"])
            likely = np.array([[one["probabilities"][name] for name in names]])
            (deferral,) = parity.defer(likely, np.array([[0.0, *(one["scores"][name] for name in names)]]))
            score = float(deferral.values[4])
            ask = score < bar or rng.random() < target.audit_rate
            if ask:
                columns = {name: column for column, name in enumerate(names)}
                known = [columns[name] for name in teacher if name in columns]
                parity.learn(deferral, [columns[name] for name in one["labels"]], known, len(teacher) - len(known))
                answers.append((score, agreement_of(target.agreement, one["labels"], teacher)))
                bar = _threshold(answers, target.parity)
            return ask, one["labels"], ""

        def tell(_: str, record: dict[str, str], y: list[str]) -> None:
            call("POST", f"{MODEL}/update", {"x": record, "y": y, "source": "machine"})

        return _loop(stream, target, decide, tell)


def _threshold(answers: deque[tuple[float, float]], parity: float) -> float:
    """Return the lowest score above which answers agree as promised."""
    if len(answers) < LEAST:
        return np.inf
    scores, agreed = np.array(answers).T
    order = np.argsort(-scores, kind="stable")
    means = np.cumsum(agreed[order]) / np.arange(1, 1 + len(order))
    enough = np.flatnonzero(means[LEAST - 1 :] >= parity)
    return float(scores[order][LEAST - 1 + enough[-1]]) if len(enough) else np.inf


def _loop(
    stream: Stream,
    target: ParityTarget,
    decide: Callable[[dict[str, str], set[str]], tuple[bool, list[str], str]],
    tell: Callable[[str, dict[str, str], list[str]], None],
) -> Loop:
    n = len(stream.records)
    agreed, true = np.full(n, np.nan), np.zeros(n, bool)
    for row, (record, teacher) in enumerate(zip(stream.records, stream.teacher, strict=True)):
        ask, answer, id = decide(record, teacher)
        if ask:
            tell(id, record, sorted(teacher))
        else:
            agreed[row] = agreement_of(target.agreement, answer, teacher)
            true[row] = set(answer) == stream.truth[row]
    right = np.array([said == due for said, due in zip(stream.teacher, stream.truth, strict=True)])
    return Loop(agreed, true, right, 0)


# -- streams ------------------------------------------------------------------------------------------


def stream_of(args: argparse.Namespace, name: str) -> Stream:
    """Return the first documents of a set, in the order of the file."""
    rows = load_records(args.data, name)[: args.rows]
    labels = [set(row["tags"]) for row in rows]
    fields = [field for field in ("title", "text", "section", "priority") if field in rows[0]]
    return Stream([{field: row[field] for field in fields} for row in rows], labels, labels)


def noisy(stream: Stream) -> Stream:
    """Return a stream whose teacher drops and adds labels."""
    rng = np.random.default_rng(0)
    all_given = sorted(label for labels in stream.truth for label in labels)  # as often as it is given
    said = []
    for labels in stream.truth:
        left = {label for label in sorted(labels) if rng.random() >= 0.1}
        said.append(left | ({all_given[rng.integers(len(all_given))]} if rng.random() < 0.05 else set()))
    return stream._replace(teacher=said)


def drifting(stream: Stream, kind: str) -> Stream:
    """Return a stream that drifts half-way."""
    rng, n = np.random.default_rng(0), len(stream.truth)
    counts, half = Counter(label for labels in stream.truth for label in labels), n // 2
    frequent = sorted(label for label, count in counts.items() if count >= 0.02 * n)
    if kind in ("mind", "drop"):
        moved = rng.permutation(frequent)[: max(2, len(frequent) // 3 if kind == "mind" else len(frequent) // 10)]
        becomes = dict(zip(moved.tolist(), np.roll(moved, 1).tolist() if kind == "mind" else [None] * n, strict=False))
        changed = [{becomes.get(label, label) for label in labels} - {None} for labels in stream.truth[half:]]
        teacher: Any = [*stream.truth[:half], *changed]
        return stream._replace(teacher=teacher, truth=teacher, changes_at=half)
    if kind == "new":
        new = set(rng.permutation(sorted(counts))[: len(counts) // 5].tolist())
        late = np.array([bool(labels & new) for labels in stream.truth])
        order = np.flatnonzero(~late)[:half].tolist()
        rest = np.setdiff1d(np.arange(n), order)
        return _ordered(stream, [*order, *rest.tolist()], len(order))
    has = np.zeros(n, bool)
    for label, _ in counts.most_common():  # the commonest labels that half of the documents have
        if has.mean() >= 0.5:
            break
        has |= np.array([label in labels for labels in stream.truth])
    ours, others = np.flatnonzero(has), np.flatnonzero(~has)
    size = int(min(len(ours), len(others)))
    part = int(0.85 * size)
    first, last = [*ours[:part], *others[: size - part]], [*others[size - part : size], *ours[part:size]]
    return _ordered(stream, [*rng.permutation(first).tolist(), *rng.permutation(last).tolist()], size)


def _ordered(stream: Stream, order: list[int], changes_at: int) -> Stream:
    records, truth = [stream.records[row] for row in order], [stream.truth[row] for row in order]
    return Stream(records, truth, truth, changes_at)


# -- parts --------------------------------------------------------------------------------------------


def _saved(args: argparse.Namespace, server: servers.Server) -> None:
    """Print the calls saved, of the promise and of a threshold."""
    print(f"{'set, rule, target':40}{'saved, last':>14}{'agreed':>8}{'below':>7}{'excess':>8}{'50 after':>10}")
    for name in args.sets.split(","):
        stream = stream_of(args, name)
        for target in TARGETS:
            loops = [closed(server.port, stream, target) for _ in range(args.draws)]
            print(_row(f"{name}, parity, {_shown(target)}", loops, target), flush=True)
        loops = [by_threshold(server.port, stream, EXACT, seed) for seed in range(args.draws)]
        print(_row(f"{name}, last 500, {_shown(EXACT)}", loops, EXACT), flush=True)


def _drift(args: argparse.Namespace, server: servers.Server) -> None:
    """Print the share of answers and their agreement around drifts."""
    heads = ["1,000 before", *(f"{first + 1}-{last}" if last else "later" for first, last in AFTER)]
    print(f"{'drift, set, rule':28}{''.join(f'{head:>14}' for head in heads)}{'wrong, of':>14}{'excess':>8}")
    for kind in ("mind", "new", "mix", "drop"):
        for name in args.sets.split(","):
            stream = drifting(stream_of(args, name), kind)
            loops = {"parity": closed(server.port, stream, EXACT)}
            if kind == "mind":
                loops["last 500"] = by_threshold(server.port, stream, EXACT, 0)
            for rule, loop in loops.items():
                at = stream.changes_at
                parts = [slice(max(0, at - 1000), at), *(slice(at + a, b and at + b) for a, b in AFTER)]
                shown = "".join(f"{_part(loop.agreed[part]):>14}" for part in parts)
                after = loop.agreed[at:][~np.isnan(loop.agreed[at:])]
                wrong = f"{np.sum(1 - after):.0f} of {len(after):,}"
                print(f"{f'{kind}, {name}, {rule}':28}{shown}{wrong:>14}{_excess(loop, EXACT):>8.0f}", flush=True)


def _noise(args: argparse.Namespace, server: servers.Server) -> None:
    """Print the calls saved with a noisy teacher, and how often the answers are true."""
    print(f"{'set, target':30}{'saved, last':>14}{'agreed':>8}{'true: ours, its':>18}{'excess':>8}")
    for name in args.sets.split(","):
        stream = noisy(stream_of(args, name))
        for target in NOISY_TARGETS:
            loops = [closed(server.port, stream, target) for _ in range(args.draws)]
            alone = [~np.isnan(loop.agreed) for loop in loops]
            ours = _mean([each for loop, own in zip(loops, alone, strict=True) for each in loop.true[own]])
            its = _mean([each for loop, own in zip(loops, alone, strict=True) for each in loop.teacher_true[own]])
            agreed = _mean([each for loop, own in zip(loops, alone, strict=True) for each in loop.agreed[own]])
            saved = np.mean([own.mean() for own in alone]), np.mean([own[-len(own) // 4 :].mean() for own in alone])
            excess = max(_excess(loop, target) for loop in loops)
            row = f"{f'{name}, {_shown(target)}':30}{f'{saved[0]:.3f}, {saved[1]:.3f}':>14}{agreed:>8}"
            print(f"{row}{f'{ours}, {its}':>18}{excess:>8.0f}", flush=True)


def _cost(args: argparse.Namespace, server: servers.Server) -> None:
    """Print the processor time of the server for a prediction and a label, with and without a promise."""
    print(f"{'set: us of the event loop':38}{'predict':>10}{'stored':>10}{'labels':>10}")
    for name in args.sets.split(","):
        stream = stream_of(args, name)
        n = min(500, len(stream.records) // 2)
        for target in (None, EXACT) * 3:
            with model(server.port, target) as call:
                learnt = [
                    {"x": record, "y": sorted(y), "source": "machine"}
                    for record, y in zip(stream.records[:n], stream.teacher[:n], strict=True)
                ]
                for first in range(0, n, 100):
                    call("POST", f"{MODEL}/update", {"examples": learnt[first : first + 100]})
                kept: list[Any] = []
                some = stream.records[n : 2 * n]

                def predict(query: str, record: dict[str, str], call: Call = call) -> Any:
                    return call("POST", f"{MODEL}/predict{query}", {"x": record, "top": 1})

                def label(one: Any, teacher: set[str], call: Call = call) -> None:
                    call("POST", f"{MODEL}/labels", {"id": one["id"], "y": sorted(teacher), "source": "machine"})

                began = server.loop_seconds()
                for record in some:
                    predict("", record)
                plain = server.loop_seconds()
                kept = [predict("?keep=true", record) for record in some]
                stored = server.loop_seconds()
                pairs = [pair for pair in zip(kept, stream.teacher[n:], strict=False) if pair[0].get("ask", True)]
                for pair in pairs:
                    label(*pair)
                done = server.loop_seconds()
            costs = (plain - began) / n, (stored - plain) / n, (done - stored) / len(pairs)
            what = f"{name}, {'parity' if target else 'no promise'}"
            print(f"{what:38}{''.join(f'{1e6 * cost:>10.0f}' for cost in costs)}", flush=True)


PARTS: dict[str, Callable[[argparse.Namespace, servers.Server], None]] = {
    "cost": _cost,
    "saved": _saved,
    "drift": _drift,
    "noise": _noise,
}


# -- figures ------------------------------------------------------------------------------------------


def _row(what: str, loops: list[Loop], target: ParityTarget) -> str:
    """Return a line of the table: means over the runs, the number below the target, and the worst excess."""
    alone = [~np.isnan(loop.agreed) for loop in loops]
    shares = np.mean([own.mean() for own in alone]), np.mean([own[-len(own) // 4 :].mean() for own in alone])
    agreed = _mean([each for loop, own in zip(loops, alone, strict=True) for each in loop.agreed[own]])
    below = sum(_below(loop, target) for loop in loops)
    excess = max(_excess(loop, target) for loop in loops)
    firsts = [float(np.flatnonzero(own)[49]) for own in alone if own.sum() >= 50]
    first = f"{np.mean(firsts):.0f}" if firsts else "never"
    return f"{what:40}{f'{shares[0]:.3f}, {shares[1]:.3f}':>14}{agreed:>8}{below:>7}{excess:>8.0f}{first:>10}"


def _below(loop: Loop, target: ParityTarget) -> bool:
    wrong = 1.0 - loop.agreed[~np.isnan(loop.agreed)]
    return bool(len(wrong) and binom.sf(np.ceil(wrong.sum()) - 1, len(wrong), 1.0 - target.parity) < 0.05)


def _excess(loop: Loop, target: ParityTarget) -> float:
    """Return the most disagreements beyond the promise at any time."""
    wrong = 1.0 - loop.agreed[~np.isnan(loop.agreed)]
    return max(0.0, float(np.cumsum(wrong - (1.0 - target.parity)).max(initial=0.0)))


def _mean(values: list[Any]) -> str:
    return f"{np.mean(values):.3f}" if values else "-"


def _part(agreed: NDArray[np.float64]) -> str:
    """Return the share of answers, and their agreement."""
    own = agreed[~np.isnan(agreed)]
    share = len(own) / len(agreed) if len(agreed) else 0.0
    return f"{share:.2f} ({own.mean():.2f})" if len(own) else f"{share:.2f} (-)"


def _shown(target: ParityTarget) -> str:
    return f"{target.agreement} {target.parity:g}"
