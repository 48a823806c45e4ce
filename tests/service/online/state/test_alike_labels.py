"""Labels of a model that differ only in case, spaces or Unicode form."""

from tests.service.online.folds import append, learn, named, new_model

from manylabel_service.online.state.controls import Describe, Relabel
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.updates.events import events_of

X = named(a=1)


def test_a_model_lists_alike_labels_the_most_frequent_first() -> None:
    model = new_model()
    learn(model, (X, ["sport"]), (X, ["Sport "]), (X, ["Sport "]), (X, ["news"]))
    assert model.alike_labels() == [["Sport ", "sport"]]
    again = OnlineModel.from_bytes(model.to_bytes())
    assert again.alike_labels() == model.alike_labels()
    append(model, Relabel("sport", "Sport ", merges=True))
    assert model.alike_labels() == [], "a merged label is retired"
    append(model, Relabel("news", "SPORT"))
    assert model.alike_labels() == [["Sport ", "SPORT"]], "a label that is renamed"


def test_an_event_of_a_new_label_names_an_earlier_one_that_it_is_alike() -> None:
    """However the examples are grouped, and never the other way round."""
    together, apart = new_model(), new_model()
    results = [learn(together, (X, ["sport"]), (X, ["Sport"]))]
    parts = [learn(apart, (X, ["sport"])), learn(apart, (X, ["Sport"]))]
    for found in (results, parts):
        events = [event.data for result in found for event in events_of(result) if event.kind == "label"]
        assert [(data["label"], data.get("alike")) for data in events] == [("sport", None), ("Sport", "sport")]
    declared = append(apart, Describe({"SPORT": {"title": "Sport"}}))
    assert [change.alike for change in declared.label_changes] == ["sport"]
    append(apart, Relabel("sport", None))
    assert [change.alike for change in learn(apart, (X, ["spOrt"])).label_changes] == ["Sport"], "retired ones are not"
