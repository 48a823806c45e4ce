"""Labels that a prediction names: `top`, `only`, `except`, and the limit of the server."""

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.api.answers import ok, stream
from tests.support.cases import for_each

from manylabel_service.hosting.selection import Names

Serve = Callable[..., Any]
LABELS = [f"{kind}::{n}" for kind in ("role", "use") for n in range(6)]
NAMES = [f"w{n}" for n in range(8)]


@pytest.fixture(scope="module")
def tags(client: httpx2.Client) -> httpx2.Client:
    teach(client)
    return client


def teach(client: httpx2.Client, name: str = "tags") -> None:
    ok(client.post("/v1/models", json={"name": name, "algorithm": "falt"}), 201)
    examples = [
        {"x": {NAMES[n % 8]: 1, NAMES[n % 3]: 1}, "y": sorted({LABELS[n % 12], LABELS[n % 5]})} for n in range(60)
    ]
    ok(client.post(f"/v1/models/{name}/update", json={"examples": examples}))


def ask(client: httpx2.Client, **wanted: Any) -> dict[str, Any]:
    answer: dict[str, Any] = ok(
        client.post("/v1/models/tags/predict", json={"x": {"w1": 1}, "probabilities": True, **wanted})
    )
    return answer


def test_the_best_labels_come_first(tags: httpx2.Client) -> None:
    whole = ask(tags)
    assert set(whole["scores"]) == set(LABELS)
    assert "scores_of" not in whole
    ranked = sorted(whole["scores"], key=lambda label: -whole["scores"][label])
    for k in (1, 3, 12, 1_000_000):
        found = ask(tags, top=k)
        assert list(found["scores"]) == list(found["probabilities"]) == ranked[:k]
        assert found["scores"] == {label: whole["scores"][label] for label in ranked[:k]}
        assert found["probabilities"] == {label: whole["probabilities"][label] for label in ranked[:k]}
        assert found.get("scores_of") == (12 if k < 12 else None)
        assert (found["labels"], found["threshold"]) == (whole["labels"], whole["threshold"])


def test_labels_with_few_examples_are_marked_as_being_learnt(client: httpx2.Client) -> None:
    ok(client.post("/v1/models", json={"name": "few", "algorithm": "falt", "labels": ["a", "b", "c", "d", "e"]}), 201)
    path = "/v1/models/few"
    for y in (["a", "b", "c"],) * 2 + (["a"],) * 3:
        ok(client.post(f"{path}/update", json={"x": {"w1": 1}, "y": y, "weight": 1.25 if y == ["a"] else 1}))
    ok(client.patch(f"{path}/labels", json={"labels": {"c": {"title": "C"}, "d": {"uri": "x"}}}))
    ok(client.post(f"{path}/labels/pause", json={"label": "e"}))
    due = {"b": {"seen": 2, "needed": 5}, "d": {"seen": 0, "needed": 5}}
    listed = {one["label"]: one["learning"] for one in ok(client.get(f"{path}/labels"))["labels"]}
    assert {label: learning for label, learning in listed.items() if learning} == {**due, "e": due["d"]}
    for wanted in ({"top": 5}, {"top": 5, "only": ["b", "c"]}, {"top": 1}):
        found = ok(client.post(f"{path}/predict", json={"x": {"w1": 1}, **wanted}))
        assert found["learning"] == {label: one for label, one in due.items() if label in found["scores"]}
    batch = ok(client.post(f"{path}/predict", json={"examples": [{"x": {}}] * 2, "top": 4}))
    assert [one["learning"] for one in batch["predictions"]] == [due] * 2
    assert "learning" not in ok(client.post(f"{path}/predict", json={"x": {"w1": 1}}))


def test_labels_are_selected_by_name_and_prefix(tags: httpx2.Client) -> None:
    whole = ask(tags)["scores"]
    for wanted, due in (
        ({"only": ["role::*"]}, LABELS[:6]),
        ({"only": ["use::3", "role::1", "never seen"]}, ["role::1", "use::3"]),
        ({"except": ["role::*", "use::0"]}, LABELS[7:]),
        ({"only": ["role::*"], "except": ["role::2"]}, [label for label in LABELS[:6] if label != "role::2"]),
        ({"only": ["*"], "top": None}, LABELS),
        ({"except": ["*"]}, []),
    ):
        found = ask(tags, **wanted)
        assert set(found["scores"]) == set(found["probabilities"]) == set(due)
        assert found["scores"] == {label: whole[label] for label in found["scores"]}
        assert set(found["labels"]) == {label for label in due if whole[label] > 0}
    both = ask(tags, only=["role::*"], top=2)
    assert (len(both["scores"]), both["scores_of"]) == (2, 6)


