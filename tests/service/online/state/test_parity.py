"""A promise of parity: deferrals, audits and states, with the same bits on all replicas."""

from typing import Any

import numpy as np
import pytest
from tests.service.online.folds import append, fold, forged, new_model, ulid
from tests.service.online.state.test_promises import EASY, rows
from tests.support.cases import for_each

from manylabel_core.label_structure import Group
from manylabel_core.parity import Deferral, ParityTarget
from manylabel_core.promise import Target
from manylabel_core.state import DamagedState
from manylabel_service import ulid as ids
from manylabel_service.errors import InvalidField, UnreadableEntry
from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.online.prediction_store import StoredPrediction, decode_kept, encode_kept
from manylabel_service.online.state import promises
from manylabel_service.online.state.apply import LogEntry
from manylabel_service.online.state.controls import Regroup, Relabel, Rollback, Served, SetPromise
from manylabel_service.online.state.corrections import Corrects
from manylabel_service.online.state.log_entries import Update, as_followed, decode, encode
from manylabel_service.online.state.model import OnlineModel

TARGET = ParityTarget(0.8, audit_rate=0.2)
TAUGHT: dict[str, Any] = {"sources": {"machine": 1.0}}
FOREVER = 2**50


def promising(target: ParityTarget | None = TARGET, precision: Target | None = None, **spec: Any) -> OnlineModel:
    model = new_model(**{**TAUGHT, **spec})
    append(model, SetPromise(precision, parity=target))
    return model


def serve(model: OnlineModel, example: Example, id: str) -> StoredPrediction:
    """Predict an example to be stored with an id; return it as it is read again."""
    (one,) = model.predict([example.x])
    drawn = one.drawn(id)
    return decode_kept(encode_kept(StoredPrediction(example.x, one.margins, None, None, one.decision, drawn.deferral)))


def deferral_of(stored: StoredPrediction) -> Deferral:
    assert stored.deferral is not None
    return stored.deferral


def served(*audits: tuple[str, float], now: int = 0, expires: int = FOREVER, version: int = 1) -> Served:
    return Served(version, audits, (0, 0, 0), now, expires)


def told(
    example: Example, stored: StoredPrediction, id: str, source: Any = "machine", y: Labels | None = None
) -> Update:
    """The labels of a stored prediction."""
    one = Example(example.x, example.y if y is None else y, 1.0, source)
    return Update(
        (one,),
        prediction_ids=(id,),
        served=(stored.scores,),
        decisions=None if stored.decision is None else (stored.decision,),
        deferrals=(stored.deferral,),
    )


def account_of(model: OnlineModel) -> Any:
    return model.measures()["promise"]["parity"]


def run(model: OnlineModel, examples: list[Example], add: Any = append, first: int = 1) -> list[bool]:
    """Run the closed loop; return whether each example was answered alone."""
    alone = []
    for number, example in enumerate(examples, first):
        id = ulid(number)
        stored = serve(model, example, id)
        deferral = deferral_of(stored)
        alone.append(not deferral.ask)
        audits = [(id, deferral.rate)] if deferral.ask and deferral.sure else []
        counts = (int(not deferral.ask), 0, int(deferral.ask and not deferral.sure))
        add(model, Served(deferral.version, tuple(audits), counts, number, FOREVER))
        if deferral.ask:
            add(model, told(example, stored, id))
    return alone


def test_the_closed_loop_answers_what_it_is_sure_of_within_the_promise() -> None:
    model = promising()
    examples = rows(1200)
    alone = run(model, examples)
    account = account_of(model)
    assert account["state"] == "open"
    assert account["answered"] == sum(alone) > 200
    assert account["asked"] == 1200 - sum(alone) == model.updates
    assert account["audits"] > 20
    assert (account["audits_waiting"], account["audits_without_answer"]) == (0, 0)
    assert account["calls_saved"] == sum(alone) / 1200
    assert account["estimated_wrong"] <= account["allowed"]
    assert not any(alone[:20])
    assert sum(alone[600:]) > sum(alone[:600])


