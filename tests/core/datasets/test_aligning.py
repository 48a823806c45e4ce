"""A dataset in the columns of another: by name, by number, dense and sparse; rows held out, once or in folds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from manylabel_core.datasets import Dataset
from manylabel_core.datasets.aligning import aligned, with_views
from manylabel_core.splitting import folds, held_out

NAMES = ("a", "b", "c", "d", "e")


def dataset(columns: list[str], labels: list[str], sparse: bool, named: bool = True) -> Dataset:
    """Three rows whose values say which column they are of: 1 for a, 2 for b, ..."""
    X: Any = np.array([[float(NAMES.index(name) + 1) * row for name in columns] for row in (0, 1, 2)], dtype=np.float32)
    Y = np.array([[(NAMES.index(name) + row) % 2 for name in labels] for row in (0, 1, 2)])
    X = sp.csr_array(X) if sparse else X
    return Dataset.of(X, Y, tuple(labels), feature_names=tuple(columns) if named else None)


some = st.lists(st.sampled_from(NAMES), unique=True, min_size=1)


@given(some, some, some, some, st.booleans())
def test_named_columns_are_found_by_their_names(
    have: list[str], due: list[str], labels: list[str], due_labels: list[str], sparse: bool
) -> None:
    given_set, like = dataset(have, labels, sparse), dataset(due, due_labels, sparse)
    if not set(labels) & set(due_labels):
        with pytest.raises(ValueError, match="none of the labels"):
            aligned(given_set, like)
        return
    found = aligned(given_set, like)
    X = found.X.toarray() if sparse else found.X
    assert sp.issparse(found.X) == sparse
    assert (found.label_names, found.names) == (tuple(due_labels), tuple(due))
    expected = like.X.toarray() if sparse else like.X
    known = np.array([name in have for name in due])
    assert np.array_equal(X[:, known], expected[:, known])
    assert (X[:, ~known] == 0).all() if sparse else np.isnan(X[:, ~known]).all()
    if sparse:
        assert not known[found.X.indices].size or known[found.X.indices].all(), "what is missing is not stored"
    known_labels = np.array([name in labels for name in due_labels])
    assert np.array_equal(found.Y.toarray()[:, known_labels], like.Y.toarray()[:, known_labels])
    assert not found.Y.toarray()[:, ~known_labels].any()
    assert found.Y.dtype == np.int8


@pytest.mark.parametrize("sparse", [False, True])
def test_numbered_columns_count_from_the_first(sparse: bool) -> None:
    narrow, wide = (dataset(list(NAMES[:n]), ["a"], sparse, named=False) for n in (2, 4))
    widened, narrowed = aligned(narrow, wide), aligned(wide, narrow)
    assert widened.X.shape == (3, 4)
    assert np.array_equal(widened.X[:, :2].sum(axis=0), narrow.X.sum(axis=0))
    assert widened.X[:, 2:].nnz == 0 if sparse else np.isnan(widened.X[:, 2:]).all()
    assert abs(narrowed.X - narrow.X).sum() == 0


def test_a_stored_zero_stays_a_value() -> None:
    X = sp.csr_array((np.float32([0.0, 2.0, 0.0]), np.array([0, 1, 2]), np.array([0, 2, 3])), shape=(2, 3))
    data = Dataset.of(X, np.ones((2, 1)), ("l",), feature_names=("a", "b", "c"))
    found = aligned(data, dataset(["c", "a"], ["a"], True), for_labels=False).X
    assert [part.tolist() for part in (found.indptr, found.indices, found.data)] == [[0, 1, 2], [1, 0], [0.0, 0.0]]


def test_incompatible_datasets_are_refused() -> None:
    named, numbered = dataset(["a"], ["a"], False), dataset(["a"], ["a"], False, named=False)
    with pytest.raises(ValueError, match="view 'x' must have names, as in the other dataset, not numbers"):
        aligned(numbered, named)
    views = Dataset({"text": named.X, "sound": named.X}, named.Y, named.label_names)
    with pytest.raises(ValueError, match="must have the views text, sound"):
        aligned(named, views)


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_lack_views_of_the_other_dataset(sparse: bool) -> None:
    part, more = dataset(["a", "b"], ["a"], sparse), dataset(["c"], ["a"], sparse)
    both = Dataset({"text": part.X, "sound": more.X}, part.Y, part.label_names)
    alone = Dataset({"sound": more.X}, more.Y, more.label_names)
    found = aligned(alone, both)
    assert list(found.views) == ["text", "sound"]
    assert found.views["text"].shape == (3, 2)
    assert abs(found.views["text"]).sum() == 0
    assert {name: mask.tolist() for name, mask in found.missing.items()} == {"text": [True] * 3}
    assert Dataset.from_bytes(found.to_bytes()).to_bytes() == found.to_bytes()
    widened = with_views(alone, both)
    assert list(widened.views) == ["sound", "text"]
    assert list(widened.missing) == ["text"]
    assert with_views(both, alone) is both
    some = replace(both, views={"text": 0 * part.X, "sound": more.X}, missing={"text": np.array([True, False, True])})
    assert aligned(some, both).missing["text"].tolist() == [True, False, True]


@for_each("share", [0.0, 1.0, 20.0, -0.1, float("nan")])
def test_invalid_shares_are_refused(share: float) -> None:
    with pytest.raises(ValueError, match="must be a share above 0 and below 1"):
        held_out(10, share, 0)


@given(st.integers(2, 300), st.floats(0.01, 0.99), st.integers(0, 5))
def test_rows_held_out_are_a_share_that_follows_from_the_seed(n_rows: int, share: float, seed: int) -> None:
    n_held = round(share * n_rows)
    if not 0 < n_held < n_rows:
        with pytest.raises(ValueError, match="both parts must have rows"):
            held_out(n_rows, share, seed)
        return
    learnt, held = held_out(n_rows, share, seed)
    assert (len(learnt), len(held)) == (n_rows - n_held, n_held)
    assert sorted([*learnt, *held]) == list(range(n_rows))
    assert all((rows[1:] > rows[:-1]).all() for rows in (learnt, held))
    assert np.array_equal(held_out(n_rows, share, seed)[1], held)


def test_another_seed_holds_out_other_rows() -> None:
    assert not np.array_equal(held_out(200, 0.2, 0)[1], held_out(200, 0.2, 1)[1])


@pytest.mark.parametrize(("n", "k"), [(10, 2), (11, 3), (5, 5)])
def test_folds_measure_on_every_row_once_and_never_on_what_was_learnt(n: int, k: int) -> None:
    parts = folds(n, k, seed=1)
    assert sorted(np.concatenate([held for _, held in parts])) == list(range(n))
    for learnt, held in parts:
        assert sorted([*learnt, *held]) == list(range(n))
    with pytest.raises(ValueError, match="folds must be at most the number of rows"):
        folds(n, n + 1, seed=1)


def test_alignment_of_features_needs_no_common_labels() -> None:
    given_set, like = dataset(["b", "a"], ["d"], False), dataset(["a", "b"], ["e"], False)
    found = aligned(given_set, like, for_labels=False)
    assert np.array_equal(found.X, like.X)
    assert (found.label_names, found.Y.nnz) == (("e",), 0)
