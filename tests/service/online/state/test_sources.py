"""Labels of people, machines and rules: learning, metrics and promises for each source."""

from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np
import pytest
from tests.service.online.folds import append, forged, named, new_model, ulid
from tests.service.online.state.test_promises import applied, promising, rows
from tests.support.cases import for_each

from manylabel_core.state import DamagedState, State
from manylabel_service.errors import UnreadableEntry
from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.online.state.log_entries import Update, decode, encode
from manylabel_service.online.state.model import OnlineModel

SOURCES = ("human", "machine", "rule")


def update(model: OnlineModel, *examples: Example, **kwargs: Any) -> Any:
    return append(model, Update(examples, **kwargs))


def of(source: str, examples: Sequence[Example]) -> list[Example]:
    return [example._replace(source=source) for example in examples]


def learner_of(model: OnlineModel) -> dict[str, Any]:
    arrays, _ = State.from_bytes(bytes(model.to_bytes()), 2**18)
    return {name: array.tolist() for name, array in arrays.items() if name.startswith(("learner.", "prequential."))}


def test_labels_of_machines_are_learnt_only_if_the_spec_says_so() -> None:
    model = new_model()
    update(model, *rows(40))
    before, names, updates = learner_of(model), model.features.names.names, model.updates
    stranger = Example(named(x9=1.0), Labels.all_of(["new", "p"]), source="machine")
    outcome = update(model, *of("machine", rows(20, seed=1)), stranger, want_predictions=True)
    assert (outcome.learnt, outcome.replayed, model.updates) == (0, False, updates)
    assert (learner_of(model), model.features.names.names) == (before, names)
    assert "new" not in model.labels
    assert outcome.answer.predictions(model.labels.names)[0] == model.predict([rows(20, seed=1)[0].x])[0]
    found = model.measures()["by_source"]["machine"]
    assert (found["examples"], found["learnt"]) == (21, 0)
    willing = new_model(sources={"machine": 1.0})
    update(willing, *rows(40))
    assert update(willing, *of("machine", rows(20, seed=1))).learnt == 20
    people = new_model()
    update(people, *rows(40), *rows(20, seed=1))
    assert willing.predict([rows(1)[0].x])[0].scores == people.predict([rows(1)[0].x])[0].scores


def test_a_factor_multiplies_the_weight() -> None:
    half, weighted = new_model(sources={"rule": 0.5}), new_model()
    some = rows(60)
    update(half, *of("rule", [example._replace(weight=3.0) for example in some]))
    update(weighted, *[example._replace(weight=1.5) for example in some])
    x = some[0].x
    assert half.predict([x])[0].scores == weighted.predict([x])[0].scores
    assert half.updates == 60
    assert half.measures()["cumulative"]["examples"] == 0
    assert half.measures()["by_source"] == {"rule": half.measures()["by_source"]["rule"]}


def test_only_labels_of_people_are_measured_and_promised() -> None:
    model, twin = promising(), promising()
    human = rows(30, seed=2)
    mixed = [example for triple in zip(of("machine", rows(30, seed=3)), human, strict=True) for example in triple]
    before = applied(model)
    outcome = update(model, *mixed, want_predictions=True)
    update(twin, *human)
    assert applied(model) == applied(twin) > before
    assert model.measures()["cumulative"] == twin.measures()["cumulative"]
    np.testing.assert_array_equal(model.promises.to_array(), twin.promises.to_array())
    answered = outcome.answer.predictions(model.labels.names)
    assert len(answered) == 60
    assert all(one.auto is not None for one in answered)


def test_the_agreement_with_a_source_compares_served_predictions() -> None:
    model = new_model()
    update(model, *rows(100))
    examples = rows(20, seed=4)
    predicted = [set(one.labels) for one in model.predict([example.x for example in examples])]
    update(model, *of("machine", examples))
    hits = sum(len(labels & set(e.y.names)) for labels, e in zip(predicted, examples, strict=True))
    n_predicted, n_true = sum(map(len, predicted)), sum(len(e.y.names) for e in examples)
    found = model.measures()["by_source"]["machine"]
    assert (found["precision"], found["recall"]) == (hits / n_predicted, hits / n_true)
    assert found["micro_f1"] == 2 * hits / (n_predicted + n_true)
    served = np.array([1.0, -1.0])  # p is predicted, another label not
    late: dict[str, Any] = {"prediction_ids": (ulid(1),), "served": (served,)}
    first, second = model.labels.names[:2]
    y = Labels((first, second), np.array([-1, 1], dtype=np.int8), complete=False)
    update(model, Example(examples[0].x, y, source="rule"), **late)
    rule = model.measures()["by_source"]["rule"]
    assert (rule["examples"], rule["learnt"], rule["precision"], rule["recall"]) == (1, 1, 0.0, 0.0)


def test_an_entry_keeps_the_source_and_a_damaged_one_is_refused() -> None:
    for source in SOURCES:
        (example,) = rows(1)
        read = decode(encode(Update((example._replace(source=source),))))
        assert isinstance(read, Update)
        assert read.examples[0].source == source
    packed = msgpack.unpackb(encode(Update((example._replace(source="rule"),))))
    packed[-1][0][-1] = "robot"
    with pytest.raises(UnreadableEntry, match="source"):
        decode(msgpack.packb(packed))


@for_each("counts", [[[1, 2, 0, 0, 0], [0] * 5], [[0] * 5, [-1, 0, 0, 0, 0]], [[0] * 4] * 2])
def test_a_state_with_forged_counts_of_sources_is_refused(counts: Any) -> None:
    with pytest.raises(DamagedState, match="sources"):
        OnlineModel.from_bytes(forged(promising(100), sources=np.array(counts, dtype=np.int64)))