def test_labels_that_only_forgotten_examples_had_do_not_count() -> None:
    """The scores that were served are those of all labels of that time."""
    model, example = promising(), rows(1)[0]
    id = ulid(1)
    stored = serve(model, example, id)
    append(model, served((id, deferral_of(stored).rate)))
    append(model, told(example, stored._replace(scores=np.full(9, 1.0)), id))
    assert account_of(model)["audits_waiting"] == 0
    assert OnlineModel.from_bytes(model.to_bytes()).checksum() == model.checksum()


def test_both_promises_stand_side_by_side() -> None:
    both, alone = promising(precision=EASY), promising(TARGET)
    learnt = rows(200)
    for model in both, alone:
        run(model, learnt)
        append(model, Update(tuple(rows(300, seed=1))))
    assert account_of(both) == account_of(alone)
    assert both.measures()["promise"]["total"]["examples"] == 300  # people's
    assert both.to_bytes() != alone.to_bytes()
    (one,) = both.predict([learnt[0].x])
    assert one.auto is not None
    assert one.undrawn is not None


def test_an_audit_is_drawn_by_the_id_only() -> None:
    (one,) = promising().predict([rows(1)[0].x])
    assert one.undrawn is not None
    values = one.undrawn.values.copy()
    values[[1, 2]] = 0.25, 1.0  # a sure one
    some = [ids.make(n, n.to_bytes(10, "big")) for n in range(4000)]
    asked = [Deferral(values).drawn(ids.chance(id)).ask for id in some]
    assert 0.22 < np.mean(asked) < 0.28
    assert asked == [Deferral(values).drawn(ids.chance(id)).ask for id in some]


def sure(model: OnlineModel, stored: StoredPrediction, rate: float = 1.0) -> StoredPrediction:
    """Return a stored prediction as if it had been an audit of a sure example."""
    values = deferral_of(stored).values.copy()
    values[1:4] = rate, 1.0, 1.0
    return stored._replace(deferral=Deferral(values).check())


def settled(model: OnlineModel) -> tuple[float, ...]:
    """Return the account, and the number of audits that expired."""
    parity = model.promises.parity
    assert parity is not None
    return float(parity.memory.numbers[0]), account_of(model)["audits_without_answer"]


def test_an_audit_without_an_answer_counts_as_wrong_when_it_expires_and_once() -> None:
    model = promising(TARGET._replace(audit_rate=0.05))
    run(model, rows(300))
    (example,) = rows(1, seed=1)
    late, never, answered = ulid(1000), ulid(1001), ulid(1002)
    append(model, served((late, 0.25), (never, 0.25), (answered, 0.25), now=10, expires=20))
    before = settled(model)
    stored = sure(model, serve(model, example, answered), 0.25)
    right = Labels.all_of([name for name, s in zip(model.labels.names, stored.scores, strict=False) if s > 0])
    append(model, told(example, stored, answered, y=right))
    assert settled(model) == (before[0] + 0.2 / 0.25, 0)
    append(model, served(now=19))
    assert (settled(model)[1], account_of(model)["audits_waiting"]) == (0, 2)
    account, _ = settled(model)
    append(model, served(now=20))
    lost = max(max(account - 0.8 / 0.25, 1.6) - 0.8 / 0.25, 1.6)
    assert settled(model) == (pytest.approx(lost), 2)
    append(model, told(example, sure(model, serve(model, example, late), 0.25), late, y=right))
    assert settled(model) == (pytest.approx(lost), 2)  # learnt, but not counted again


def test_only_complete_labels_of_the_teacher_count() -> None:
    model = promising()
    (example,) = rows(1)
    append(model, Update(tuple(rows(50))))
    id, other = ulid(100), ulid(101)
    append(model, served((id, 1.0), (other, 1.0)))
    before = model.promises.to_array()
    append(model, told(example, sure(model, serve(model, example, id)), id, source="human"))
    np.testing.assert_array_equal(model.promises.to_array(), before)
    unknown = Labels(("p",), np.array([1], dtype=np.int8), complete=False)
    append(model, told(example, sure(model, serve(model, example, other)), other, y=unknown))
    np.testing.assert_array_equal(model.promises.to_array(), before)


