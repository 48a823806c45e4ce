"""Doubtful labels and health of labels: what the rules of the server find of errors that were put into public streams.

For doubts, it prints the precision of the first 20, 50 and 100: 5 % of the true labels of a stream are removed, and as
many wrong ones added, half of them at random and half by co-occurrence. Errors in the data themselves count as false
alarms. For suggestions, it prints how many injected changes were found: labels split by turns or by time, misspelt,
always given with another one, put under a parent, or given at random. With `--dry-run`, it prints the processor time
and the memory of a dry run.
"""

import argparse
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.data_sets import load_records, load_stream, named_columns, words_of
from manylabel_core import FALT
from manylabel_core.doubts import find_doubts
from manylabel_core.doubts.held_out import held_out, known, learn_halves, take_targets
from manylabel_core.label_health import Change, Labels, ProbabilitySums, Truths, count_labels, suggest, try_change
from manylabel_core.label_health.rules import named_pairs
from manylabel_core.online.pipeline import Pipeline
from manylabel_core.rows import Rows, Targets, as_rows

NOISE, FIRST = 0.05, (20, 50, 100)
EACH, LEAST, LEAST_MISSPELT, LEAST_RANDOM = 8, 20, 100, 60
KINDS = ("50:50", "80:20", "by time", "misspelt", "together", "parent", "random")
_SHARES = {"50:50": 0.5, "80:20": 0.2, "misspelt": 0.1}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"

