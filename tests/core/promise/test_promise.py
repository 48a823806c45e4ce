"""A promise against its recipe in plain Python, and the bound that it keeps whatever the data do."""

from collections import deque

import numpy as np
import pytest
from tests.core.promise.transcription import Plain, state_numbers

from manylabel_core.promise import Decision, Promise, Target, _pass, report
from manylabel_core.rows import NO_WEIGHTS, Targets

EASY = 0.9, 0.8, 0.02
"""Precision, settled and missed that the streams below reach soon."""


def targets_of(truth):
    """Return rows of -1, 0 and 1 as targets; those without a 0 are complete."""
    complete = (truth != 0).all(axis=1)
    listed = np.where(complete[:, None], truth > 0, truth != 0)
    rows, columns = np.nonzero(listed)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(truth)))])
    n_labels = np.full(len(truth), truth.shape[1])
    return Targets(indptr, columns.astype(np.int32), truth[rows, columns], complete, n_labels, NO_WEIGHTS)


def scores_of(allowed):
    """Return scores by which some labels are predicted."""
    return np.hstack([np.zeros((len(allowed), 1)), np.where(allowed, 1.0, -1.0)])


def stream(n=4000, n_labels=12, seed=0):
    """Return probabilities and truths: half of the examples are easy, a third of the labels are noise for a while."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(-2, 3.5, size=(n, n_labels))
    easy = rng.random(n) < 0.5
    logits[easy] = np.where(rng.random((easy.sum(), n_labels)) < 0.2, 5.0, -6.0)
    p = 1 / (1 + np.exp(-logits))
    truth = rng.random((n, n_labels)) < p
    some = slice(0, n_labels // 3)
    truth[n // 2 : n // 2 + n // 8, some] = rng.random((n // 8, n_labels // 3)) < 0.3
    return p, np.where(truth, 1, -1).astype(np.int8)


def learnt(promise, p, truth, allowed=None, **kwargs):
    scores = scores_of(np.ones_like(truth, dtype=bool) if allowed is None else allowed)
    targets = targets_of(truth)
    return promise.learn(p, scores, targets, targets.complete, **kwargs)


def test_it_is_the_recipe_in_plain_python():
    p, truth = stream()
    rng = np.random.default_rng(1)
    allowed = rng.random(p.shape) < 0.95
    truth[rng.random(len(truth)) < 0.2, 3:7] = 0  # partial
    parents = np.array([-1, 0, 1, -1, 3], dtype=np.int32)
    promise, plain = Promise(Target(*EASY)), Plain(*EASY, p.shape[1])
    decisions = learnt(promise, p, truth, allowed, parents=parents)
    n_settled = 0
    for row, decision in enumerate(decisions):
        due = plain.decide(p[row], allowed[row], parents)
        assert (decision.applied, decision.settled) == (sorted(due[2]), due[6]), row
        plain.learn(due, truth[row], (truth[row] != 0).all())
        n_settled += decision.settled
    assert promise.memory.gates[0, 4] >= 2  # it reopens
    assert n_settled > 50
    assert state_numbers(promise) == plain.numbers()


def candidates_of(decision):
    return decision._candidates[:, 0].astype(int).tolist()


def test_the_candidates_are_the_likeliest_labels():
    p = np.array([[0.12] * 100 + [0.99] * 100, [0.5] * 200, [0.99] * 3 + [0.12] * 197, [0.099] * 199 + [0.1]])
    decisions = Promise(Target(0.9)).decide(p, scores_of(p > 0))
    found = [candidates_of(decision) for decision in decisions]
    assert found == [[*range(100, 164)], [*range(64)], [*range(64)], [199]]


@pytest.mark.parametrize("n_labels", [63, 64, 65, 300])
def test_many_candidates_are_those_of_the_recipe(n_labels):
    rng = np.random.default_rng(n_labels)
    p = rng.integers(0, 20, size=(200, n_labels)) / 20  # many are equal
    p[::3] = rng.random((67, n_labels))
    truth = np.where(rng.random(p.shape) < p, 1, -1).astype(np.int8)
    parents = np.where(np.arange(n_labels) % 5 == 4, np.arange(n_labels) - 4, -1).astype(np.int32)
    promise, plain = Promise(Target(*EASY)), Plain(*EASY, n_labels)
    for row, decision in enumerate(learnt(promise, p, truth, parents=parents)):
        due = plain.decide(p[row], None, parents)
        assert candidates_of(decision) == [label for label, *_ in due[0]]
        plain.learn(due, truth[row])
    assert state_numbers(promise) == plain.numbers()


def test_late_truths_count_for_the_served_decision():
    p, truth = stream(2500, seed=2)
    promise, plain = Promise(Target(*EASY)), Plain(*EASY, p.shape[1])
    scores, waiting = scores_of(np.ones_like(truth, dtype=bool)), deque()
    for row in range(len(p)):
        (served,) = promise.decide(p[row : row + 1], scores[row : row + 1])
        waiting.append((row, Decision(np.frombuffer(served.values.tobytes())).check(), plain.decide(p[row])))
        if len(waiting) > 40:
            late, decision, due = waiting.popleft()
            assert (decision.applied, decision.settled) == (sorted(due[2]), due[6])
            promise.learn_served(decision, targets_of(truth[late : late + 1]), complete=True)
            plain.learn(due, truth[late])
    assert plain.labels_gate.applied > 500
    assert state_numbers(promise) == plain.numbers()


def test_rows_and_blocks_have_the_same_bits_and_a_state_continues():
    p, truth = stream(1500, seed=3)
    together, alone = Promise(Target(*EASY)), Promise(Target(*EASY))
    decisions = learnt(together, p, truth)
    for row, decision in enumerate(decisions):
        one = slice(row, row + 1)
        (own,) = learnt(alone, p[one], truth[one])
        np.testing.assert_array_equal(own.values, decision.values)
        if row % 300 == 7:
            again = Promise(Target(*EASY))
            again.restore({name: array.copy() for name, array in alone.state().items()}, p.shape[1])
            alone = again
    for name, array in together.state().items():
        np.testing.assert_array_equal(array, alone.state()[name])


def calibrated(rng, n, n_labels):
    p = 1 / (1 + np.exp(-rng.normal(-1, 4, size=(n, n_labels))))
    return p, rng.random(p.shape) < p


def overconfident(rng, n, n_labels):
    z = rng.normal(-1, 3, size=(n, n_labels))
    return 1 / (1 + np.exp(-3 * z)), rng.random(z.shape) < 1 / (1 + np.exp(-z))


def lying(rng, n, n_labels):
    p, truth = calibrated(rng, n, n_labels)
    truth[:, ::2] = rng.random(truth[:, ::2].shape) < 0.5
    return p, truth


def collapsing(rng, n, n_labels):
    p, truth = calibrated(rng, n, n_labels)
    truth[n // 3 :] = False
    return p, truth


def in_waves(rng, n, n_labels):
    p, truth = calibrated(rng, n, n_labels)
    bad = np.arange(n) // 300 % 2 == 1
    truth[bad] = rng.random((bad.sum(), n_labels)) < 0.1
    return p, truth


def just_below(rng, n, n_labels):
    p = np.where(rng.random((n, n_labels)) < 0.4, 0.97, 0.01)
    return p, rng.random(p.shape) < np.where(p > 0.5, 0.88, 0.01)


SIMULATIONS = [calibrated, overconfident, lying, collapsing, in_waves, just_below]


def check_bounds(decisions, truth, target, promise):
    """Check, at every example, that wrong labels, wrong examples and missed labels are within their bounds."""
    precision, settled_precision, missed_share = target[:3]
    applied = wrong = settled = faulty = missed = true = 0
    most_at_once = most_missed = 0
    for decision, row in zip(decisions, truth, strict=True):
        now = set(decision.applied)
        right = set(np.flatnonzero(row > 0).tolist())
        applied, wrong, true = applied + len(now), wrong + len(now - right), true + len(right)
        most_at_once = max(most_at_once, len(now))
        if decision.settled:
            settled, faulty = settled + 1, faulty + (now != right)
            missed += len(right - now)
            most_missed = max(most_missed, len(right - now))
        openings = promise.memory.gates[:, 4]
        handful = 2 + 1.5 * openings[0] + most_at_once
        assert wrong <= (1 - precision) * applied + handful
        assert faulty <= (1 - settled_precision) * settled + 2 + 1.5 * openings[1] + 1
        assert missed <= missed_share * true + most_missed
    return applied, settled


@pytest.mark.parametrize(("precision", "seed"), [(0.9, 0), (0.95, 1), (0.99, 2)])
@pytest.mark.parametrize("simulate", SIMULATIONS)
def test_wrong_labels_stay_within_the_bound_at_every_example(simulate, precision, seed):
    p, truth = simulate(np.random.default_rng(seed), 3000, 10)
    truth = np.where(truth, 1, -1).astype(np.int8)
    target = Target(precision, 0.9)
    promise = Promise(target)
    decisions = learnt(promise, p, truth)
    applied, _ = check_bounds(decisions, truth, target, promise)
    assert applied > 0 or simulate is not calibrated


def test_a_settled_example_is_audited_by_chance_and_stays_in_the_account():
    p, truth = stream(6000, seed=5)
    rates = {}
    for rate in (0.0, 0.3, 1.0):
        promise = Promise(Target(*EASY, rate))
        decisions = [one for one in learnt(promise, p, truth) if one.settled]
        rates[rate] = np.mean([one.review for one in decisions])
        assert promise.memory.gates[1, 6] == len(decisions) > 300
        assert promise.memory.counts[6] == sum(one.review for one in decisions)
    assert (rates[0.0], rates[1.0]) == (0.0, 1.0)
    assert 0.2 < rates[0.3] < 0.4


def test_hidden_labels_are_not_counted_and_no_example_is_settled_without_that_target():
    p, truth = stream(3000, seed=6)
    promise, without = Promise(Target(*EASY)), Promise(Target(EASY[0], None))
    visible = p.copy()
    visible[:, 2] = 0.0
    wrong = truth.copy()
    wrong[:, 2] = -1
    decisions = learnt(promise, visible, truth, hidden=[2])
    assert not any(2 in one.applied for one in decisions)
    other = Promise(Target(*EASY))
    assert [one.applied for one in learnt(other, visible, wrong)] == [one.applied for one in decisions]
    assert not any(one.settled or not one.review for one in learnt(without, p, truth))
    assert without.memory.gates[0, 6] > 0


def test_a_changed_target_begins_new_accounts_and_earlier_decisions_are_not_counted():
    p, truth = stream(2000, seed=7)
    promise = Promise(Target(*EASY))
    learnt(promise, p, truth)
    (earlier,) = promise.decide(p[:1], scores_of(truth[:1] < 2))
    weights = promise.memory.label_weights.copy()
    promise.change(Target(*EASY, 0.5), 1)
    assert promise.memory.gates[0, 6] > 0  # the audit rate is no account's
    promise.change(Target(0.95, *EASY[1:]), 2)
    assert promise.memory.gates[0, 6] == 0
    assert not promise.memory.bins.any()
    np.testing.assert_array_equal(promise.memory.label_weights, weights)
    before = {name: array.copy() for name, array in promise.state().items()}
    promise.learn_served(earlier, targets_of(truth[:1]), complete=True)
    for name, array in promise.state().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gates", lambda array: array[:, :3]),
        ("gates", lambda array: array * np.nan),
        ("counts", lambda array: array - 5.0),
        ("labels", lambda array: np.zeros((5, 99))),
        ("bins", lambda array: array.astype(np.float32)),
    ],
)
def test_a_damaged_state_is_refused(name, change):
    promise = Promise(Target(*EASY))
    p, truth = stream(50)
    learnt(promise, p, truth)
    arrays = {**promise.state(), name: change(promise.state()[name])}
    with pytest.raises(ValueError, match=f"promise.{name}"):
        Promise(Target(*EASY)).restore(arrays, p.shape[1])


@pytest.mark.parametrize("at", [0, 1, 11, 12, 13, 16])
def test_a_damaged_decision_is_refused(at):
    p, truth = stream(2000, seed=8)
    promise = Promise(Target(*EASY))
    decision = next(one for one in reversed(learnt(promise, p, truth)) if one.applied)
    assert decision.check() is decision
    values = decision.values.copy()
    values[at] = np.nan if at == 0 else -7.5
    with pytest.raises(ValueError, match="decision"):
        Decision(values).check()


def test_a_decision_has_each_column_once():
    (decision,) = Promise(Target(0.8)).decide(np.full((1, 2), 0.4), np.zeros((1, 3)))
    values = decision.values.copy()
    first, second = decision._candidates[:, _pass.COLUMN]
    assert first < second
    values[_pass.HEADER + _pass.FIELDS + _pass.COLUMN] = first
    with pytest.raises(ValueError, match="ascending integers"):
        Decision(values).check()


def test_the_account_adds_up():
    p, truth = stream(6000, seed=9)
    names = [f"label {column}" for column in range(p.shape[1])]
    target = Target(*EASY, 0.2)
    promise = Promise(target)
    told = report(promise, names)
    assert (told["gate"]["state"], told["gate"]["why"]) == ("learning", "no label is sure enough yet")
    assert told["total"]["precision"] is None
    decisions = learnt(promise, p, truth)
    told = report(promise, names)
    assert {name: told[name] for name in Target._fields} == target._asdict()
    for part, last in (("total", 6000), ("last_1000", 1000)):
        numbers, pairs = told[part], list(zip(decisions, truth > 0, strict=True))[-last:]
        outcomes = [bool(row[column]) for one, row in zip(decisions, truth > 0, strict=True) for column in one.applied]
        outcomes = outcomes if part == "total" else outcomes[-1000:]
        settled = [(one, row) for one, row in pairs if one.settled]
        right = [one.applied == np.flatnonzero(row).tolist() for one, row in settled]
        assert (numbers["applied"], numbers["wrong"]) == (len(outcomes), len(outcomes) - sum(outcomes))
        assert numbers["precision"] == pytest.approx(np.mean(outcomes))
        assert (numbers["settled"], numbers["settled_right"]) == (len(settled), pytest.approx(np.mean(right)))
        assert numbers["settled_share"] == pytest.approx(len(settled) / last)
        n_found = sum(row[one.applied].sum() for one, row in pairs)
        assert numbers["recall"] == pytest.approx(n_found / sum(row.sum() for _, row in pairs))
        assert numbers["missed"] == sum(row.sum() - row[one.applied].sum() for one, row in settled)
    assert sum(one["applied"] for one in told["labels"]) == told["total"]["applied"]
    shares = [one["precision"] for one in told["labels"]]
    assert shares == sorted(shares)
    recalls = [point["recall"] for point in told["curve"]]
    assert recalls == sorted(recalls, reverse=True)
    assert abs(recalls[0] - told["last_1000"]["recall"]) < 0.1


def test_the_room_is_the_number_of_errors_until_the_gate_closes():
    p, truth = stream(1500, seed=10)
    promise = Promise(Target(*EASY))
    learnt(promise, p, truth)
    told = report(promise, "abcdefghijkl")["gate"]
    assert told["state"] == "open"
    sure = np.zeros((1, p.shape[1]))
    sure[0, 7] = 0.999
    errors = 0
    while promise.memory.gates[0, 3] > 0:
        (decision,) = promise.decide(sure, scores_of(sure > -1))
        values = decision.values.copy()
        values[16] = 3  # the label counts as applied, although the gate holds it back
        promise.learn_served(Decision(values), targets_of(np.where(sure > 0, -1, 0).astype(np.int8)), complete=False)
        errors += 1
    assert errors == told["room"] + 1
    told = report(promise, "abcdefghijkl")["gate"]
    assert (told["state"], told["room"]) == ("closed", 0)
