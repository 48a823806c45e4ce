"""Doubtful labels against their recipe in plain NumPy, and properties of the lists."""

import numpy as np
import pytest
from tests.core.doubts import transcription

from manylabel_core import FALT
from manylabel_core.doubts import LEAST_SEEN, find_doubts, neighbours
from manylabel_core.doubts.held_out import half_of
from manylabel_core.rows import NO_WEIGHTS, VECTOR_COLUMNS, Rows, Targets


def data(n=160, n_features=12, n_labels=5, seed=0, noise=0.08):
    """Return features, of which two are dense, and signs of labels that depend on them, some of them wrong."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < 0.3)
    X[:, :2] = rng.normal(3.0, 1.0, size=(n, 2))
    true = X[:, 2 : 2 + n_labels] > 0.2
    true[:, 0] = X[:, 0] > 3.2
    flipped = rng.random(true.shape) < noise
    return X, np.where(true ^ flipped, 1, -1)


def stream(X, signs, existing=None, weights=None):
    existing = np.full(len(X), signs.shape[1]) if existing is None else existing
    parts = [transcription.one(X, signs, existing, weights, i) for i in range(len(X))]
    ends = np.cumsum([0, *(len(rows.indices) for rows, _ in parts)])
    rows = Rows(ends, *(np.concatenate([getattr(r, f) for r, _ in parts]) for f in ("indices", "values")))
    label_ends = np.cumsum([0, *(len(targets.indices) for _, targets in parts)])
    fields = ("indices", "signs", "complete", "n_labels", "weights")
    return rows, Targets(label_ends, *(np.concatenate([getattr(t, f) for _, t in parts]) for f in fields))


def judges(n_features, n_labels):
    made = FALT().pipeline, FALT().pipeline
    for pipeline in made:
        pipeline.grow(n_features, n_labels)
    return made


def found(X, signs, existing=None, weights=None, **options):
    rows, targets = stream(X, signs, existing, weights)
    n_features, n_labels = X.shape[1], signs.shape[1]
    return find_doubts(rows, targets, judges(n_features, n_labels), n_features, n_labels, **options)


def assert_like_the_recipe(X, signs, existing=None, weights=None, top=100):
    lists = found(X, signs, existing, weights, top=top)
    due = transcription.doubts(X, signs, existing, weights, top)
    for given, (doubts, expected) in enumerate(zip((lists.missing, lists.wrong), due, strict=True)):
        assert [(doubt.row, doubt.label) for doubt in doubts] == [each[:2] for each in expected]
        for doubt, (_, _, probability, share, score) in zip(doubts, expected, strict=True):
            assert doubt.given == bool(given)
            assert doubt.probability == probability  # bit for bit, for every size of blocks
            np.testing.assert_allclose([doubt.share, doubt.score], [share, score], rtol=1e-5, atol=1e-6)
    return lists


def test_the_lists_are_those_of_the_recipe():
    lists = assert_like_the_recipe(*data())
    assert lists.missing
    assert lists.wrong


def test_only_the_first_of_a_list_are_returned():
    lists = assert_like_the_recipe(*data(), top=7)
    assert len(lists.missing) == len(lists.wrong) == 7


def test_small_blocks_find_the_same(monkeypatch):
    from manylabel_core.doubts import held_out

    X, signs = data()
    whole = found(X, signs)
    monkeypatch.setattr(held_out, "BLOCK_ROWS", 7)
    for name, size in {"_BLOCK_ROWS": 9, "_BLOCK_QUERIES": 4}.items():
        monkeypatch.setattr(neighbours, name, size)
    for name in ("missing", "wrong"):
        for one, other in zip(getattr(whole, name), getattr(found(X, signs), name), strict=True):
            assert one[:4] == other[:4]
            assert one.similar == other.similar
            assert one.features == other.features
            np.testing.assert_allclose(one.score, other.score, rtol=1e-6)


def test_labels_that_appear_late():
    X, signs = data()
    existing = np.where(np.arange(len(X)) < 60, 3, 5)
    signs[:60, 3:] = 0
    lists = assert_like_the_recipe(X, signs, existing)
    late = [doubt for doubt in lists.missing if doubt.row < 60 and doubt.label >= 3]
    assert late  # labels that did not exist can be missing
    assert not [doubt for doubt in lists.wrong if doubt.row < 60 and doubt.label >= 3]


def test_unknown_truths_are_not_listed():
    X, signs = data()
    signs[np.random.default_rng(1).random(signs.shape) < 0.3] = 0
    lists = assert_like_the_recipe(X, signs)
    assert all(signs[doubt.row, doubt.label] == (1 if doubt.given else -1) for doubt in lists.missing + lists.wrong)


def test_weights_count():
    X, signs = data()
    weights = np.random.default_rng(2).choice([0.25, 1.0, 4.0], len(X))
    lists = assert_like_the_recipe(X, signs, weights=weights)
    assert [doubt.score for doubt in lists.missing] != [doubt.score for doubt in found(X, signs).missing]


def test_examples_without_features():
    X, signs = data()
    X[::10] = 0.0
    assert_like_the_recipe(X, signs)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_label_that_all_or_no_examples_have(sign):
    X, signs = data()
    signs[:, 4] = sign
    lists = found(X, signs)
    assert {doubt.label for doubt in lists.missing} <= {0, 1, 2, 3}
    assert lists.too_rare == (sign == -1)


def test_a_label_needs_examples_in_the_judging_half():
    X, signs = data()
    signs[:, 4] = -1
    first = np.flatnonzero(half_of(np.arange(len(signs))) == 0)[:LEAST_SEEN]
    signs[first, 4] = 1
    lists = found(X, signs, top=1000)
    assert lists.too_rare == 0
    of_label = [doubt for doubt in lists.missing if doubt.label == 4]
    assert half_of(np.array([doubt.row for doubt in of_label])).all()
    assert {doubt.seen for doubt in of_label} == {LEAST_SEEN}
    assert not any(doubt.label == 4 for doubt in lists.wrong)
    signs[first[0], 4] = -1
    assert found(X, signs).too_rare == 1


def test_hardly_any_examples():
    for n in (0, 1, 2, 3):
        X, signs = data(n=max(n, 1))
        if n:
            lists = found(X[:n], signs[:n])
        else:
            nothing = np.zeros(0, np.int32)
            rows = Rows(np.zeros(1, np.int64), nothing, np.zeros(0, np.float32))
            empty = np.zeros(0, np.int8), np.zeros(0, np.bool_), np.zeros(0, np.int64), NO_WEIGHTS
            lists = find_doubts(rows, Targets(np.zeros(1, np.int64), nothing, *empty), judges(12, 5), 12, 5)
        assert (lists.missing, lists.wrong, lists.too_rare) == ([], [], 5)


def test_the_same_stream_has_the_same_lists():
    assert found(*data(seed=3)) == found(*data(seed=3))


def test_ties_are_in_the_order_of_the_stream():
    X, signs = data()
    X, signs = np.concatenate([X[:80]] * 2), np.concatenate([signs[:80]] * 2)
    X[80:], signs[80:] = X[:80], signs[:80]
    lists = found(X, signs, top=1000)
    for doubts in (lists.missing, lists.wrong):
        assert [(doubt.row, doubt.label) for doubt in doubts] == [
            pair[1:] for pair in sorted((-doubt.score, doubt.row, doubt.label) for doubt in doubts)
        ]
    pairs = {(doubt.row, doubt.label): doubt.score for doubt in lists.wrong}
    halves = half_of(np.arange(160))
    twice = [(row, label) for row, label in pairs if row >= 80 and halves[row] == halves[row - 80]]
    assert twice
    assert all(pairs[row, label] == pairs[row - 80, label] for row, label in twice)  # judged by the same model


def test_equally_similar_examples_in_the_order_of_the_stream():
    X = np.tile(np.eye(6, 8), (5, 1))
    near = neighbours.Similarity(stream(X, np.ones((30, 1), int))[0], 8).neighbours(np.array([7]))
    assert near.rows[0, :4].tolist() == [1, 13, 19, 25]
    np.testing.assert_allclose(near.similarities[0, :4], 1.0)


def test_vectors_count_as_features():
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(40, 3))
    indptr = np.arange(41, dtype=np.int64) * 3
    columns = np.tile(np.arange(VECTOR_COLUMNS, VECTOR_COLUMNS + 3, dtype=np.int32), 40)
    of_vectors = neighbours.Similarity(Rows(indptr, columns, vectors.ravel().astype(np.float32)), 2, 3)
    plain = neighbours.Similarity(stream(vectors, np.ones((40, 1), int))[0], 3)
    chosen = np.arange(40)
    assert of_vectors.neighbours(chosen).rows.tolist() == plain.neighbours(chosen).rows.tolist()


def test_hidden_labels_and_settled_pairs_are_not_listed():
    X, signs = data()
    lists = found(X, signs)
    settled = {(doubt.row, doubt.label) for doubt in (lists.missing[0], lists.wrong[0], lists.wrong[3])}
    listed = np.array([True, False, True, True, True])
    later = found(X, signs, settled=settled, listed=listed)
    for before, after in ((lists.missing, later.missing), (lists.wrong, later.wrong)):
        expected = [d for d in before if (d.row, d.label) not in settled and d.label != 1]
        pairs = [(doubt.row, doubt.label) for doubt in after]
        assert pairs[: len(expected) // 2] == [(doubt.row, doubt.label) for doubt in expected][: len(expected) // 2]
        assert not settled & set(pairs)
        assert 1 not in {label for _, label in pairs}


def test_an_implied_label_is_not_listed_beside_the_label_that_implies_it():
    X, signs = data(noise=0.15)
    signs[:, 4] = np.maximum(signs[:, 4], signs[:, 3])
    parents = np.array([-1, -1, -1, 4, -1], dtype=np.int32)
    lists = found(X, signs, parents=parents, top=1000)
    assert not [doubt for doubt in lists.wrong if doubt.label == 4 and signs[doubt.row, 3] > 0]
    assert [doubt for doubt in found(X, signs, top=1000).wrong if doubt.label == 4 and signs[doubt.row, 3] > 0]
    missing = {(doubt.row, doubt.label) for doubt in lists.missing}
    assert not [row for row, label in missing if label == 3 and (row, 4) in missing]


def test_evidence_contradicts_the_truth():
    X, signs = data(n_features=60)
    lists = found(X, signs)
    for doubt in lists.missing + lists.wrong:
        assert len(doubt.similar) <= 3
        assert all((signs[row, doubt.label] > 0) != doubt.given for row in doubt.similar)
        contributions = [contribution for _, contribution in doubt.features]
        assert all((contribution < 0) == doubt.given for contribution in contributions)
        assert [abs(each) for each in contributions] == sorted(map(abs, contributions), reverse=True)
        assert all(X[doubt.row, column] != 0 for column, _ in doubt.features)
    assert any(doubt.similar and doubt.features for doubt in lists.missing)


def test_the_model_that_has_not_learnt_an_example_explains_it():
    X, signs = data()
    rows, targets = stream(X, signs)
    both = judges(*X.shape[1:], signs.shape[1])
    doubt = find_doubts(rows, targets, both, X.shape[1], signs.shape[1]).missing[0]
    row = rows.part(doubt.row, doubt.row + 1)
    found = [
        {
            (column, contribution)
            for column, contribution in zip(each.features.tolist(), each.contributions.tolist(), strict=True)
            if contribution > 0
        }
        for each in (judge.explain(row, [doubt.label], 5)[0] for judge in both)
    ]
    half = int(half_of(np.array([doubt.row]))[0])
    assert set(doubt.features) == found[1 - half] != found[half]


@pytest.mark.parametrize("period", [2, 3, 4, 6, 7, 10, 24, 60])
def test_a_half_of_a_periodic_stream_is_like_the_whole(period):
    halves = half_of(np.arange(200 * period))
    assert halves.sum() == 100 * period
    of_phases = halves.reshape(200, period).sum(axis=0)
    assert np.abs(of_phases - 100).max() <= 15


def test_injected_errors_are_found():
    X, signs = data(n=600, noise=0.0, seed=5)
    rng = np.random.default_rng(6)
    wrong = {(int(i), int(label)) for i, label in zip(rng.integers(0, 600, 30), rng.integers(0, 5, 30), strict=True)}
    for i, label in wrong:
        signs[i, label] = -signs[i, label]
    lists = found(X, signs, top=10)
    hits = [(doubt.row, doubt.label) in wrong for doubt in lists.missing + lists.wrong]
    assert np.mean(hits) > 0.1  # ten times the share of wrong pairs


def test_progress_is_reported():
    steps = []
    X, signs = data()
    found(X, signs, report=lambda done, total: steps.append((done, total)))
    assert steps[-1] == (640, 640)
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