Pair = tuple[str, frozenset[int]]
"""Kind of a suggestion, and its labels."""
_Due = tuple[tuple[str, ...], frozenset[int]]
"""Kinds of suggestions of which one finds a change, and their labels."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with the datasets")
    parser.add_argument(
        "--sets", default="scene,enron,rcv1sub1,reuters21578,debtags,bibtex,yeast", help="by default %(default)s"
    )
    parser.add_argument("--most", type=int, default=10_000, help="examples of a set; by default %(default)s")
    parser.add_argument("--orders", type=int, default=2, help="random orders; by default %(default)s")
    parser.add_argument("--dry-run", action="store_true", help="measure a dry run of each set instead")


def run(args: argparse.Namespace) -> None:
    for name in args.sets.split(","):
        X, Y = _stream(args.data, name)
        if args.dry_run:
            _print_dry_run(name, X, Y, args.most)
            continue
        for order in range(1, args.orders + 1):
            rng = np.random.default_rng(order)
            chosen = rng.permutation(X.shape[0])[: args.most]
            began = time.process_time()
            found = _doubts(X[chosen], sp.csr_array(Y[chosen]), rng)
            middle = time.process_time()
            suggested = _injected(X[chosen], sp.csr_array(Y[chosen]), rng)
            seconds = middle - began, time.process_time() - middle
            costs = ", ".join(f"{1e6 * each / len(chosen):.0f} us" for each in seconds)
            print(f"{name}, order {order}: {len(chosen):,} examples, {Y.shape[1]} labels; an example costs {costs}")
            for kind, precisions in found.items():
                print(f"  {kind:8}", " ".join(f"@{n} {p:.2f}" for n, p in zip(FIRST, precisions, strict=True)))
            print("  injected", ", ".join(f"{kind} {hits}/{n}" for kind, (hits, n) in suggested.items()), flush=True)


def _stream(folder: Path, name: str) -> tuple[sp.csr_array, sp.csr_array]:
    if name in ("reuters21578", "makupalat"):
        records = load_records(folder, name)
        X = named_columns(
            {f"{part}={w}": v for part in ("title", "text") for w, v in words_of(each.get(part) or "")}
            for each in records
        )
        return X, named_columns(dict.fromkeys(each["tags"], 1.0) for each in records)
    X, Y = load_stream(folder, name)
    return sp.csr_array(X), sp.csr_array(Y)


def _targets(Y: sp.csr_array, most: int | None = None) -> Targets:
    """Return complete true labels, with columns in the order of their first use."""
    Y = sp.csr_array(Y)
    Y.eliminate_zeros()
    Y.sort_indices()
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    first = np.full(Y.shape[1], Y.shape[0])
    np.minimum.at(first, Y.indices, rows)
    order = np.argsort(first, kind="stable")
    column = np.empty(Y.shape[1], dtype=np.int32)
    column[order] = np.arange(Y.shape[1])
    existing = np.searchsorted(first[order], np.arange(Y.shape[0]), side="right").astype(np.int64)
    signs = np.ones(len(Y.indices), dtype=np.int8)
    return Targets(Y.indptr.astype(np.int64), column[Y.indices], signs, np.ones(Y.shape[0], dtype=np.bool_), existing)


def _column_of(Y: sp.csr_array) -> NDArray[np.int64]:
    """Return the column of each label in `_targets`."""
    Y = sp.csr_array(Y)
    first = np.full(Y.shape[1], Y.shape[0])
    np.minimum.at(first, Y.indices, np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr)))
    column = np.empty(Y.shape[1], dtype=np.int64)
    column[np.argsort(first, kind="stable")] = np.arange(Y.shape[1])
    return column


def _judges(n_features: int, n_labels: int) -> tuple[Pipeline, Pipeline]:
    return _grown(n_features, n_labels), _grown(n_features, n_labels)


def _grown(n_features: int, n_labels: int) -> Pipeline:
    pipeline = FALT().pipeline
    pipeline.grow(n_features, n_labels)
    return pipeline


# -- doubts ---------------------------------------------------------------------------------------


def _doubts(X: sp.csr_array, Y: sp.csr_array, rng: np.random.Generator) -> dict[str, list[float]]:
    """Return the precision of the first missing and wrong labels, with noise."""
    noisy, removed, added = _noisy(Y, rng)
    rows, n_features = as_rows(X)
    column = _column_of(noisy)
    found = find_doubts(rows, _targets(noisy), _judges(n_features, Y.shape[1]), n_features, Y.shape[1], top=max(FIRST))
    due = {
        kind: {(row, int(column[label])) for row, label in pairs}
        for kind, pairs in (("missing", removed), ("wrong", added))
    }
    hits = {kind: [(each.row, each.label) in due[kind] for each in getattr(found, kind)] for kind in due}
    return {kind: [float(np.mean(each[:n])) for n in FIRST] for kind, each in hits.items()}


def _noisy(Y: sp.csr_array, rng: np.random.Generator) -> tuple[sp.csr_array, set[Any], set[Any]]:
    """Return labels with noise, and the pairs of a row and a label that were removed and added."""
    rows, labels = (part.tolist() for part in Y.nonzero())
    true = list(zip(rows, labels, strict=True))
    n = round(NOISE * len(true))
    removed = {true[at] for at in rng.choice(len(true), n, replace=False)}
    together = (Y.astype(float).T @ Y.astype(float)).toarray()
    np.fill_diagonal(together, 0.0)
    present, added = set(true), set[tuple[int, int]]()
    while len(added) < n:
        row, label = true[rng.integers(len(true))]
        chance = together[label]
        if len(added) % 2 and chance.sum():
            label = int(rng.choice(len(chance), p=chance / chance.sum()))
        else:
            row, label = int(rng.integers(Y.shape[0])), int(rng.integers(Y.shape[1]))
        if (row, label) not in present:
            added.add((row, label))
    kept = sorted((present - removed) | added)
    at = np.array(kept).T
    return sp.csr_array((np.ones(len(kept)), (at[0], at[1])), shape=Y.shape), removed, added


# -- suggestions ----------------------------------------------------------------------------------


def _injected(X: sp.csr_array, Y: sp.csr_array, rng: np.random.Generator) -> dict[str, tuple[int, int]]:
    """Return the numbers of changes of each kind that were found, and that were injected, each kind into a stream."""
    rows, n_features = as_rows(X)
    hits = {}
    for kind in KINDS:
        changed, names, due = _with_changes(Y, kind, rng)
        targets, column = _targets(changed), _column_of(changed)
        by_column = [names[label] for label in np.argsort(column)]
        found = _suggested(rows, targets, n_features, by_column)
        pairs = {(suggested, frozenset(by_column[one] for one in labels)) for suggested, labels in found}
        named = [(kinds, frozenset(names[label] for label in labels)) for kinds, labels in due]
        n_found = sum(any((each, labels) in pairs for each in kinds) for kinds, labels in named)
        hits[kind] = n_found, len(due)
    return hits


def _suggested(rows: Rows, targets: Targets, n_features: int, names: Sequence[str]) -> set[Pair]:
    """Return the suggestions that the server makes."""
    n_labels = len(names)
    truths = Truths(targets, n_labels)
    sums, judges = ProbabilitySums(truths), _judges(n_features, n_labels)
    seen = learn_halves(rows, targets, judges, n_labels, lambda n: None)
    for block in held_out(rows, judges, seen, lambda n: None):
        sums.add(block, known(take_targets(targets, block.rows), n_labels))
    pairs = named_pairs(names, truths.examples, truths.examples > 0)
    counts = count_labels(truths, *np.array(list(pairs), dtype=np.int64).reshape(-1, 2).T)
    found = suggest(names, counts, sums)
    return {(each.kind, frozenset((each.label,) if each.other is None else (each.label, each.other))) for each in found}


def _with_changes(Y: sp.csr_array, kind: str, rng: np.random.Generator) -> tuple[sp.csr_array, list[str], list[_Due]]:
    """Return labels with changes of a kind, the names of the labels, and the suggestions that find each change."""
    dense = sp.lil_array(Y)
    names = [_name(rng) for _ in range(Y.shape[1])]
    counts, columns = np.asarray(Y.sum(axis=0)).ravel(), list[NDArray[np.float64]]()
    free = [label for label in rng.permutation(Y.shape[1]).tolist() if LEAST <= counts[label] <= Y.shape[0] / 4]
    due: list[_Due] = []

    def add(column: NDArray[np.float64], name: str) -> int:
        columns.append(column)
        names.append(name)
        return len(names) - 1

    for _ in range(EACH):
        if kind == "random":
            if Y.shape[0] / 10 >= LEAST_RANDOM:
                label = add((rng.random(Y.shape[0]) < 0.1).astype(float), _name(rng))
                due.append((("vague",), frozenset((label,))))
            continue
        least = LEAST_MISSPELT if kind == "misspelt" else 50 if kind == "80:20" else LEAST
        fitting = [label for label in free if counts[label] >= least]
        if len(fitting) < 1 + (kind == "parent"):
            continue
        label = fitting[0]
        free.remove(label)
        own = dense[:, [label]].toarray().ravel()
        if kind == "together":
            due.append((("merge", "name"), frozenset((label, add(own.copy(), _name(rng))))))
        elif kind == "parent":
            other = min(fitting[1:], key=lambda each, n=counts[label]: abs(counts[each] - n))
            free.remove(other)
            both = np.maximum(own, dense[:, [other]].toarray().ravel())
            parent = add(both, _name(rng))
            due += [
                (("parent",), frozenset((child, parent)))
                for child in (label, other)
                if both.sum() >= 1.5 * counts[child]
            ]
        else:
            half = np.arange(len(own)) >= len(own) // 2
            moved = (own > 0) & (half if kind == "by time" else rng.random(len(own)) < _SHARES[kind])
            name = _misspelt(names[label], rng) if kind == "misspelt" else _name(rng)
            if min(moved.sum(), own.sum() - moved.sum()) < 10:
                continue
            new = add(moved.astype(float), name)
            dense[:, [label]] = sp.lil_array((own * ~moved)[:, None])
            due.append((("name", "merge"), frozenset((label, new))))
    added = sp.csr_array(np.array(columns).T) if columns else sp.csr_array((Y.shape[0], 0))
    return sp.csr_array(sp.hstack([sp.csr_array(dense), added])), names, due


def _name(rng: np.random.Generator) -> str:
    return "".join(_LETTERS[n] for n in rng.integers(len(_LETTERS), size=9))


def _misspelt(name: str, rng: np.random.Generator) -> str:
    at = int(rng.integers(1, len(name) - 1))
    return name[:at] + name[at + 1 :]


# -- dry run --------------------------------------------------------------------------------------


def _print_dry_run(name: str, X: sp.csr_array, Y: sp.csr_array, most: int) -> None:
    """Try a merge of the second and third most frequent labels of a stream, repeated to the number of examples."""
    chosen = np.arange(most) % X.shape[0]
    rows, n_features = as_rows(X[chosen])
    targets = _targets(Y[chosen])
    n_labels = Y.shape[1]
    _, second, third = np.argsort(-np.bincount(targets.indices, minlength=n_labels), kind="stable")[:3].tolist()
    labels = Labels([f"label {n}" for n in range(n_labels)], np.ones(n_labels, dtype=np.bool_), (), {})
    before, began = _peak_mib(), time.process_time()
    trial = try_change(rows, targets, Change("merge", third, second), labels, lambda n: _grown(n_features, n))
    seconds, peak = time.process_time() - began, _peak_mib()
    memory = f"{peak:.0f} MiB at most, {before:.0f} MiB before"
    print(f"{name}: {most:,} examples, {n_features:,} features, {n_labels} labels: {seconds:.1f} s of a processor,")
    print(f"  {memory}; micro-F1 {trial.before.micro_f1:.4f} {trial.after.micro_f1:.4f}", flush=True)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
