"""The share of words in new texts that a model had never seen."""

from typing import Any

import pytest
from tests.service.online.folds import append, dense, forged, learn, named, new_model
from tests.support.cases import for_each

from manylabel_core.state import DamagedState
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.model import OnlineModel

TEXT = {"fields": ["title", "about.it"]}


@pytest.fixture(autouse=True)
def _from_the_third_to_the_fifth(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FIRST", 3), ("LAST", 5), ("MIN_WORDS", 5)):
        monkeypatch.setattr(f"manylabel_service.online.state.unseen_words.{name}", value)


def tell(model: OnlineModel, *names: str) -> None:
    learn(model, (named(**dict.fromkeys(names, 1.0)), ["p"]))


def taught(**spec: Any) -> OnlineModel:
    """Return a model that has counted eight words, of which three were new."""
    model = new_model(**{"text": TEXT, **spec})
    for _ in range(2):
        tell(model, "title=a", "title=b", "about.it=c", "colour=red")
    tell(model, "title=a", "title=b", "title=new", "title=a new", "colour=blue", "size")
    assert model.words.share is None, "three words are not enough"
    tell(model, "title=a", "about.it=a", "title=new", "about.it=new")
    learn(model, (named(**{"title=b": 1.0}), ["p"]))
    return model


def test_only_words_of_texts_are_counted() -> None:
    model = taught()
    assert model.words.share == 3 / 8
    tell(model, *(f"title=more{n}" for n in range(9)))
    assert model.words.share == 3 / 8, "later examples do not count"


def test_without_named_fields_bare_texts_are_counted() -> None:
    model = new_model()
    for names in (["text=a"], [], ["text=a", "text=b", "word=c"], [f"text={n}" for n in range(3)]):
        tell(model, *names)
    assert model.words.share == 4 / 5


@pytest.mark.parametrize(
    "spec",
    [
        {"text": {**TEXT, "chars": 5}},
        {"limits": {"features": {"most": 100, "policy": "hash"}}},
        {"limits": {"features": {"most": 100, "policy": "ignore"}}},
    ],
)
def test_some_models_do_not_count(spec: dict[str, Any]) -> None:
    assert taught(**spec).words.share is None


def test_numbers_are_no_words() -> None:
    model = new_model()
    for _ in range(5):
        learn(model, (dense(*range(9)), ["p"]))
    assert model.words.share is None


def test_the_counts_are_a_part_of_the_state() -> None:
    model = taught()
    for again in (OnlineModel.from_bytes(model.to_bytes()), OnlineModel.from_bytes(model.seed("seed"))):
        assert again.words.share == 3 / 8
    model = new_model(text=TEXT)
    states = {model.position: model.to_bytes()}
    for _ in range(4):
        tell(model, *(f"title={n}" for n in range(3)))
    assert model.words.share == 0
    append(model, Rollback("0"), states)
    assert model.words.share is None


@for_each("wrong", [None, [1, 1], [1, 1, 1.0], [6, 1, 1], [-1, 1, 1], [1, 1, 2], [1, 1, -1], [1, 2**60, 1]])
def test_a_state_with_forged_counts_of_words_is_refused(wrong: object) -> None:
    with pytest.raises(DamagedState, match="words"):
        OnlineModel.from_bytes(forged(taught(), {"words": wrong}))
