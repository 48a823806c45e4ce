"""A promise of parity against its recipe in plain Python, and the bound that it keeps whatever the data do."""

import numpy as np
import pytest
from tests.core.parity.transcription import Plain

from manylabel_core.parity import Deferral, Parity, ParityTarget, agreement_of, report


def stream(n, seed, n_labels=12, wrong=0.03):
    """Return probabilities and the labels of a teacher: two thirds of the examples are easy."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(-2, 3.0, size=(n, n_labels))
    easy = rng.random(n) < 2 / 3
    logits[easy] = np.where(rng.random((easy.sum(), n_labels)) < 0.2, 5.0, -7.0)
    p = 1 / (1 + np.exp(-logits))
    teacher = rng.random((n, n_labels)) < p
    flipped = rng.random(n) < wrong
    teacher[flipped, rng.integers(0, n_labels, flipped.sum())] ^= True
    return p, teacher


def scores_of(p):
    return np.hstack([np.full((len(p), 1), 0.5), p])


def columns_of(row):
    return set(np.flatnonzero(row).tolist())


def run(parity, p, teacher, seed=0, look=None):
    """Run the closed loop, and return the wrong answers and all answers."""
    rng = np.random.default_rng(seed)
    answered = wrong = 0
    for row in range(len(p)):
        one = p[row : row + 1]
        (undrawn,) = parity.defer(one, scores_of(one))
        deferral = undrawn.drawn(rng.random())
        answer, told = columns_of(p[row] > 0.5), columns_of(teacher[row])
        if look is not None:
            look(row, deferral, answer, told)
        if deferral.ask:
            parity.learn(deferral, answer, told)
            if deferral.sure:
                parity.settle(deferral.rate, answer, told)
        else:
            answered, wrong = answered + 1, wrong + (answer != told)
        account = report(parity, [])
        assert account["estimated_wrong"] <= account["allowed"] + 1e-6
    return wrong, answered


@pytest.mark.parametrize("agreement", ["exact", "f1"])
def test_it_is_the_recipe_in_plain_python(agreement):
    p, teacher = stream(3000, seed=1)
    p[:20] = 0.001  # empty answers
    parity, plain, states = Parity(ParityTarget(0.9, agreement=agreement, audit_rate=0.1)), None, []
    plain = Plain(0.9, agreement, 0.1)

    def look(row, deferral, answer, told):
        decision = plain.decide(p[row].tolist(), (p[row] > 0.5).tolist())
        f, u, sure, rate = decision
        due = [1.0, rate, float(sure), float(deferral.ask), u, *f]
        assert deferral.values.tolist() == due, row
        if deferral.ask:
            plain.learn(decision, answer, told)
        states.append(parity.open)

    _, answered = run(parity, p, teacher, look=look)
    assert answered > 300
    memory = parity.memory
    assert memory.numbers[0] == plain.account
    assert report(parity, [])["openings"] == plain.openings >= 1
    assert memory.weights.tolist() == plain.w
    assert memory.covariance.tolist() == plain.cov
    assert memory.bins.T.tolist() == plain.bins
    counted = {int(column): row.tolist() for row, column in zip(memory.labels.T, range(12), strict=False) if row.any()}
    assert counted == {
        column: [plain.added.get(column, 0), plain.missed.get(column, 0)] for column in {*plain.added, *plain.missed}
    }


@pytest.mark.parametrize("bad", [0.0, 0.05, 0.1, 0.3, 1.0])
def test_audits_never_find_more_than_is_allowed_on_hostile_streams(bad):
    """Always right at first, then wrong at a rate that the inputs do not show, then in turns."""
    rng = np.random.default_rng(7)
    n = 5000
    p = np.tile([[0.995, 0.004]], (n, 1))
    shares = np.where(np.arange(n) // 1000 % 2 == 0, 0.01, bad)
    teacher = np.column_stack([rng.random(n) >= shares, np.zeros(n, dtype=bool)])
    parity = Parity(ParityTarget(0.95))
    wrong, answered = run(parity, p, teacher)  # asserts the bound at each step
    openings = report(parity, [])["openings"]
    # The true number deviates from the estimate by about the square root of the number of examples for each audit.
    assert wrong <= 0.05 * (n if answered else 0) + 7 + openings + 4 * np.sqrt(0.05 * max(answered, 1) * 20)
    assert answered > 300


def test_the_audit_rate_follows_from_the_account():
    parity = Parity(ParityTarget(0.95, audit_rate=0.05))
    assert (parity.open, parity.audit_rate) == (False, 1.0)
    n = 0
    while not parity.open:
        parity.settle(1.0, {0}, {0})
        n += 1
    assert n == 8
    assert (parity.memory.numbers[0], parity.audit_rate) == (8.0, 0.25)
    while parity.audit_rate > 0.05:
        parity.settle(parity.audit_rate, {0}, {0})
    assert parity.memory.numbers[0] >= 40
    for _ in range(1000):
        parity.settle(0.05, {0}, {0})
    assert parity.memory.numbers[0] == 80
    rates = []
    while parity.open:
        rates.append(parity.audit_rate)
        parity.settle(parity.audit_rate, {0}, {1})
        assert parity.memory.numbers[0] > 1.05
    assert rates == sorted(rates)
    assert report(parity, ["a", "b"])["labels"] == [
        {"label": "a", "added": len(rates), "missed": 0},
        {"label": "b", "added": 0, "missed": len(rates)},
    ]
    parity.settle(1.0, {0}, {0})
    for _ in range(20):
        parity.settle(1.0, {0}, {0})
    assert parity.open
    assert parity.memory.numbers[0] < 8  # the credit is given once


def test_an_audit_that_expires_counts_as_wrong():
    parity, same = (Parity(ParityTarget(0.95)) for _ in range(2))
    for each in (parity, same):
        for _ in range(60):
            each.settle(each.audit_rate, {0}, {0})
    rate = parity.audit_rate
    parity.expire(rate)
    same.settle(rate, {0}, {1})
    assert parity.memory.numbers[0] == same.memory.numbers[0]
    account = report(parity, [])
    assert (account["audits_without_answer"], account["estimated_wrong"]) == (1, 1 / rate)


def test_labels_without_a_column_disagree():
    parity = Parity(ParityTarget(0.95))
    parity.settle(1.0, {0}, {0}, n_others=1)
    assert parity.memory.numbers[0] == 1.6
    parity.settle(1.0, {0}, {0})
    assert parity.memory.numbers[0] > 1.6


def test_agreements():
    assert agreement_of("exact", [], []) == agreement_of("f1", [], []) == 1.0
    assert agreement_of("exact", [1, 2], [2, 1]) == 1.0
    assert agreement_of("exact", [1, 2], [1]) == 0.0
    assert agreement_of("f1", [1, 2], [1]) == 2 / 3


def test_a_state_continues_with_the_same_bits():
    p, teacher = stream(1200, seed=3)
    whole, parts = Parity(ParityTarget(0.9)), Parity(ParityTarget(0.9))
    run(whole, p, teacher)
    draws = np.random.default_rng(0)
    for row in range(len(p)):
        one = p[row : row + 1]
        deferral = parts.defer(one, scores_of(one))[0].drawn(draws.random())
        if deferral.ask:
            answer, told = columns_of(p[row] > 0.5), columns_of(teacher[row])
            again = Deferral(np.frombuffer(deferral.values.tobytes())).check()
            parts.learn(again, answer, told)
            if again.sure:
                parts.settle(again.rate, answer, told)
        if row % 250 == 13:
            restored = Parity(ParityTarget(0.9))
            restored.restore({name: array.copy() for name, array in parts.state().items()}, 12)
            parts = restored
    for name, array in whole.state().items():
        np.testing.assert_array_equal(array, parts.state()[name])


def test_another_promise_starts_another_account():
    p, teacher = stream(1500, seed=4)
    parity = Parity(ParityTarget(0.9))
    run(parity, p, teacher)
    before = parity.memory
    parity.change(ParityTarget(0.9, audit_rate=0.2), 1)
    assert parity.memory is before
    parity.change(ParityTarget(0.8), 2)
    assert (parity.open, report(parity, [])["openings"]) == (False, 0)
    np.testing.assert_array_equal(parity.memory.weights, before.weights)
    (old,) = Parity(ParityTarget(0.9)).defer(p[:1], scores_of(p[:1]))
    parity.learn(old, {0}, {0})  # of the earlier promise
    np.testing.assert_array_equal(parity.memory.weights, before.weights)
    parity.change(ParityTarget(0.8, agreement="f1"), 3)
    np.testing.assert_array_equal(parity.memory.weights, Parity(ParityTarget(0.8)).memory.weights)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("weights", lambda a: a[:8]),
        ("weights", lambda a: a * np.nan),
        ("bins", lambda a: a - 1.0),
        ("numbers", lambda a: np.zeros_like(a)),
        ("labels", lambda a: np.zeros((2, 99))),
        ("covariance", lambda a: a.astype(np.float32)),
    ],
)
def test_a_damaged_state_is_refused(name, change):
    parity = Parity(ParityTarget(0.9))
    arrays = parity.state()
    with pytest.raises(ValueError, match="parity"):
        parity.restore({**arrays, name: change(arrays[name])}, 12)


@pytest.mark.parametrize(
    ("at", "value"), [(1, 0.001), (1, 0.5), (2, 2), (3, 0.5), (4, 9), (5, np.nan), (6, 99)], ids=str
)
def test_a_damaged_deferral_is_refused(at, value):
    (deferral,) = Parity(ParityTarget(0.9)).defer(np.array([[0.5]]), np.zeros((1, 2)))
    values = deferral.check().values.copy()
    values[at] = value
    with pytest.raises(ValueError, match="deferral"):
        Deferral(values).check()
    with pytest.raises(ValueError, match="deferral"):
        Deferral(deferral.values[:-1]).check()


def test_answers_to_check_are_drawn_evenly_among_those_served_at_any_audit_rate() -> None:
    chances = (np.arange(100_000) + 0.5) / 100_000
    for rate in (0.05, 0.5, 0.97, 1.0):
        values = np.zeros(14)
        values[[1, 2]] = rate, 1.0
        drawn = [(Deferral(values).drawn(chance), chance) for chance in chances.tolist()]
        alone = [deferral.to_check(chance) for deferral, chance in drawn if not deferral.ask]
        assert not any(deferral.to_check(chance) for deferral, chance in drawn if deferral.ask)
        assert len(alone) == 0 or np.mean(alone) == pytest.approx(0.05, abs=1e-3)