def answered(stored: StoredPrediction) -> StoredPrediction:
    """Return a stored prediction as if it had been served without the teacher."""
    values = deferral_of(stored).values.copy()
    values[1:4] = 0.5, 1.0, 0.0
    return stored._replace(deferral=Deferral(values).check())


def found(model: OnlineModel) -> tuple[int, ...]:
    """Return what people found: right and wrong answers of the model, and of the teacher."""
    people = account_of(model)["people"]
    return tuple(people[f"{who}_{what}"] for who in ("model", "teacher") for what in ("right", "wrong"))


def part(**signs: int) -> Labels:
    return Labels(tuple(signs), np.array([*signs.values()], dtype=np.int8), complete=False)


def test_people_tell_whether_the_model_was_wrong_by_the_first_labels_of_an_answer() -> None:
    model = promising()
    append(model, Update(tuple(rows(300))))
    x = rows(1)[0].x._replace(values=np.array([1, 0, 0, 0, 0], dtype=np.float32))  # p
    example = Example(x, Labels.all_of([]))
    assert model.predict([x])[0].labels == ["p"]
    before = settled(model)
    for number, (y, due) in enumerate(
        [
            (Labels.all_of(["p"]), (1, 0)),
            (Labels.all_of(["p", "new"]), (1, 1)),
            (Labels.all_of([]), (1, 2)),
            (part(p=1, q=-1), (1, 2)),  # the others may be wrong
            (part(p=-1), (1, 3)),
            (part(q=1), (1, 4)),
        ]
    ):
        id = ulid(number)
        stored = answered(serve(model, example, id))
        append(model, told(example, stored, id, source="human", y=y))
        assert found(model) == (*due, 0, 0)
        if not y.complete:
            append(model, told(example, stored, id, source="human", y=part(r=1)))
            assert found(model) == (*due, 0, 0)
    for id, stored, source in (
        (ulid(10), sure(model, serve(model, example, ulid(10))), "human"),  # the teacher was asked
        (ulid(11), answered(serve(model, example, ulid(11))), "rule"),
    ):
        append(model, told(example, stored, id, source=source))
    assert found(model) == (1, 4, 0, 0)
    assert settled(model) == before
    append(model, SetPromise(None, parity=ParityTarget(0.9)))
    append(model, told(example, answered(serve(model, example, ulid(20))), ulid(20), source="human"))
    assert found(model) == (0, 1, 0, 0)
    append(model, told(example, stored, ulid(21), source="human"))  # of the earlier promise
    assert found(model) == (0, 1, 0, 0)


def test_a_first_correction_tells_whether_the_teacher_was_wrong() -> None:
    model = promising()
    (example,) = rows(1)
    other = Labels.all_of(["r"]) if example.y.names != ("r",) else Labels.all_of([])

    def correct(at: str, y: Labels | None, labels: tuple[str, ...] | None = None, source: Any = "machine") -> None:
        examples = () if y is None else (example._replace(y=y),)
        append(model, Update(examples, corrects=Corrects(at, 0, labels, source)))

    def learn(source: Any = "machine") -> str:
        append(model, Update((example._replace(source=source),)))
        return model.position

    append(model, Update(tuple(rows(20))))
    before = settled(model)
    first, second, third, fourth = (learn() for _ in range(4))
    correct(first, None)
    assert found(model) == (0, 0, 1, 0)
    correct(first, other)  # the person changes their mind
    correct(second, other)
    assert found(model) == (0, 0, 1, 1)
    correct(second, other, source="human")
    correct(second, None, source="human")
    correct(third, None, ("p",))  # the other labels may be wrong
    assert found(model) == (0, 0, 1, 1)
    correct(third, other, ("r",))
    assert found(model) == (0, 0, 1, 2)
    correct(learn("human"), other, source="human")
    correct(learn("rule"), other, source="rule")
    fold(model, [LogEntry("50", as_followed(Update((), corrects=Corrects(fourth, 0, None, "machine"))))])
    assert found(model) == (0, 0, 1, 2)
    assert settled(model) == before


