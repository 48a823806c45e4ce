"""Vectors beside other features: their blocks, the gains of these, and what learners without blocks do with them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core import FALT, SALT, KernelFALT, PassiveAggressive
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.updates._update import IMPLICIT, Update, update_one
from manylabel_core.rows import NO_WEIGHTS, VECTOR_COLUMNS, Rows, Targets, as_targets
from manylabel_core.scaling.automatic import AutomaticScaling

Vectors = Sequence[NDArray[np.float32]]

LEARNERS: dict[str, Callable[[], OnlineLearner]] = {
    "falt": FALT,
    "falt-macro": lambda: FALT(optimise="macro_f1", dtype="float64"),
    "falt-adaptive": lambda: FALT(step="adaptive"),
    "falt-gradient": lambda: FALT(passes=2),
    "falt-drift": lambda: FALT(drift="adwin", on_drift="restart"),
    "salt": SALT,
    "salt-gradient": lambda: SALT(passes=2),
    "kernel-falt": KernelFALT,
    "kernel-falt-nystroem": lambda: KernelFALT(budget=32, strategy="nystroem"),
    "kernel-falt-merge": lambda: KernelFALT(budget=16),
    "passive-aggressive": PassiveAggressive,
}


def rows_of(X: NDArray[np.float32], vectors: Vectors) -> Rows:
    """Return rows of the values of X that are not 0, and of vectors, which are missing where they begin with NaN."""
    csr = sp.csr_array(X)
    starts = VECTOR_COLUMNS + np.cumsum([0, *(v.shape[1] for v in vectors)])
    indices, values, ends = [], [], [0]
    for i in range(len(X)):
        own = slice(csr.indptr[i], csr.indptr[i + 1])
        columns, numbers = [csr.indices[own]], [csr.data[own]]
        for first, field in zip(starts, vectors, strict=False):
            if not np.isnan(field[i, 0]):
                columns.append(np.arange(first, first + field.shape[1]))
                numbers.append(field[i])
        indices += columns
        values += numbers
        ends.append(ends[-1] + sum(map(len, columns)))
    joined = np.concatenate(indices).astype(np.int32), np.concatenate(values).astype(np.float32)
    return Rows(np.array(ends, np.int64), *joined)


def stream(n: int = 120, seed: int = 3) -> tuple[NDArray[np.float32], Vectors, NDArray[np.int8]]:
    """Return words, two fields of vectors of which the first says most of the labels, and labels."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, 5)) < [0.5, 0.3, 0.2, 0.1, 0.05]).astype(np.int8)
    X = (rng.random((n, 30)) < 0.2).astype(np.float32)
    X[:, :5] *= np.where(rng.random((n, 5)) < 0.7, Y, X[:, :5])
    first = (Y @ rng.standard_normal((5, 8)) + 0.5 * rng.standard_normal((n, 8))).astype(np.float32)
    second = rng.standard_normal((n, 3)).astype(np.float32)
    first[::7], second[: n // 2] = np.nan, np.nan
    return X, (first, second), Y


def grown(make: Callable[[], OnlineLearner], X: NDArray[Any], vectors: Vectors, n_labels: int) -> OnlineLearner:
    learner = make()
    learner.pipeline.grow(X.shape[1], n_labels)
    learner.pipeline.grow_vectors([v.shape[1] for v in vectors])
    return learner


def micro_f1(scores: NDArray[np.float64], Y: NDArray[np.int8]) -> float:
    predicted = scores[:, 1:] > scores[:, :1]
    return float(2 * (predicted & (Y > 0)).sum() / (predicted.sum() + Y.sum()))


def same(one: OnlineLearner, other: OnlineLearner) -> bool:
    a, b = one.state(), other.state()
    return a.keys() == b.keys() and all(a[name].tobytes() == b[name].tobytes() for name in a)


@pytest.mark.parametrize("name", LEARNERS)
def test_single_rows_and_restored_states_give_the_bits_of_a_batch(name: str) -> None:
    X, vectors, Y = stream()
    rows, targets = rows_of(X, vectors), as_targets(Y)
    whole, single = (grown(LEARNERS[name], X, vectors, Y.shape[1]) for _ in range(2))
    expected = whole.pipeline.learn(rows, targets).scores
    for i in range(len(X)):
        row = rows.part(i, i + 1)
        predicted = single.pipeline.score(row)
        learnt = single.pipeline.learn(row, targets.part(i, i + 1)).scores
        assert predicted.tobytes() == learnt.tobytes() == expected[i].tobytes()
        if i in (0, 40, 90):
            restored = LEARNERS[name]()
            restored.restore(single.state())
            single = restored
    assert same(whole, single)
    assert whole.pipeline.nbytes >= sum(array.nbytes for array in grown(LEARNERS[name], X, [], 5).state().values())


@pytest.mark.parametrize("name", ["falt", "salt", "kernel-falt"])
def test_fields_and_features_that_appear_later_change_no_bit_of_what_was_learnt(name: str) -> None:
    X, vectors, Y = stream()
    first, second = vectors
    late = [np.where(np.arange(len(X))[:, np.newaxis] < start, np.nan, v) for start, v in ((30, first), (60, second))]
    X[:80, 20:] = 0.0
    rows, targets = rows_of(X, late), as_targets(Y)
    growing = LEARNERS[name]()
    growing.pipeline.grow(20, 5)
    scores = [growing.pipeline.learn(rows.part(0, 30), targets.part(0, 30)).scores]
    growing.pipeline.grow_vectors([8])
    scores.append(growing.pipeline.learn(rows.part(30, 60), targets.part(30, 60)).scores)
    growing.pipeline.grow_vectors([8, 3])
    scores.append(growing.pipeline.learn(rows.part(60, 80), targets.part(60, 80)).scores)
    growing.pipeline.grow(30, 5)
    scores.append(growing.pipeline.learn(rows.part(80, 120), targets.part(80, 120)).scores)

    alone = LEARNERS[name]()
    alone.pipeline.grow(20, 5)
    words = rows_of(X, [])
    assert alone.pipeline.learn(words.part(0, 30), targets.part(0, 30)).scores.tobytes() == scores[0].tobytes()
    restored = LEARNERS[name]()
    restored.restore(growing.state())
    assert same(growing, restored)
    probe = rows.part(100, 120)
    assert growing.pipeline.score(probe).tobytes() == restored.pipeline.score(probe).tobytes()
    assert not np.array_equal(growing.pipeline.score(probe), growing.pipeline.score(rows_of(X[100:], [])))


@pytest.mark.parametrize("name", LEARNERS)
def test_vectors_that_are_always_missing_change_nothing(name: str) -> None:
    X, vectors, Y = stream()
    nothing = [np.full_like(v, np.nan) for v in vectors]
    targets = as_targets(Y)
    without, with_fields = grown(LEARNERS[name], X, [], 5), grown(LEARNERS[name], X, nothing, 5)
    expected = without.pipeline.learn(rows_of(X, []), targets).scores
    found = with_fields.pipeline.learn(rows_of(X, nothing), targets).scores
    if with_fields.pipeline.model.takes_vectors:  # such a model adds the intercept last, in float32
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    else:
        assert found.tobytes() == expected.tobytes()


class Transcription:
    """The adaptive expert over blocks as `_blocks` describes it, one number at a time, with weights of float64."""

    def __init__(self, lengths: Sequence[int], n_features: int, n_labels: int) -> None:
        sizes = [n_features, *lengths]
        self.W = [np.zeros((size, 1 + n_labels)) for size in sizes]
        self.s = [np.zeros(size) for size in sizes]
        self.b, self.s0, self.c = np.zeros(1 + n_labels), 0.0, 0.3
        n = len(sizes)
        self.M, self.d, self.n = np.zeros((n, n)), np.zeros(n), 0.0
        self.g = np.array([1.0, *(0.0 for _ in lengths)])
        self.mean, self.count = np.zeros((n, n_labels)), np.zeros((n, n_labels))

    def learn(self, blocks: Sequence[NDArray[Any] | None], signs: NDArray[np.int8], weight: float) -> NDArray[Any]:
        has = np.array([x is not None and x.any() for x in blocks])
        gains = np.where(has, self.g, 0.0)
        if not has[0]:
            gains[has] += self.prior() / max(has.sum(), 1)
        gains /= max(gains.sum(), 0.25)
        xs = [np.zeros(len(W)) if x is None else x.astype(np.float64) for x, W in zip(blocks, self.W, strict=True)]
        parts = np.array([x @ W for x, W in zip(xs, self.W, strict=True)])
        scores = self.c * self.b + gains @ parts
        rates = [1.0 / np.sqrt(1.0 + s) for s in self.s]
        k = self.c**2 / np.sqrt(1.0 + self.s0)
        k += sum(g * (x * x * rate).sum() for g, x, rate in zip(gains, xs, rates, strict=True))
        tau, update = np.zeros(len(scores)), Update(IMPLICIT, 0.4).as_array()
        listed = np.flatnonzero(signs).astype(np.int32)
        if update_one(update, weight, len(signs), k, scores, listed, signs[listed], False, tau):
            self.b += self.c / np.sqrt(1.0 + self.s0) * tau
            self.s0 += weight * self.c**2
            for W, s, x, rate, gain in zip(self.W, self.s, xs, rates, gains, strict=True):
                W += np.outer(x * rate, tau)
                s += weight * gain * x * x
        self._learn_gains(has, parts[:, 1:], signs, weight)
        return scores

    def _learn_gains(self, has: NDArray[Any], f: NDArray[Any], signs: NDArray[np.int8], weight: float) -> None:
        known, relevant, irrelevant = signs != 0, signs > 0, signs < 0
        if not (relevant.any() and irrelevant.any()):
            return
        f, d = f.copy(), np.zeros(len(f))
        for b in range(len(f)):
            if not has[b]:
                f[b] = 0.0
                continue
            self.count[b, known] += 1
            rate = np.maximum(1.0 / np.maximum(self.count[b], 1), 0.005)
            self.mean[b, known] += ((f[b] - self.mean[b]) * rate)[known]
            f[b] = np.where(known, f[b] - self.mean[b], 0.0)
            above, below = f[b, relevant].mean(), f[b, irrelevant].mean()
            f[b, known] -= (above + below) / 2
            d[b] = (above - below) / 2
        P = sum(f[:, own] @ f[:, own].T / own.sum() / 2 for own in (relevant, irrelevant))
        self.n = 0.998 * self.n + weight
        self.M, self.d = 0.998 * self.M + weight * P, 0.998 * self.d + weight * d
        ridge = 10.0 / self.n * np.trace(self.M) / len(f)
        if not ridge > 0.0:
            return
        wanted = self.d * self.beyond_chance() / (1.0 + self.beyond_chance())
        a = _least(np.maximum(self.M, 0.0) + ridge * np.eye(len(f)), wanted)
        odds = np.array([1.0, *(0.75 for _ in a[1:])])
        self.g[1:] = (1.0 - self.prior()) * (odds * a)[1:] / max((odds * a).sum(), 1e-300)
        self.g[0] = 1.0 - self.g[1:].sum()

    def beyond_chance(self) -> NDArray[Any]:
        squares = np.diag(self.M)
        return np.maximum(np.maximum(self.d, 0.0) ** 2 / np.where(squares > 0.0, squares, 1.0) - 1.0, 0.0)

    def prior(self) -> float:
        return float(1.0 / (1.0 + self.beyond_chance().sum()))


def _least(A: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return a >= 0 that is the least of a'Aa / 2 - b'a: of all sets of elements that are 0, the best by far."""
    best, least = np.zeros(len(b)), 0.0
    for chosen in range(1, 2 ** len(b)):
        own = [i for i in range(len(b)) if chosen >> i & 1]
        a = np.zeros(len(b))
        a[own] = np.linalg.solve(A[np.ix_(own, own)], b[own])
        value = a @ A @ a / 2 - b @ a
        if (a >= 0.0).all() and value < least:
            best, least = a, value
    return best


def _vector_oracle(field: NDArray[np.float32]) -> list[NDArray[np.float64] | None]:
    """Return the vectors of a field, each standardised by those up to it and divided by its norm; None if missing."""
    found: list[NDArray[np.float64] | None] = []
    values = np.zeros((0, field.shape[1]))
    for given in field.astype(np.float64):
        if np.isnan(given[0]):
            found.append(None)
            continue
        if len(values) >= 10:
            reach = 10.0 * values.std(axis=0)
            given = np.where(reach > 0.0, np.clip(given, values.mean(0) - reach, values.mean(0) + reach), given)
        values = np.vstack([values, given])
        deviation = values.std(axis=0)
        scaled = np.where(deviation > 1e-9, (given - values.mean(axis=0)) / np.maximum(deviation, 1e-9), 0.0)
        norm = np.sqrt((scaled**2).sum())
        found.append(scaled / norm if norm > 0.0 else None)
    return found


def test_the_expert_of_blocks_follows_its_equations() -> None:
    X, vectors, Y = stream()
    rng = np.random.default_rng(5)
    vectors[0][50, 2] = 1e6
    signs = np.where(Y > 0, 1, -1).astype(np.int8)
    signs[rng.random(Y.shape) < 0.1] = 0
    weights = rng.choice([0.5, 1.0, 3.0], len(X))
    learner = grown(lambda: FALT(dtype="float64"), X, vectors, 5)
    scaling = AutomaticScaling()
    scaling.grow(30)
    words = scaling.learn(rows_of(X, [])._replace(values=rows_of(X, []).values.astype(np.float64)))
    fields = [_vector_oracle(field) for field in vectors]
    plain = Transcription([8, 3], 30, 5)
    rows = rows_of(X, vectors)
    for i in range(len(X)):
        columns, values = words.row(i)
        dense = np.zeros(30)
        dense[columns] = values
        listed = np.flatnonzero(signs[i]).astype(np.int32)
        truth = Targets(
            np.array([0, len(listed)]),
            listed,
            signs[i][listed],
            np.zeros(1, np.bool_),
            np.array([5]),
            NO_WEIGHTS if weights[i] == 1.0 else weights[i : i + 1],
        )
        expected = plain.learn([dense, *(field[i] for field in fields)], signs[i], weights[i])
        learner.pipeline.learn(rows.part(i, i + 1), truth)
        stack = learner.pipeline.model
        found = np.empty((1, 6))
        assert expected.shape == found[0].shape
        np.testing.assert_allclose(stack._vectors.adaptive.gains, plain.g, rtol=1e-6, atol=1e-9)
    weights_found = learner.state()
    np.testing.assert_allclose(weights_found["blocks.weights"][1:9], plain.W[1], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(weights_found["blocks.weights"][9:], plain.W[2], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(weights_found["weights"][1:], plain.W[0], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["falt", "salt", "passive-aggressive"])
def test_an_explanation_has_one_line_for_a_vector_and_sums_to_the_score(name: str) -> None:
    X, vectors, Y = stream()
    learner = grown(LEARNERS[name], X, vectors, 5)
    learner.pipeline.learn(rows_of(X, vectors), as_targets(Y))
    row = rows_of(X[100:101], [v[100:101] for v in vectors])
    score = learner.pipeline.score(row)[0]
    for label, explained in enumerate(learner.pipeline.explain(row, range(5), 100)):
        assert sum(explained.contributions) + explained.rest == pytest.approx(score[1 + label] - score[0])
        blocks = explained.features[explained.features >= VECTOR_COLUMNS]
        assert blocks.tolist() == [VECTOR_COLUMNS]  # the noise has no gain


def test_gains_follow_what_a_block_is_worth() -> None:
    rng = np.random.default_rng(0)
    n = 1500
    Y = (rng.random((n, 8)) < 0.2).astype(np.int8)
    words = ((Y @ (rng.random((8, 40)) < 0.1) + (rng.random((n, 40)) < 0.1)) > 0).astype(np.float32)
    noisy = (rng.random((n, 40)) < 0.2).astype(np.float32)
    vector = (Y @ rng.standard_normal((8, 16)) + rng.standard_normal((n, 16))).astype(np.float32)
    noise = rng.standard_normal((n, 64)).astype(np.float32)

    def f1(X: NDArray[np.float32], *given: NDArray[np.float32]) -> float:
        learner = grown(FALT, X, given, 8)
        return micro_f1(learner.pipeline.learn(rows_of(X, given), as_targets(Y)).scores, Y)

    alone = f1(words)
    of_vector = f1(np.zeros_like(words), vector)
    assert f1(words, vector) > max(alone, of_vector) + 0.01
    assert f1(words, noise) > alone - 0.003
    assert f1(noisy, vector) > of_vector - 0.02  # words that say nothing do not drown it
    assert f1(words, noise, vector, noise[::-1]) > max(alone, of_vector) + 0.01


def test_a_forgotten_label_is_as_a_new_one() -> None:
    X, vectors, Y = stream()
    learner = grown(FALT, X, vectors, 5)
    learner.pipeline.learn(rows_of(X, vectors), as_targets(Y))
    pipeline = learner.pipeline
    pipeline.model.forget(2)
    state = learner.state()
    assert not state["blocks.weights"][:, 3].any()
    assert not state["blocks.means"][:, 2].any()
    assert not state["blocks.counts"][:, 2].any()
    assert not state["blocks.centroid.0.sums"][:, 3].any()
    assert state["blocks.weights"][:, 2].any()
    pipeline.model.reset_step_sizes(None)
    assert not learner.state()["blocks.squares"].any()


@pytest.mark.parametrize(
    ("lengths", "match"), [([4, 8], "begin with"), ([8, 3, 8193], "values"), ([8, 3, 0], "values"), ([8, 3] * 5, "8 f")]
)
def test_fields_keep_their_lengths(lengths: list[int], match: str) -> None:
    X, vectors, _ = stream()
    learner = grown(FALT, X, vectors, 5)
    with pytest.raises(ValueError, match=match):
        learner.pipeline.grow_vectors(lengths)


@pytest.mark.parametrize(("first", "last"), [(0, 7), (1, 8), (0, 9), (8, 12), (3, 5)])
def test_a_vector_that_is_not_whole_is_refused(first: int, last: int) -> None:
    X, vectors, Y = stream()
    learner = grown(FALT, X, vectors, 5)
    before = learner.state()
    columns = (VECTOR_COLUMNS + np.arange(first, last)).astype(np.int32)
    row = Rows(np.array([0, len(columns)]), columns, np.ones(len(columns), np.float32))
    for call in (learner.pipeline.score, lambda given: learner.pipeline.learn(given, as_targets(Y[:1]))):
        with pytest.raises(ValueError, match="vector"):
            call(row)
    assert all(before[name].tobytes() == array.tobytes() for name, array in learner.state().items())


def refused(make: Callable[[], OnlineLearner], state: dict[str, NDArray[Any]]) -> bool:
    with pytest.raises(ValueError, match=r"must|at most|missing|shape"):
        make().restore(state)
    return True


@pytest.mark.parametrize("name", ["falt", "salt"])
def test_a_forged_state_is_refused(name: str) -> None:
    X, vectors, Y = stream()
    learner = grown(LEARNERS[name], X, vectors, 5)
    learner.pipeline.learn(rows_of(X, vectors), as_targets(Y))
    state = learner.state()
    own = [key for key in state if key.startswith(("vectors.", "blocks.", "gains.")) and state[key].size]
    assert len(own) == (15 if name == "falt" else 11)
    for key in own:
        arrays = {"short": state[key][:-1], "type": state[key].astype(np.int16)}
        if state[key].dtype.kind == "f":
            arrays |= {f"{value}": np.full_like(state[key], value) for value in (np.nan, -np.inf)}
        else:
            arrays["negative"] = np.full_like(state[key], -1)
        for what, array in arrays.items():
            if len(array):
                assert refused(LEARNERS[name], {**state, key: array}), (key, what)
        left = {other: array for other, array in state.items() if other != key}
        assert refused(LEARNERS[name], left), key
