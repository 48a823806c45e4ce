"""Labels of stored predictions are learnt once, whatever the order, the retries and the bound on memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.online.folds import append, learn, named, new_model, partial, ulid
from tests.support.cases import for_each

from manylabel_service import ulid as prediction_ids
from manylabel_service.errors import PredictionExpired, PredictionLabelled, PredictionNotFound
from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.online.state import labelled_ids as labelled
from manylabel_service.online.state import partial_truths
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.labelled_ids import LabelledIds
from manylabel_service.online.state.log_entries import Update
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome
from manylabel_service.online.state.partial_truths import PartialLabels

times = st.integers(0, prediction_ids.MAX_MS)


@given(times, st.binary(min_size=10, max_size=10))
def test_an_id_says_when_it_was_made(ms: int, random: bytes) -> None:
    id = prediction_ids.make(ms, random)
    assert prediction_ids.valid(id)
    assert prediction_ids.timestamp_of(id) == ms


@given(st.lists(st.tuples(times, st.binary(min_size=10, max_size=10)), unique=True))
def test_ids_are_distinct_and_sort_by_age(made: list[tuple[int, bytes]]) -> None:
    ids = [prediction_ids.make(*parts) for parts in sorted(made)]
    assert ids == sorted(set(ids))


def test_the_example_of_the_ulid_specification_is_read() -> None:
    # The example of the ULID specification; its time is 1469918176385.
    assert prediction_ids.timestamp_of("01ARYZ6S41TSV4RRFFQ69G5FAV") == 1469918176385


@for_each("id", ["", "0" * 25, "0" * 27, "8" + "0" * 25, "0" * 26 + "\n", *("0" * 25 + other for other in "ILOUa\né")])
def test_an_invalid_id_is_not_found(id: str) -> None:
    assert not prediction_ids.valid(id)
    with pytest.raises(ValueError, match="26 characters"):
        prediction_ids.timestamp_of(id)
    outcome = learn(new_model(), (named(a=1), ["x"]), prediction_ids=(id,))
    assert isinstance(outcome.answer, PredictionNotFound)


@for_each(("ms", "random"), [(-1, bytes(10)), (2**48, bytes(10)), (0, bytes(9)), (0, bytes(11))])
def test_an_id_is_not_made_of_parts_out_of_range(ms: int, random: bytes) -> None:
    with pytest.raises(ValueError, match="must be"):
        prediction_ids.make(ms, random)


@given(st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=3), max_size=25), st.data())
def test_no_stored_prediction_is_learnt_twice(groups: list[list[int]], data: st.DataObject) -> None:
    """Against a memory without bound; groups are refused as a whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labelled, "MAX_LABELLED", 4)
        model, seen = new_model(), set[str]()
        for group in groups:
            ids = tuple(map(ulid, group))
            outcome = learn(model, *[(named(a=1), ["x"])] * len(ids), prediction_ids=ids)
            repeated = len(set(ids)) < len(ids) or not seen.isdisjoint(ids)
            if isinstance(outcome.answer, UpdateOutcome):
                assert not repeated
                seen.update(ids)
            elif repeated:
                assert isinstance(outcome.answer, PredictionLabelled | PredictionExpired)
            else:  # too old to know
                assert isinstance(outcome.answer, PredictionExpired)
                assert outcome.answer.id < sorted(seen)[-4]
            assert model.updates == len(seen)
            assert sorted(seen)[-4:] == [id for id in sorted(seen) if id in model.labelled]
            if data.draw(st.booleans()):
                model = OnlineModel.from_bytes(model.to_bytes())


def test_a_refusal_names_the_prediction_that_has_its_labels() -> None:
    model = new_model()
    learn(model, (named(a=1), ["x"]), prediction_ids=(ulid(1),))
    for ids in ((ulid(2), ulid(1)), (ulid(2), ulid(3), ulid(3))):
        outcome = learn(model, *[(named(a=1), ["y"])] * len(ids), prediction_ids=ids)
        assert isinstance(outcome.answer, PredictionLabelled)
        assert outcome.answer.id == ids[-1]
    assert (model.labels.names, ulid(2) in model.labelled) == (("x",), False)


def test_an_update_that_is_refused_labels_nothing() -> None:
    model = new_model(labels=["x"])
    assert not isinstance(learn(model, (named(a=1), ["y"]), prediction_ids=(ulid(1),)).answer, UpdateOutcome)
    assert isinstance(learn(model, (named(a=1), ["x"]), prediction_ids=(ulid(1),)).answer, UpdateOutcome)


def test_the_oldest_ids_are_forgotten_and_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelled, "MAX_LABELLED", 2)
    ids = LabelledIds()
    for ms in (5, 9, 7):
        ids.add(ulid(ms))
    assert (ids.floor, len(ids)) == (ulid(5), 2)
    for old in (ulid(5), ulid(4)):
        with pytest.raises(PredictionExpired, match="2 later predictions"):
            ids.check([old], [Labels.all_of(())], list)
    ids.check([ulid(5, random=1), ulid(6)], [Labels.all_of(())] * 2, list)
    ids.add(ulid(6))
    assert ids.floor == ulid(6)  # the oldest is forgotten, not the first added


@for_each("changed", [b"x", b"0" * 27, ulid(1).encode() * 2, (ulid(2) + ulid(1)).encode(), b"\xff" * 26])
def test_forged_bytes_of_labelled_ids_are_refused(changed: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (from several places)
        LabelledIds.from_arrays(np.frombuffer(changed, dtype=np.uint8), False, LabelledIds().parts.to_array())


def part(*names: str) -> Update:
    y = partial(**dict.fromkeys(names, True))
    return Update((Example(named(a=1), y),), prediction_ids=(ulid(1),), served=(np.array([1.0]),))


@pytest.mark.parametrize("first", [(), ("x",)])
def test_a_part_without_labels_is_learnt_once(first: tuple[str, ...]) -> None:
    model = new_model()
    append(model, part(*first))
    for repeated in ((), first):
        assert isinstance(append(model, part(*repeated)).answer, PredictionLabelled)
    assert model.updates == 1
    append(model, part("y"))
    assert model.updates == 2


def test_complete_labels_take_no_further_label() -> None:
    model = new_model()
    learn(model, (named(a=1), ["x"]), prediction_ids=(ulid(1),))
    assert isinstance(append(model, part("y")).answer, PredictionLabelled)
    assert (model.updates, model.labels.names) == (1, ("x",))


def test_a_rollback_undoes_the_metrics_of_partial_labels_but_not_their_record() -> None:
    model = new_model()
    append(model, part("x"))
    states = {model.position: model.to_bytes()}
    append(model, part("y"))
    append(model, Rollback("1"), states)
    assert isinstance(append(model, part("y")).answer, PredictionLabelled)
    append(model, part("z"))
    measured = model.prequential.measures()["cumulative"]
    assert measured["examples"] == 1
    assert measured["micro_f1"] == pytest.approx(2 / 3), "x was answered, z was not; y is as if it had never been told"
    assert OnlineModel.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


def test_the_oldest_partial_labels_are_closed_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    truths = PartialLabels()
    truths.tell("a", [1])
    monkeypatch.setattr(partial_truths, "MAX_BYTES", 3 * truths.nbytes)
    for id in "bcd":
        truths.tell(id, [1])
    assert list(truths) == ["b", "c", "d"]
    truths.tell("d", range(2, 100))
    assert list(truths) == ["d"]
    assert PartialLabels.from_array(truths.to_array()).nbytes == truths.nbytes
