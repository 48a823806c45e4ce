"""Subject indexing beside its peers: test metrics of FALT, Annif's `tfidf`, Omikuji (Parabel, Bonsai), XR-Linear.

All read the same words: counts by `RecordEncoder`, which the peers weigh by TF-IDF. The training documents are learnt,
by FALT one by one and once, then the model is frozen. FALT has its own decision threshold; for each peer one threshold
is chosen for micro-F1 on the last fifth of the training documents, by a model of the first four. Seconds are those of
the processor to learn, on one thread. MiB are the peak of the process that learns and predicts. Peers are run
by the Python that `--indexers` names, with omikuji, libpecos (works with SciPy 1.13) and scikit-learn.
"""

import argparse
import os
import resource
import subprocess
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.data_sets import load_records, named_columns
from benchmarks.results import ONE_THREAD
from benchmarks.text.many_labels import FIELDS, LEFT_OUT, warm_up
from manylabel_core import FALT
from manylabel_core.metrics import f1_at, ndcg_at
from manylabel_core.records import RecordEncoder, TextSettings
from manylabel_core.rows import Rows, Targets

SETS = ("makupalat", "reuters21578", "yso_titles_en")
CHARS = {"makupalat": 5}
"""Parts of words beside words, as the documentation advises for this language; a second row of FALT."""
PEERS = ("tfidf", "parabel", "bonsai", "xr-linear")
SCRIPT = Path(__file__).with_name("indexer_peers.py")
TUNED = 0.2
"""Share of the training documents on which the threshold of a peer is chosen."""


class Split(NamedTuple):
    """Words and labels of training and test documents, as CSR."""

    X: Any
    Y: Any
    other: Any
    truth: Any


class Found(NamedTuple):
    """Scores of the test documents as CSR, what is predicted, seconds to learn, and MiB."""

    scores: Any
    predicted: Any
    seconds: float
    mib: float


def run(args: argparse.Namespace) -> None:
    """Print the table."""
    for name in args.sets:
        if name not in SETS:
            continue
        split = _split(args.data, name, args.rows)
        sizes = f"{split.X.shape[0]:,} training, {split.other.shape[0]:,} test documents, {split.Y.shape[1]:,} labels"
        print(f"\n{name}: {sizes}\n{'':24}{'micro':>8}{'macro':>8}{'F1@5':>8}{'NDCG':>8}{'seconds':>10}{'MiB':>8}")
        _print_row("FALT", split, _ours(split))
        if name in CHARS:
            other = _split(args.data, name, args.rows, CHARS[name])
            _print_row(f"FALT, chars {CHARS[name]}", other, _ours(other))
        for peer in PEERS if args.indexers else ():
            _print_row(peer, split, _peer(args.indexers, peer, split))


def _print_row(name: str, split: Split, found: Found) -> None:
    truth, predicted = split.truth.astype(np.int64), found.predicted.astype(np.int64)
    hits, given, true = (np.asarray(each.sum(axis=0)).ravel() for each in (truth.multiply(predicted), predicted, truth))
    f1 = 2 * hits / np.maximum(given + true, 1)
    figures = 2 * hits.sum() / (given + true).sum(), f1[given + true > 0].mean(), *_ranking(split, found.scores)
    shown = "".join(f"{figure:8.3f}" for figure in figures)
    print(f"{name:24}{shown}{found.seconds:10.1f}{found.mib:8,.0f}", flush=True)


def _ranking(split: Split, scores: Any) -> tuple[float, float]:
    """Return F1@5 and NDCG@100 of documents with labels."""
    rows = np.flatnonzero(split.truth.getnnz(axis=1))
    parts = [rows[first : first + 100] for first in range(0, len(rows), 100)]
    found = np.zeros(2)
    for part in parts:
        Y, own = (each[part].toarray() for each in (split.truth, scores))
        found += len(part) * np.array([f1_at(Y, own, k=5), ndcg_at(Y, own, k=100)])
    f1, ndcg = found / len(rows)
    return float(f1), float(ndcg)


