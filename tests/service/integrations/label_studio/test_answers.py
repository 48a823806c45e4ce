"""Annotations as labels, predictions as results, and names of versions."""

from typing import Any

import pytest
from tests.support.cases import for_each

from manylabel_service.hosting.predictions import Prediction
from manylabel_service.integrations.label_studio.config import LabelConfig, read_config
from manylabel_service.integrations.label_studio.translation import (
    AnnotationRefused,
    annotation_key,
    milestones,
    model_versions,
    shown,
    truth,
)


def config(*questions: str) -> LabelConfig:
    return read_config(f"<View>{''.join(questions)}</View>")


def asked(name: str, choice: str, *choices: str) -> str:
    listed = "".join(f'<Choice value="{one}"/>' for one in choices)
    return f'<Choices name="{name}" toName="text" choice="{choice}">{listed}</Choices>'


def answered(name: str, *choices: str) -> dict[str, Any]:
    return {"from_name": name, "to_name": "text", "type": "choices", "value": {"choices": list(choices)}}


TOPICS = asked("topic", "multiple", "cats", "dogs", "birds")
MOOD = asked("mood", "single", "glad", "sad")
SPAM = asked("spam", "single", "Yes", "No")


def told(labels: Any) -> Any:
    return None if labels is None else (dict(zip(labels.names, labels.signs.tolist(), strict=True)), labels.complete)


@for_each(
    ("questions", "result", "expected"),
    [
        ([TOPICS], [answered("topic", "dogs", "cats")], ({"cats": 1, "dogs": 1}, True)),
        ([TOPICS], [], ({}, True)),
        ([TOPICS], [answered("topic", "as the task says")], ({"as the task says": 1}, True)),
        ([SPAM], [answered("spam", "Yes")], ({"spam": 1}, False)),
        ([SPAM], [answered("spam", "No")], ({"spam": -1}, False)),
        ([SPAM], [], None),
        ([MOOD], [answered("mood", "sad")], ({"glad": -1, "sad": 1}, False)),
        ([SPAM, MOOD], [answered("mood", "sad")], ({"glad": -1, "sad": 1}, False)),
        (
            [TOPICS, SPAM],
            [answered("topic", "cats"), answered("spam", "No")],
            ({"cats": 1, "dogs": -1, "birds": -1, "spam": -1}, False),
        ),
        ([TOPICS], [{"type": "textarea", "value": {"text": ["cats"]}}, 3], ({}, True)),
    ],
)
def test_annotations_become_labels(questions: list[str], result: list[Any], expected: Any) -> None:
    assert told(truth(config(*questions), result)) == expected


@for_each(
    "item",
    [
        {"type": "choices"},
        {"type": "choices", "from_name": "topic", "value": {"choices": "cats"}},
        {"type": "choices", "from_name": "topic", "value": {"choices": [1]}},
        {"type": "choices", "from_name": ["topic"], "value": {"choices": ["cats"]}},
    ],
)
def test_bad_choices_are_refused(item: Any) -> None:
    with pytest.raises(AnnotationRefused):
        truth(config(TOPICS), [item])


def predicted(**scores: float) -> Prediction:
    return Prediction([], scores, 0.0)


def test_predictions_are_shown_by_question() -> None:
    prediction = predicted(cats=0.5, dogs=-2.0, other=0.01, glad=-3.0, sad=-1.0, spam=-4.0)
    found = shown(config(TOPICS, MOOD, SPAM), prediction, "v")
    assert found["result"] == [answered("topic", "cats"), answered("mood", "sad"), answered("spam", "No")]
    assert found["score"] == pytest.approx(0.46211716)  # tanh(0.5): that of labels not asked for does not count
    assert found["model_version"] == "v"


def test_the_score_follows_the_promise() -> None:
    doubtful, sure = predicted(cats=0.01, dogs=-2.0), predicted(cats=50.0, dogs=-50.0)
    found = [
        shown(config(TOPICS), one._replace(auto=[], review=review), "v")
        for review in (True, False)
        for one in (doubtful, sure)
    ]
    scores = [one["score"] for one in found]
    assert scores == sorted(scores)
    assert scores[1] < 0.5 <= scores[2]
    assert [one["settled"] for one in found] == [False, False, True, True]
    assert "settled" not in shown(config(TOPICS), sure, "v")


def test_a_configuration_without_unknown_labels_shows_the_same() -> None:
    scores = {"cats": 0.5, "dogs": -2.0, "sad": -1.0, "spam": 4.0}
    whole, prediction = config(TOPICS, MOOD, SPAM), predicted(**scores)
    assert shown(whole.among(scores), prediction, "v") == shown(whole, prediction, "v")
    assert whole.among(scores).labels == list(scores)
    assert whole.among([]).labels == []


def test_labels_that_the_model_does_not_know_are_not_shown() -> None:
    assert shown(config(TOPICS, MOOD, SPAM), predicted(sad=-1.0), "v")["result"] == [answered("mood", "sad")]
    for prediction in (predicted(), predicted(other=1.0), None):
        assert shown(config(TOPICS, MOOD, SPAM), prediction, "v") == {"result": [], "score": 0.0, "model_version": "v"}


def test_a_key_identifies_an_annotation_at_a_time() -> None:
    annotation = {"id": 14, "project": 2, "updated_at": "2026-11-23T05:09:56.665852Z"}
    key = annotation_key(annotation)
    assert key == annotation_key({**annotation, "updated_at": "2026-11-23T06:09:56.665852+01:00", "result": []})
    others = [{"id": 15}, {"project": 3}, {"updated_at": "2026-11-23T05:09:56.665853Z"}]
    assert len({key, *(annotation_key({**annotation, **other}) for other in others)}) == 4
    longest = annotation_key({"id": 2**63 - 1, "project": 2**63 - 1, "updated_at": "9999-12-31T23:59:59.999999Z"})
    assert len(longest.key) < 100
    for wrong in (
        {"id": "14"},
        {"id": True},
        {"id": -1},
        {"id": 2**63},
        {"id": 10**400},
        {"project": "2"},
        {"project": [2]},
        {"project": -1},
        {"project": 2**63},
        {"updated_at": None},
        {"updated_at": "now"},
        {"updated_at": "0001-01-01T00:00:00+14:00"},
        {"updated_at": "9999-12-31T23:59:59-14:00"},
    ):
        with pytest.raises(AnnotationRefused):
            annotation_key({**annotation, **wrong})


def test_a_version_changes_at_milestones() -> None:
    assert milestones(0) == [0]
    assert milestones(4) == [0, 1, 2]
    assert milestones(1_999)[-4:] == [100, 200, 500, 1_000]
    assert [n for n in range(1, 101) if milestones(n) != milestones(n - 1)] == [1, 2, 5, 10, 20, 50, 100]
    assert model_versions("m", 3, 7) == ["m.3.0", "m.3.1", "m.3.2", "m.3.5"]
