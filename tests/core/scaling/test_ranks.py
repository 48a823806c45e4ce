"""Ranks of values: as written, however rows are grouped; restored states; limits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.core.scaling.transcription import Array, plain_ranks

from manylabel_core import FALT
from manylabel_core.rows import Rows, as_rows, as_targets
from manylabel_core.scaling._ranks import MAX_RANKED
from manylabel_core.scaling.ranks import Ranks

N = 1_500


def stream() -> Array:
    """A quantity with a long tail, one with many zeros, five values, a unit that changes; some cells are missing."""
    generator = np.random.default_rng(3)
    tail, some = np.exp(2.0 * generator.normal(size=N)), generator.gamma(1.0, 1e4, N) * (generator.random(N) < 0.4)
    unit = generator.normal(20.0, 5.0, N) + 273.15 * (np.arange(N) > N // 2)
    X = np.column_stack([tail, some, generator.integers(0, 5, N), unit])
    X[generator.random(X.shape) < 0.1] = np.nan
    return X


def ranked(X: Array, at_once: int = 10**6, ranks: Ranks | None = None, store: bool = True) -> Array:
    if ranks is None:
        ranks = Ranks(512, zero_is_missing=False)
        ranks.grow(X.shape[1])
    parts = [as_rows(X[at : at + at_once])[0] for at in range(0, len(X), at_once)]
    return np.vstack([dense(ranks.learn(rows) if store else ranks.score(rows), X.shape[1]) for rows in parts])


def dense(rows: Rows, width: int) -> Array:
    shape = len(rows.indptr) - 1, width
    return sp.csr_array((rows.values, rows.indices, rows.indptr), shape=shape).toarray()


@pytest.mark.parametrize("at_once", [1, 7, 10**6])
def test_ranks_are_as_written_however_they_are_grouped(at_once: int) -> None:
    X = stream()
    np.testing.assert_allclose(ranked(X, at_once), plain_ranks(X.astype(np.float32)), rtol=1e-9, atol=1e-12)


def test_a_rank_is_the_share_of_lower_values() -> None:
    X = stream()[:1000, :2]
    X = X[~np.isnan(X).any(axis=1)]
    found = ranked(X)[-200:] * np.sqrt(2)
    true = [[2 * ((x > X).mean(0) + (x == X).mean(0) / 2) - 1] for x in X[-200:]]
    assert np.abs(found - np.vstack(true)).mean() < 0.1


def test_a_rank_does_not_depend_on_the_unit() -> None:
    X = stream()[:, :1]
    np.testing.assert_allclose(ranked(X), ranked(1024.0 * X), rtol=1e-12)


def test_few_values_are_categories_and_have_no_rank() -> None:
    assert not ranked(stream()[:, [2]]).any()


def test_scores_are_those_of_the_next_example_and_store_nothing() -> None:
    X, ranks = stream(), Ranks(512, zero_is_missing=False)
    ranks.grow(X.shape[1])
    ranked(X[:100], ranks=ranks)
    before = {name: array.copy() for name, array in ranks.state().items()}
    scored = ranked(X[100:101], ranks=ranks, store=False)
    assert all((before[name] == array).all() for name, array in ranks.state().items())
    assert scored.tobytes() == ranked(X[100:101], ranks=ranks).tobytes()


def test_a_restored_state_continues_bit_for_bit() -> None:
    X, ranks, other = stream(), Ranks(512, zero_is_missing=False), Ranks(512, zero_is_missing=False)
    ranks.grow(X.shape[1])
    ranked(X[:700], ranks=ranks)
    other.restore({name: array.copy() for name, array in ranks.state().items()}, X.shape[1], 0)
    assert ranked(X[700:], ranks=ranks).tobytes() == ranked(X[700:], ranks=other).tobytes()


def test_the_first_features_with_several_values_are_ranked() -> None:
    X = np.random.default_rng(0).normal(size=(50, MAX_RANKED + 20))
    found = ranked(X)
    assert found[-1, :MAX_RANKED].all()
    assert not found[:, MAX_RANKED:].any()


def test_zeros_are_missing_values_if_the_scaling_says_so() -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    X[::3, 0] = 0.0
    for zero_is_missing in (False, True):
        listed, lacking = Ranks(512, zero_is_missing), Ranks(512, zero_is_missing)
        for ranks in (listed, lacking):
            ranks.grow(2)
        found = [dense(listed.learn(as_rows(X)[0]), 2), dense(lacking.learn(as_rows(sp.csr_array(X))[0]), 2)]
        assert np.array_equal(*found) == zero_is_missing


def test_features_beyond_the_limit_have_no_rank() -> None:
    X, ranks = np.random.default_rng(0).normal(size=(60, 6)), Ranks(5, zero_is_missing=False)
    ranks.grow(6)
    found = dense(ranks.learn(as_rows(X)[0]), 6)
    assert ranks.n_ranked == 5
    assert found[-1, :5].all()
    assert not found[:, 5].any()


def test_a_stream_that_crosses_the_limit_of_features_is_learnt_alike_however_it_is_grouped() -> None:
    X = np.random.default_rng(0).normal(size=(120, 3))
    whole = sp.lil_array((120, 600))
    whole[:, :3] = X
    whole[60, 599] = 1.0
    rows, Y = as_rows(sp.csr_array(whole))[0], np.column_stack([X[:, 0] > 0.5, X[:, 1] > 0]).astype(int)
    found = []
    for at_once in (1, 50, 200):
        pipeline = FALT().pipeline
        pipeline.grow(600, 2)
        parts = [(i, min(120, i + at_once)) for i in range(0, 120, at_once)]
        scores = [pipeline.learn(rows.part(*part), as_targets(Y[slice(*part)])).scores for part in parts]
        restored = FALT().pipeline
        restored.restore(pipeline.arrays())
        found.append((np.vstack(scores).tobytes(), {name: each.tobytes() for name, each in restored.arrays().items()}))
    assert found[0] == found[1] == found[2]


FORGED = {
    "values that fall": ("sketches", lambda s: -s),
    "a weight of 0": ("sketches", lambda s: s * [[[1], [0]]]),
    "a value without weight": ("sizes_of", lambda n: n - 1),
    "a number twice": ("slots", lambda n: np.minimum(n, 1)),
    "a number left out": ("slots", lambda n: n + (n == n.max())),
    "a value that is not finite": ("sketches", lambda s: np.where(s > 0, np.inf, s)),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_state_is_rejected(name: str) -> None:
    key, forge = FORGED[name]
    X = stream()[:100]
    learner = FALT().partial_fit(X, (X[:, :2] > 1).astype(int))
    arrays = learner.pipeline.arrays()
    arrays[f"ranks.{key}"] = forge(arrays[f"ranks.{key}"]).astype(arrays[f"ranks.{key}"].dtype)
    with pytest.raises(ValueError, match=r"ranks|shape"):
        FALT().pipeline.restore(arrays)


def test_ranks_help_where_a_tail_is_long() -> None:
    """Truth follows the rank of an income, whose mean and deviation are those of its few largest values."""
    generator = np.random.default_rng(1)
    z = generator.normal(size=2_000)
    X, Y = np.exp(3.0 * z)[:, np.newaxis], (z + 0.3 * generator.normal(size=len(z)) > 0.5)[:, np.newaxis].astype(int)
    pipeline = FALT().pipeline
    pipeline.grow(1, 1)
    scores = pipeline.learn(as_rows(X)[0], as_targets(Y)).scores
    right = (scores[:, 1] > scores[:, 0]) == Y[:, 0]
    assert right[1_000:].mean() > 0.85