def _split(folder: Path, name: str, rows: int | None, chars: int | None = None) -> Split:
    """Read a set: its official split, or the last sixth as test documents if it has none, or with `rows`."""
    records = [each for each in load_records(folder, name) if each.get("split") != "unused"][:rows]
    settings = TextSettings(fields=FIELDS.get(name, ["text"]), chars=chars)
    encoder = RecordEncoder(settings)
    X = named_columns(
        encoder.encode({key: value for key, value in each.items() if key not in LEFT_OUT}) for each in records
    )
    Y = named_columns(dict.fromkeys(each["tags"], 1.0) for each in records)
    last = len(records) - len(records) // 6
    official = rows is None and "split" in records[0]
    test = np.array([each["split"] == "test" if official else at >= last for at, each in enumerate(records)])
    X, Y = (sp.csr_matrix(each, dtype=np.float32) for each in (X, Y))
    return Split(X[~test], Y[~test], X[test], Y[test])


def _ours(split: Split) -> Found:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_learn, split).result()


def _learn(split: Split) -> Found:
    """Learn the training documents one by one, and score the test documents with the model at its end."""
    warm_up()
    model, (X, Y) = FALT(), (split.X, split.Y)
    model.pipeline.grow(X.shape[1], 0)
    n_labels, began = 0, time.process_time()
    for at in range(X.shape[0]):
        own, true = slice(X.indptr[at], X.indptr[at + 1]), np.sort(Y.indices[Y.indptr[at] : Y.indptr[at + 1]])
        n_labels = max(n_labels, 1 + int(true.max(initial=-1)))
        model.pipeline.grow(X.shape[1], n_labels)
        rows = Rows(np.array([0, own.stop - own.start]), X.indices[own], X.data[own])
        signs = np.ones(len(true), np.int8)
        targets = Targets(np.array([0, len(true)]), true, signs, np.ones(1, np.bool_), np.array([n_labels]))
        model.pipeline.learn(rows, targets)
    seconds = time.process_time() - began
    margins, predicted, other = [], [], split.other
    for at in range(other.shape[0]):
        own = slice(other.indptr[at], other.indptr[at + 1])
        scores = model.pipeline.score(Rows(np.array([0, own.stop - own.start]), other.indices[own], other.data[own]))[0]
        own_margins = scores[1:] - scores[0]
        best = np.sort(np.argsort(own_margins)[-100:])
        margins.append(_row(1.0 + np.argsort(np.argsort(own_margins[best])), best, Y.shape[1]))
        chosen = np.flatnonzero(own_margins > 0)
        predicted.append(_row(np.ones(len(chosen)), chosen, Y.shape[1]))
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return Found(sp.vstack(margins).tocsr(), sp.vstack(predicted).tocsr(), seconds, mib)


def _row(values: NDArray[Any], columns: NDArray[Any], width: int) -> Any:
    return sp.csr_matrix((values, columns, [0, len(columns)]), shape=(1, width))


def _peer(python: Path, name: str, split: Split) -> Found:
    """Learn all training documents, and predict by the threshold of a model of the first four fifths."""
    first = int((1.0 - TUNED) * split.X.shape[0])
    tuned, *_ = _scored(python, name, split.X[:first], split.Y[:first], split.X[first:])
    threshold = _best_threshold(tuned, split.Y[first:])
    scores, seconds, mib = _scored(python, name, split.X, split.Y, split.other)
    predicted = scores.copy()
    predicted.data = (predicted.data >= threshold).astype(np.float64)
    return Found(scores, predicted, seconds, mib)


def _scored(python: Path, name: str, X: Any, Y: Any, other: Any) -> tuple[Any, float, float]:
    with tempfile.TemporaryDirectory() as folder:
        problem, scores = Path(folder) / "problem.npz", Path(folder) / "scores.npz"
        arrays = {}
        for part, matrix in (("X", X), ("Y", Y), ("other", other)):
            arrays |= {f"{part}_{each}": getattr(matrix, each) for each in ("data", "indices", "indptr", "shape")}
        np.savez(problem, **arrays)
        command = [str(python), str(SCRIPT), name, str(problem), str(scores)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ONE_THREAD}, check=False)
        if done.returncode:
            raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr[-1000:]}")
        with np.load(scores, allow_pickle=False) as file:
            found = sp.csr_matrix((file["data"], file["indices"], file["indptr"]), shape=file["shape"])
            return found, *map(float, file["figures"])


def _best_threshold(scores: Any, truth: Any) -> float:
    """Return the threshold with the highest micro-F1."""
    pairs = scores.tocoo()
    true = np.asarray(truth[pairs.row, pairs.col]).ravel() > 0
    order = np.argsort(-pairs.data, kind="stable")
    hits: NDArray[np.float64] = np.cumsum(true[order])
    f1 = 2 * hits / (np.arange(1, 1 + len(hits)) + truth.nnz)
    return float(pairs.data[order[np.argmax(f1)]])