def test_people_are_not_above_a_human_teacher() -> None:
    model = promising(TARGET._replace(of="human"))
    (example,) = rows(1)
    append(model, Update((example,)))
    append(model, Update((), corrects=Corrects(model.position, 0, None)))
    append(model, told(example, answered(serve(model, example, ulid(1))), ulid(1), source="human"))
    assert found(model) == (0, 0, 0, 0)
    (one,) = model.predict([example.x])
    assert one.undrawn is not None
    values = one.undrawn.values.copy()
    values[1:3] = 0.5, 1.0
    assert not one.undrawn._replace(values=values).drawn(0.999_999).to_check(0.999_999)
    assert Deferral(values).drawn(0.999_999).to_check(0.999_999)  # of a machine


def test_the_share_of_right_answers_has_an_interval_by_those_drawn_for_a_check() -> None:
    model = promising()
    append(model, Update(tuple(rows(300))))
    drawn = 0
    for number, example in enumerate(rows(200, seed=3)):
        stored = answered(serve(model, example, ulid(number)))
        drawn += deferral_of(stored).to_check(ids.chance(ulid(number)))
        append(model, told(example, stored, ulid(number), source="human"))
    people = account_of(model)["people"]
    assert people["checked"] == drawn > 2
    assert people["model_right"] + people["model_wrong"] == 200
    assert people["right_low"] < people["right_share"] <= people["right_high"] <= 1


def test_a_deferral_of_an_earlier_promise_is_not_counted() -> None:
    model = promising()
    run(model, rows(200))
    (example,) = rows(1)
    old = sure(model, serve(model, example, ulid(500)))
    append(model, served((ulid(500), 1.0)))
    append(model, SetPromise(None, parity=ParityTarget(0.9)))
    before = model.promises.to_array()
    append(model, served((ulid(501), 1.0)))
    append(model, told(example, old, ulid(500)))
    np.testing.assert_array_equal(model.promises.to_array(), before)
    append(model, SetPromise(None))
    append(model, served((ulid(502), 1.0)))
    assert "promise" not in model.measures()


def differences(model: OnlineModel) -> dict[str, tuple[int, int]]:
    return {one["label"]: (one["added"], one["missed"]) for one in account_of(model)["labels"]}


def test_the_whole_answer_is_compared_by_current_names_with_parents_and_without_paused_labels() -> None:
    model = promising()
    append(model, Update(tuple(rows(300))))
    x = rows(1)[0].x._replace(values=np.array([1, 0, 0, 0, 0], dtype=np.float32))  # p
    assert model.predict([x])[0].labels == ["p"]
    cases = [
        (["p"], {}),
        (["p", "new"], {"new": (0, 1)}),
        ([], {"p": (1, 0), "new": (0, 1)}),
    ]
    stored = sure(model, serve(model, Example(x, Labels.all_of([])), ulid(0)))
    for number, (names, due) in enumerate(cases):
        append(model, served((ulid(number), 1.0)))
        append(model, told(Example(x, Labels.all_of(names)), stored, ulid(number)))
        assert differences(model) == due
    append(model, Relabel("new", None, paused=True))
    append(model, Relabel("p", "old p"))
    append(model, Regroup((Group("g", ("r", "s"), "at_most_one"),), {"old p": "q"}))
    stored = sure(model, serve(model, Example(x, Labels.all_of([])), ulid(10)))
    append(model, Relabel("s", None, paused=True))
    append(model, served((ulid(10), 1.0)))
    append(model, told(Example(x, Labels.all_of(["p", "s"])), stored, ulid(10)))  # implies q, as the answer does
    assert differences(model) == {"old p": (1, 0), "new": (0, 1)}


def test_a_label_beyond_the_limit_counts_as_missed() -> None:
    model = promising(limits={"labels": {"most": 5, "policy": "ignore"}})
    append(model, Update(tuple(rows(300))))
    x = rows(1)[0].x._replace(values=np.array([1, 0, 0, 0, 0], dtype=np.float32))
    stored = sure(model, serve(model, Example(x, Labels.all_of([])), ulid(1)))
    append(model, served((ulid(1), 1.0)))
    append(model, told(Example(x, Labels.all_of(["p", "sixth"])), stored, ulid(1)))
    assert (model.ignored["labels"], settled(model)[0]) == (1, 1.6)


