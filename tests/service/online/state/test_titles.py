"""Titles of labels that the learner takes for evidence: how words meet features, and that the log alone decides."""

from typing import Any

import numpy as np
from tests.service.online.folds import append, learn, new_model, sparse
from tests.support.cases import for_each

from manylabel_core.records import RecordEncoder, TextSettings
from manylabel_service.hosting.examples import Features
from manylabel_service.online.state.controls import Describe, Rollback
from manylabel_service.online.state.model import OnlineModel

FIELDS = {"text": {"fields": ["title", "text"]}}
ANIMALS = ("otter", "heron", "beaver", "lynx", "plover", "marten", "osprey", "vole")


def record(text: str, title: str = "", **settings: Any) -> Features:
    x = RecordEncoder(TextSettings(fields=["title", "text"], **settings)).encode({"title": title, "text": text})
    return Features(tuple(x), None, np.array(list(x.values()), dtype=np.float32))


def described(model: OnlineModel, **edits: dict[str, str | None]) -> None:
    append(model, Describe(edits))


def titled(n: int = 200, **spec: Any) -> OnlineModel:
    """A model of labels that are animals, whose names texts have; the last two have not been seen."""
    model = new_model(**FIELDS, **spec)
    described(model, **{f"a{place}": {"title": name.title()} for place, name in enumerate(ANIMALS)})
    for seed in range(n):
        learn(model, (report(seed), [f"a{seed % (len(ANIMALS) - 2)}"]))
    return model


def report(seed: int) -> Features:
    rng = np.random.default_rng(seed)
    animal = ANIMALS[seed % (len(ANIMALS) - 2)]
    noise = " ".join(f"w{number}" for number in rng.integers(0, 60, 8))
    return record(f"{noise} {animal}" if rng.random() < 0.6 else noise, animal if rng.random() < 0.5 else "")


def best(model: OnlineModel, x: Features) -> str:
    (found,) = model.predict([x])
    return max(found.scores, key=found.scores.__getitem__)


def test_an_unseen_label_is_predicted_by_the_words_of_its_title() -> None:
    model = titled()
    assert best(model, record("w1 w2 osprey")) == "a6"
    assert best(model, record("w1 w2", "A vole")) == "a7"
    assert model.predict([record("w1 osprey osprey")])[0].labels == ["a6"]
    described(model, a7={"title": "Short tails", "description": "A marsh bird, the Bittern"}, a6={"title": None})
    assert best(model, record("w1 bittern")) == "a7"
    assert not model.predict([record("w1 osprey osprey")])[0].labels


def test_new_words_are_scored_alike_in_any_request() -> None:
    """In a request for several, words that are new stand in columns of their own."""
    model = titled(60)
    xs = [record("osprey w1 vole nobody"), record("else vole w2", "Osprey"), record("w3"), record("vole", "vole")]
    together = model.predict(xs, probabilities=True)
    assert together == [model.predict([x], probabilities=True)[0] for x in xs]
    for x, found in zip(xs, together, strict=True):
        again = OnlineModel.from_bytes(model.to_bytes())
        answer = learn(again, (x, ["a6"]), want_predictions=True).answer
        threshold, *scores = answer.scores[0].tolist()
        assert [score - threshold for score in scores] == list(found.scores.values())


@for_each(
    ("spec", "title", "x", "meets"),
    [
        ({}, "Otters", {"text=otters": 1.0}, True),
        ({}, "Otters", {"otters": 1.0}, True),
        ({}, "Otters", {"body=otters": 1.0}, False),
        (FIELDS, "Otters", {"title=otters": 1.0}, True),
        (FIELDS, "Otters", {"otters": 1.0}, False),
        (FIELDS, "Otters", {"section=otters": 1.0}, False),
        ({"text": {"fields": ["title"], "chars": 5}}, "Otters", {"title=*tters": 1.0}, True),
        ({"text": {"fields": ["title"], "ngrams": 2}}, "River otters", {"title=river otters": 1.0}, True),
        ({"features": ["otters", "b"]}, "Otters", {"otters": 1.0}, True),
        ({"features": 2}, "Otters", {}, False),
        ({"limits": {"features": {"most": 9, "policy": "hash"}}}, "Otters", {"otters": 1.0}, False),
        ({"algorithm": "kernel_falt", "params": {"budget": 4}}, "Otters", {"otters": 1.0}, True),
        ({"algorithm": "passive_aggressive"}, "Otters", {"otters": 1.0}, False),
    ],
)
def test_which_features_match_a_word_of_a_title(
    spec: dict[str, Any], title: str, x: dict[str, float], meets: bool
) -> None:
    model = new_model(**spec)
    described(model, p={"title": title}, q={"title": "Herons"})
    given = Features(tuple(x), None, np.ones(len(x), np.float32)) if x else sparse(1)
    for example in (given, given):  # before it was learnt, and after
        scores = model.predict([example])[0].scores
        assert (scores["p"] > scores["q"]) == meets
        learn(model, (example, []))


def test_a_rollback_keeps_titles_and_their_words() -> None:
    model = titled(40)
    states = {model.position: model.to_bytes()}
    described(model, a6={"title": "Kite"}, a7={"title": None})
    learn(model, (record("kite w1"), ["a0"]))
    append(model, Rollback(next(iter(states))), states)
    assert best(model, record("kite")) == "a6"
    assert OnlineModel.from_bytes(model.to_bytes()).predict([record("kite")]) == model.predict([record("kite")])
    fresh = new_model(**FIELDS)
    start = {fresh.position: fresh.to_bytes()}
    learn(fresh, (record("kite"), ["p"]))
    described(fresh, p={"title": "Kite"}, q={"title": "Vole"})
    append(fresh, Rollback(next(iter(start))), start)
    scores = fresh.predict([record("kite")])[0].scores
    assert scores["p"] > scores["q"]


def test_the_words_of_titles_count_in_the_bytes() -> None:
    model = titled(10)
    assert model.titles is not None
    before, learner = model.nbytes, model.learner.pipeline.nbytes
    edit: dict[str, str | None] = {"description": " ".join(f"word{number}" for number in range(400))}
    most = model.titles.nbytes_of([edit])
    described(model, a0=edit)
    assert learner + 100 * 24 < model.learner.pipeline.nbytes < learner + most
    assert model.nbytes > before + 100 * 36
    assert len(model.learner.pipeline.arrays()["stack.titles.words"]) == len(ANIMALS) + 99