def test_a_label_that_ends_in_a_star_has_a_name_too() -> None:
    names = Names.of(["5\\*", "a\\\\*", "b*"])
    expected = {"5*": True, "5": False, "50s": False, "5\\*": False, "a\\*": True, "a*": False, "b1": True, "b*": True}
    assert {label: label in names for label in expected} == expected


def test_a_selection_holds_for_a_batch_and_its_explanations(tags: httpx2.Client) -> None:
    body = {"examples": [{"x": {"w1": 1}}, {"x": {"w2": 1}}], "top": 1, "only": ["use::*"], "explain": 2}
    for found in ok(tags.post("/v1/models/tags/predict", json=body))["predictions"]:
        assert len(found["scores"]) == 1
        assert found["scores_of"] == 6
        assert all(label.startswith("use::") for label in found["labels"])
        assert list(found["explanations"]) == found["labels"]


def test_a_server_limits_the_number_of_scores(serve: Serve) -> None:
    with serve(max_scores=5) as client:
        teach(client)
        found = ask(client)
        assert (len(found["scores"]), found["scores_of"]) == (5, 12)
        assert list(found["scores"].values()) == sorted(found["scores"].values(), reverse=True)
        assert len(ask(client, top=8)["scores"]) == 8
        update = ok(client.post("/v1/models/tags/predict-update", json={"x": {"w1": 1}, "y": []}))
        assert (len(update["scores"]), update["scores_of"]) == (5, 12)
        (line,) = stream(client, "/v1/models/tags", [{"x": {"w1": 1}, "y": []}])
        assert (len(line["scores"]), line["scores_of"]) == (5, 12)


def test_a_stored_prediction_has_all_scores(serve: Serve) -> None:
    """Metrics of delayed labels count all that was predicted, not only the scores in the response."""
    with serve() as client:
        teach(client, "tags")
        teach(client, "whole")
        for name, wanted in (("tags", {"top": 1, "only": ["use::*"]}), ("whole", {})):
            kept = ok(client.post(f"/v1/models/{name}/predict?keep=true", json={"x": {"w1": 1}, **wanted}))
            ok(client.post(f"/v1/models/{name}/labels", json={"id": kept["id"], "y": ["role::1"]}))
        measures = [ok(client.get(f"/v1/models/{name}/metrics"))["cumulative"] for name in ("tags", "whole")]
        assert measures[0] == measures[1]


@for_each(
    ("wanted", "place"),
    [
        ({"top": 0}, "/top"),
        ({"top": 1_000_001}, "/top"),
        ({"top": True}, "/top"),
        ({"only": []}, "/only"),
        ({"only": ["a"] * 1_001}, "/only"),
        ({"only": ["a", 3]}, "/only/1"),
        ({"only": [""]}, "/only/0"),
        ({"except": ["a" * 258]}, "/except/0"),
        ({"except": {"a": True}}, "/except"),
    ],
)
def test_a_bad_selection_is_refused_at_its_place(tags: httpx2.Client, wanted: dict[str, Any], place: str) -> None:
    response = tags.post("/v1/models/tags/predict", json={"x": {"w1": 1}, **wanted})
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == [place]


@given(
    given=st.lists(st.text("ab", min_size=1, max_size=4).flatmap(lambda text: st.sampled_from([text, text + "*"]))),
    label=st.text("ab", max_size=5),
)
def test_a_prefix_selects_what_begins_with_it(given: list[str], label: str) -> None:
    selected = any(label.startswith(name[:-1]) if name.endswith("*") else label == name for name in given)
    assert (label in Names.of(given)) == selected


def test_prefixes_of_another_prefix_are_dropped() -> None:
    """So that one comparison decides, of however many prefixes."""
    assert Names.of(["ab*", "a*", "abc*", "b*", "ax*"]).prefixes == ("a", "b")