def log_of(n: int = 400) -> tuple[list[LogEntry], dict[str, bytes]]:
    """Return a log with promises that change, audits that expire, a pause and a rollback; and snapshots by position."""
    model, log, states = new_model(**TAUGHT), list[LogEntry](), dict[str, bytes]()

    def add(_: OnlineModel, change: Any) -> None:
        log.append(LogEntry(str(len(log) + 1), decode(encode(change))))
        fold(model, log[-1:], states=states)

    add(model, SetPromise(EASY, parity=TARGET))
    for number, example in enumerate(rows(n)):
        if number % 50 == 20:
            states[model.position] = model.to_bytes()
        (alone,) = run(model, [example], add, first=1 + number)
        if alone and number % 3 == 0:
            id = ulid(1 + number)
            add(model, told(example, serve(model, example, id), id, source="human", y=Labels.all_of(["p"])))
        if not alone and number % 5 == 1:
            corrected = () if number % 2 else (example._replace(y=Labels.all_of(["p"])),)
            add(model, Update(corrected, corrects=Corrects(model.position, 0, None, "machine")))
        if number % 40 == 7:
            version = 1 if number <= n // 4 else 2
            add(model, served((ulid(5000 + number), 0.5), now=number, expires=number + 60, version=version))
        if number == n // 4:
            add(model, SetPromise(None, parity=ParityTarget(0.7, agreement="f1", audit_rate=0.2)))
            add(model, Relabel("r", None, paused=True))
        if number == n // 2:
            add(model, Rollback(max(states, key=int)))
    return log, states


def test_replay_gives_the_same_bits_in_any_blocks_and_after_restores() -> None:
    log, states = log_of()
    whole = new_model(**TAUGHT)
    outcomes = fold(whole, log, states=states)
    account = account_of(whole)
    assert account["answered"] > 50
    assert account["audits_without_answer"] > 2
    assert account["audits_waiting"] > 0
    assert min(found(whole)) > 1
    openings = [opened for outcome in outcomes for opened in outcome.openings]
    assert openings[0] is True
    for size in (1, 7):
        model = new_model(**TAUGHT)
        again = fold(model, log, max_examples=size, states=states)
        assert model.to_bytes() == whole.to_bytes()
        assert [opened for outcome in again for opened in outcome.openings] == openings
    model = new_model(**TAUGHT)
    for number, entry in enumerate(log):
        fold(model, [entry], states=states)
        if number % 10 == 0:
            model = OnlineModel.from_bytes(model.to_bytes())
    assert model.to_bytes() == whole.to_bytes()


def test_a_rollback_undoes_the_account_but_not_which_audits_wait() -> None:
    model = promising()
    run(model, rows(300))
    append(model, served((ulid(1000), 0.5), (ulid(1001), 0.5)))
    state, account = OnlineModel.from_bytes(model.to_bytes()).to_bytes(), settled(model)
    position = model.position
    (example,) = rows(1)
    append(model, told(example, sure(model, serve(model, example, ulid(1000)), 0.5), ulid(1000), y=Labels.all_of([])))
    append(model, served((ulid(1002), 0.5)))
    assert settled(model) != account
    append(model, Rollback(position), {position: state})
    assert settled(model) == account
    assert [*model.promises.waiting] == [ulid(1001), ulid(1002)]
    append(model, SetPromise(None, parity=ParityTarget(0.9)))
    append(model, Rollback(position), {position: state})
    assert model.promises.parity is not None
    assert model.promises.parity.target == ParityTarget(0.9)
    assert account_of(model)["answered"] == 0


