"""Seeded streams, in parts of a few examples each, and sets for batch learners."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp


class Part(NamedTuple):
    """Examples learnt in one call; `known` is None if all true labels are known."""

    X: Any
    Y: Any
    known: Any


def dense(n: int = 700, d: int = 8, n_labels: int = 5) -> list[Part]:
    """Return quantities of different scales; two labels are inverted half-way."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d)) * rng.uniform(0.1, 20, d) + rng.normal(size=d)
    Y = ((X - X.mean(0)) / X.std(0) @ rng.normal(size=(d, n_labels)) > 0.7).astype(int)
    Y[n // 2 :, :2] = 1 - Y[n // 2 :, :2]
    return _parts(X, Y, None, rng)


def words(n: int = 400, d: int = 150, n_labels: int = 7) -> list[Part]:
    """Return sparse counts; features and labels appear along the stream, and some true labels are unknown."""
    rng = np.random.default_rng(2)
    X: Any = sp.random_array(
        (n, d), density=0.06, rng=rng, data_sampler=lambda size: rng.integers(1, 5, size).astype(float)
    )
    X = sp.csr_array(X)
    Y = (X @ rng.normal(size=(d, n_labels)) + rng.normal(size=n_labels) > 1.5).astype(int)
    Y[: n // 2, n_labels // 2 :] = 0
    parts = _parts(X, Y, rng.random((n, n_labels)) < 0.8, rng)
    grown: list[Part] = []
    at = 0
    for part in parts:
        at += part.X.shape[0]
        width, labels = (d // 2, n_labels // 2) if at <= n // 2 else (d, n_labels)
        known = part.known[:, :labels] if len(grown) % 3 == 0 else None
        grown.append(Part(part.X[:, :width], part.Y[:, :labels], known))
    return grown


def _parts(X: Any, Y: Any, known: Any, rng: np.random.Generator) -> list[Part]:
    """Return the rows in parts of 1 to 40."""
    ends = np.minimum(np.cumsum(rng.integers(1, 41, X.shape[0])), X.shape[0])
    ends = np.unique(ends)
    starts = np.concatenate([[0], ends[:-1]])
    return [Part(X[a:b], Y[a:b], None if known is None else known[a:b]) for a, b in zip(starts, ends, strict=True)]


class Labelled(NamedTuple):
    """Rows to fit on and rows to predict."""

    X: Any
    Y: Any
    new: Any


def dense_set() -> Labelled:
    """Return quantities; the last label is rare."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 12))
    Y = (X[:110] @ rng.normal(size=(12, 5)) + rng.normal(size=(110, 5)) > [0, 0.5, 1, 0, 4]).astype(int)
    return Labelled(X[:110], Y, X[110:])


def sparse_set() -> Labelled:
    """Return words in CSR."""
    rng = np.random.default_rng(4)
    X = sp.csr_array(sp.random_array((190, 60), density=0.1, rng=rng))
    Y = (X[:140] @ rng.normal(size=(60, 6)) + 0.3 * rng.normal(size=(140, 6)) > 0.2).astype(int)
    return Labelled(X[:140], Y, X[140:])


class Views(NamedTuple):
    """Rows in several views: half of the first 130 are labelled; some lack a view."""

    X: dict[str, Any]
    Y: Any
    labelled: Any
    missing: dict[str, Any]
    new: dict[str, Any]


def views() -> Views:
    """Return two dense views and one in CSR."""
    rng = np.random.default_rng(5)
    hidden = rng.normal(size=(170, 4))
    sound = hidden @ rng.normal(size=(4, 15)) + rng.normal(size=(170, 15))
    text = sp.csr_array(np.maximum(hidden @ rng.normal(size=(4, 40)) + rng.normal(size=(170, 40)) - 2, 0))
    cover = hidden[:, :2] @ rng.normal(size=(2, 9)) + rng.normal(size=(170, 9))
    X: dict[str, Any] = {"sound": sound, "text": text, "cover": cover}
    Y = (hidden @ rng.normal(size=(4, 5)) > 0.4).astype(int)[:130]
    missing: dict[str, Any] = {"sound": rng.random(130) < 0.3}
    missing["cover"] = ~missing["sound"] & (rng.random(130) < 0.2)
    rows = {name: view[:130] for name, view in X.items()}
    return Views(rows, Y, np.arange(130) % 2 == 0, missing, {name: view[130:] for name, view in X.items()})