def test_a_new_model_from_a_state_has_the_account_without_the_audits_that_wait() -> None:
    model = promising()
    run(model, rows(300))
    append(model, served((ulid(1000), 0.5)))
    for other in (
        OnlineModel.from_bytes(model.seed("other")),
        OnlineModel.from_bytes(model.to_bytes(), requests=False),
    ):
        assert account_of(other) == {**account_of(model), "audits_waiting": 0}


def test_a_follower_counts_nothing_of_what_its_leader_served() -> None:
    model = promising()
    before = account_of(model)
    changes = [served((ulid(1), 0.5)), told(rows(1)[0], serve(model, rows(1)[0], ulid(1)), ulid(1))]
    for number, change in enumerate(changes, 2):
        fold(model, [LogEntry(str(number), as_followed(change))])
    assert account_of(model) == before


def test_the_oldest_audits_count_as_wrong_above_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promises, "MAX_WAITING", 3)
    model = promising()
    for number in range(5):
        append(model, served((ulid(number), 1.0)))
    assert account_of(model)["audits_without_answer"] == 2
    assert [*model.promises.waiting] == [ulid(number) for number in range(2, 5)]


@for_each(
    ("target", "path"),
    [
        (ParityTarget(1.0), ("parity",)),
        (ParityTarget(1), ("parity",)),
        (ParityTarget(float("nan")), ("parity",)),
        (ParityTarget(0.9, "robot"), ("of",)),
        (ParityTarget(0.9, agreement="jaccard"), ("agreement",)),
        (ParityTarget(0.9, audit_rate=0.001), ("audit_rate",)),
    ],
)
def test_invalid_targets_are_refused(target: ParityTarget, path: tuple[str]) -> None:
    model = promising()
    before = model.to_bytes()
    with pytest.raises(InvalidField) as caught:
        model.set_promise(None, target)
    assert caught.value.path == path
    assert model.to_bytes() == before
    with pytest.raises(UnreadableEntry):
        decode(encode(SetPromise(None, parity=target)))


def test_a_teacher_that_the_model_does_not_learn_from_is_refused() -> None:
    outcome = append(new_model(), SetPromise(None, parity=TARGET))
    assert isinstance(outcome.answer, InvalidField)
    assert outcome.answer.path == ("of",)
    outcome = append(new_model(params={"calibrate": False}, **TAUGHT), SetPromise(None, parity=TARGET))
    assert isinstance(outcome.answer, InvalidField)


def test_a_deferral_is_read_as_it_was_written_and_a_damaged_one_is_refused() -> None:
    model = promising(precision=EASY)
    (example,) = rows(1)
    stored = serve(model, example, ulid(1))
    entry = told(example, stored, ulid(1))
    read = decode(encode(entry))
    assert isinstance(read, Update)
    np.testing.assert_array_equal(read.deferrals[0].values, deferral_of(stored).values)  # type: ignore[index, union-attr]
    np.testing.assert_array_equal(read.decisions[0].values, stored.decision.values)  # type: ignore[index, union-attr]
    values = deferral_of(stored).values.copy()
    values[3] = 7
    with pytest.raises(UnreadableEntry):
        decode(encode(entry._replace(deferrals=(Deferral(values),))))


@for_each(
    "entry",
    [
        Served(1, ((ulid(1), 0.001),), (0, 0, 0), 0, 1),
        Served(1, (("no id", 0.5),), (0, 0, 0), 0, 1),
        Served(1, (), (0, 0, -1), 0, 1),
        Served(-1, (), (0, 0, 0), 0, 1),
    ],
)
def test_a_damaged_entry_of_served_predictions_is_refused(entry: Served) -> None:
    with pytest.raises(UnreadableEntry):
        decode(encode(entry))


@for_each(
    "packed",
    [
        [0, None, None, 1],
        [0, None, None, -1, None, None, []],
        [0, None, None, 1, [2.0, "machine", "exact", 0.05], b"", []],
        [0, None, None, 1, [0.9, "machine", "exact", 0.05], b"", []],
    ],
)
def test_a_state_with_a_forged_parity_is_refused(packed: Any) -> None:
    with pytest.raises(DamagedState, match="promise"):
        OnlineModel.from_bytes(forged(promising(), promise=packed))
