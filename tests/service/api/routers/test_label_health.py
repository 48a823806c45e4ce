"""/v1/models/{name}/health: suggestions by the counts of a model, and those that a search has found."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, ok, refused
from tests.service.api.routers.test_doubts import searched
from tests.service.api.routers.test_forgetting import forgotten
from tests.support.waiting import eventually


def examples() -> list[dict[str, Any]]:
    """Return examples with two names of one thing by turns, a child of a label, and a name in two spellings."""
    rng = random.Random(1)
    made = []
    for n in range(360):
        word = rng.choice(["paper", "glass", "poodle", "beagle", "none", "void"])
        labels = {
            "paper": [rng.choice(["Scrap", "waste"])],
            "glass": ["glass" if n % 3 else "GLASS"],
            "poodle": ["poodle", "dog"],
            "beagle": ["dog"],
        }
        made.append({"x": {word: 1.0, f"w{rng.randrange(9)}": 1.0, "all": 1.0}, "y": labels.get(word, [])})
    return made


@pytest.fixture
def grown(client: TestClient, model: str) -> Iterator[str]:
    ok(client.post(f"{model}/update", json={"examples": examples()}))
    yield model
    client.delete(f"{model}?followers=delete")


def health(client: TestClient, model: str, **query: Any) -> dict[str, Any]:
    found: dict[str, Any] = ok(client.get(f"{model}/health", params=query))
    return found


def pairs(found: dict[str, Any]) -> list[tuple[str, str, frozenset[str | None]]]:
    return [
        (row["kind"], row["why"], frozenset((row["label"], row["into"] or row["parent"])))
        for row in found["suggestions"]
    ]


def test_counts_alone_need_no_search(client: TestClient, grown: str) -> None:
    found = health(client, grown)
    assert (found["job"], found["position"], found["examined"]) == (None, None, None)
    (row,) = found["suggestions"]
    counts = [sum(label in each["y"] for each in examples()) for label in ("GLASS", "glass")]
    assert (row["kind"], row["why"], row["label"], row["into"], row["parent"]) == (
        *("name", "spelling", "GLASS", "glass", None),
    )
    last = [max(n for n, each in enumerate(examples(), 1) if label in each["y"]) for label in ("GLASS", "glass")]
    assert row["evidence"] == {
        "examples": counts, "together": 0, "changes": counts[0], "alike": None, "means": None, "last_seen": last,
    }  # fmt: skip
    assert row["request"] == {
        "method": "POST",
        "path": f"{grown}/labels/merge",
        "body": {"label": "GLASS", "into": "glass"},
    }


def test_a_search_finds_what_needs_the_examples(client: TestClient, grown: str) -> None:
    job = searched(client, grown)
    found = health(client, grown)
    assert (found["job"], found["position"], found["examined"]) == (job["id"], "1", 360)
    assert pairs(found) == [
        ("name", "spelling", frozenset({"GLASS", "glass"})),
        ("merge", "alike", frozenset({"Scrap", "waste"})),
        ("parent", "implied", frozenset({"poodle", "dog"})),
    ]
    merge, parent = found["suggestions"][1:]
    assert merge["evidence"]["alike"] >= 0.4
    assert (parent["label"], parent["parent"]) == ("poodle", "dog")
    assert health(client, grown, kind="parent")["suggestions"] == [parent]
    assert len(health(client, grown, top=1)["suggestions"]) == 3


def test_any_search_for_doubts_finds_suggestions_for_all_labels(client: TestClient, grown: str) -> None:
    job = searched(client, grown, label="glass", top=1)
    found = health(client, grown)
    assert found["job"] == job["id"]
    assert [row["kind"] for row in found["suggestions"]] == ["name", "merge", "parent"]


def test_forgetting_deletes_what_a_search_has_found(client: TestClient, grown: str) -> None:
    ok(client.post(f"{grown}/update", json={"x": {"a": 1.0}, "y": [], "ref": "r1"}))
    searched(client, grown)
    forgotten(client, grown, refs=["r1"])
    found = health(client, grown)
    assert found["job"] is None
    assert [row["kind"] for row in found["suggestions"]] == ["name"]


def test_a_request_applies_its_suggestion(client: TestClient, grown: str) -> None:
    ok(
        client.put(
            f"{grown}/groups", json={"groups": [{"name": "g", "labels": ["glass", "dog"], "choose": "at_most_one"}]}
        )
    )
    searched(client, grown)
    for _ in range(3):
        row = next(row for row in health(client, grown)["suggestions"] if row["request"])
        request = row["request"]
        ok(client.request(request["method"], request["path"], json=request["body"]))
        assert row not in health(client, grown)["suggestions"]
    assert health(client, grown)["suggestions"] == []
    groups = ok(client.get(f"{grown}"))["groups"]
    assert groups[0]["labels"] == ["glass", "dog"]


def test_names_are_current(client: TestClient, grown: str) -> None:
    searched(client, grown)
    ok(client.post(f"{grown}/labels/rename", json={"label": "dog", "to": "hound"}))
    ok(client.post(f"{grown}/labels/pause", json={"label": "waste"}))
    assert pairs(health(client, grown))[1:] == [("parent", "implied", frozenset({"poodle", "hound"}))]


def test_a_merge_that_is_refused_has_no_request(client: TestClient, grown: str) -> None:
    ok(client.put(f"{grown}/groups", json={"parents": {"GLASS": "waste"}}))
    (row,) = health(client, grown)["suggestions"]
    assert row["request"] is None
    body = {"label": row["label"], "into": row["into"]}
    refused(client.post(f"{grown}/labels/merge", json=body), 422, "invalid_request", "/label")


def test_a_label_with_a_parent_gets_no_other(client: TestClient, grown: str) -> None:
    ok(client.put(f"{grown}/groups", json={"parents": {"poodle": "waste"}}))
    searched(client, grown)
    assert not health(client, grown, kind="parent")["suggestions"]


def test_parents_that_contradict_the_groups_are_not_suggested(client: TestClient, grown: str) -> None:
    searched(client, grown)
    assert health(client, grown, kind="parent")["suggestions"]
    group = {"name": "g", "labels": ["poodle", "dog"], "choose": "at_most_one"}
    ok(client.put(f"{grown}/groups", json={"groups": [group]}))
    assert not health(client, grown, kind="parent")["suggestions"]


def test_a_parent_beside_many_others_has_no_request(client: TestClient, grown: str) -> None:
    searched(client, grown)
    parents = {f"child {n} {'x' * 200}": "other" for n in range(23)}
    ok(client.put(f"{grown}/groups", json={"parents": parents}))
    (row,) = health(client, grown, kind="parent")["suggestions"]
    assert row["request"]["body"]["parents"] == {**parents, "poodle": "dog"}
    ok(client.put(f"{grown}/groups", json={"parents": {**parents, "x" * 250: "other"}}))
    assert health(client, grown, kind="parent")["suggestions"] == [{**row, "request": None}]


def test_labels_of_a_group_are_different(client: TestClient, grown: str) -> None:
    group = {"name": "g", "labels": ["glass", "GLASS"], "choose": "at_most_one"}
    ok(client.put(f"{grown}/groups", json={"groups": [group]}))
    assert health(client, grown)["suggestions"] == []


def test_a_rare_label_that_is_no_longer_used(client: TestClient, model: str) -> None:
    many = [{"x": {"a": 1.0}, "y": ["old"] if n == 0 else ["used"]} for n in range(1001)]
    ok(client.post(f"{model}/update", json={"examples": many[:1000]}))
    assert health(client, model)["suggestions"] == []
    ok(client.post(f"{model}/update", json=many[1000]))
    (row,) = health(client, model)["suggestions"]
    assert (row["kind"], row["why"], row["label"], row["evidence"]["last_seen"]) == ("pause", "rare", "old", [1])
    assert row["request"]["path"] == f"{model}/labels/pause"
    ok(client.post(row["request"]["path"], json=row["request"]["body"]))
    assert health(client, model)["suggestions"] == []


def test_a_follower_has_the_suggestions_for_its_leader(client: TestClient, grown: str) -> None:
    searched(client, grown)
    follower = create(client, "follower", follow={"model": "test", "from": "start"})
    assert health(client, follower) == health(client, grown)


def test_a_model_without_labels(client: TestClient, model: str) -> None:
    assert health(client, model)["suggestions"] == []
    refused(client.get(f"{model}/health", params={"kind": "retire"}), 422, "invalid_request", "kind")


def dismissed(client: TestClient, model: str, row: dict[str, Any]) -> None:
    body = {"kind": row["kind"], "label": row["label"], "other": row["into"] or row["parent"]}
    ok(client.post(f"{model}/health/dismiss", json=body))


def test_found_suggestions_are_dismissed(client: TestClient, grown: str) -> None:
    searched(client, grown)
    spelling, merge, parent = health(client, grown)["suggestions"]
    dismissed(client, grown, merge)
    assert health(client, grown)["suggestions"] == [spelling, parent]
    searched(client, grown)
    assert [row["kind"] for row in health(client, grown)["suggestions"]] == ["name", "parent"]
    dismissed(client, grown, parent)
    entry = json.loads(client.get(f"{grown}/log").text.splitlines()[-1])
    told = ("dismissal", "parent", "poodle", "dog")
    assert tuple(entry[field] for field in ("kind", "suggestion", "label", "other")) == told
    ok(client.post(f"{grown}/labels/rename", json={"label": "dog", "to": "hound"}))
    assert [row["kind"] for row in health(client, grown)["suggestions"]] == ["name"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"kind": "merge", "label": "glass"}, "/other"),
        ({"kind": "pause", "label": "glass", "other": "dog"}, "/other"),
        ({"kind": "retire", "label": "glass"}, "/kind"),
        ({"kind": "pause"}, "/label"),
    ],
)
def test_an_invalid_dismissal(client: TestClient, grown: str, body: dict[str, Any], pointer: str) -> None:
    refused(client.post(f"{grown}/health/dismiss", json=body), 422, "invalid_request", pointer)


def test_a_dismissal_needs_labels_of_the_model(client: TestClient, grown: str) -> None:
    body = {"kind": "merge", "label": "glass", "other": "birds"}
    refused(client.post(f"{grown}/health/dismiss", json=body), 404, "label_not_found")
    refused(client.post(f"{grown}/health/dismiss", json={**body, "other": "glass"}), 409, "label_exists")


def undone(client: TestClient, model: str, position: str, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = ok(client.post(f"{model}/undo", json={"position": position}, **more))
    return found


def vocabulary(client: TestClient, model: str) -> dict[str, Any]:
    """Return labels, groups and suggestions of a model."""
    of_model = ok(client.get(model))
    labels = ok(client.get(f"{model}/labels", params={"sort": "name"}))["labels"]
    return {"labels": labels, "groups": of_model["groups"], "parents": of_model["parents"], **health(client, model)}


def test_each_applied_suggestion_can_be_undone(client: TestClient, grown: str) -> None:
    ok(client.put(f"{grown}/groups", json={"parents": {"glass": "material"}}))
    searched(client, grown)
    before = vocabulary(client, grown)
    requests = [row["request"] for row in before["suggestions"] if row["request"]]
    requests += [
        {"method": "POST", "path": f"{grown}/health/dismiss", "body": {"kind": "pause", "label": "dog"}},
        {"method": "POST", "path": f"{grown}/labels/pause", "body": {"label": "waste"}},
        {"method": "POST", "path": f"{grown}/labels/rename", "body": {"label": "waste", "to": "refuse"}},
        {"method": "POST", "path": f"{grown}/labels/retire", "body": {"label": "waste"}},
    ]
    for request in requests:
        applied = ok(client.request(request["method"], request["path"], json=request["body"]))
        answer = undone(client, grown, applied["position"])
        assert (answer["how"], answer["updates"]) == ("rollback", applied["updates"])
        assert vocabulary(client, grown) == before
        line = json.loads(client.get(f"{grown}/log").text.splitlines()[-1])
        assert (line["position"], line["kind"], line["undoes"]) == (answer["position"], "undo", applied["position"])
    refused(client.post(f"{grown}/undo", json={"position": applied["position"]}), 409, "cannot_undo")


def test_what_was_learnt_since_a_change_stays(client: TestClient, grown: str) -> None:
    merged = ok(client.post(f"{grown}/labels/merge", json={"label": "GLASS", "into": "glass"}))
    updates = ok(client.post(f"{grown}/update", json={"x": {"glass": 1.0}, "y": ["GLASS"]}))["updates"]
    answer = undone(client, grown, merged["position"])
    assert (answer["how"], answer["updates"]) == ("inverse", updates)
    assert [row["label"] for row in health(client, grown)["suggestions"]] == ["GLASS"]
    assert ok(client.post(f"{grown}/verify"))["equal"]


def test_a_change_is_undone_once_per_key(client: TestClient, grown: str) -> None:
    paused = ok(client.post(f"{grown}/labels/pause", json={"label": "dog"}))
    headers = {"Idempotency-Key": "undo-1"}
    first = undone(client, grown, paused["position"], headers=headers)
    ok(client.post(f"{grown}/update", json={"x": {"glass": 1.0}, "y": ["glass"]}))
    assert undone(client, grown, paused["position"], headers=headers) == first


def test_a_bad_request_to_undo(client: TestClient, grown: str) -> None:
    follower = create(client, "follower", follow={"model": "test", "from": "start"})
    refused(client.post(f"{follower}/undo", json={"position": "1"}), 409, "model_follows")
    refused(client.post(f"{grown}/undo", json={"position": "1"}), 409, "cannot_undo")
    refused(client.post(f"{grown}/undo", json={"position": "99"}), 404, "position_not_found")
    refused(client.post(f"{grown}/undo", json={"position": "soon"}), 422, "invalid_request", "/position")


def tried(client: TestClient, model: str, kind: str, label: str, other: str | None = None, **more: Any) -> Any:
    """Return the job of a dry run, once it has ended."""
    body = {"kind": kind, "label": label, "other": other, **more}
    job = ok(client.post(f"{model}/health/dry-run", json=body), 202)

    def has_ended() -> bool:
        return ok(client.get(f"/v1/jobs/{job['id']}"))["state"] not in ("queued", "running")

    eventually(has_ended)
    return ok(client.get(f"/v1/jobs/{job['id']}"))


def test_a_dry_run_of_a_merge(client: TestClient, grown: str) -> None:
    state = vocabulary(client, grown)
    job = tried(client, grown, "merge", "Scrap", "waste")
    assert (job["state"], job["trainer"], job["error"]) == ("succeeded", "dry_run", None)
    found = job["result"]
    n = {label: float(sum(label in each["y"] for each in examples())) for label in ("Scrap", "waste")}
    assert found["suggestion"] == {"kind": "merge", "label": "Scrap", "other": "waste"}
    assert (found["position"], found["examples"], found["changes"]) == ("1", 360, n["Scrap"])
    assert found["conflicts"] == []
    before, after = found["before"], found["after"]
    assert {label: row["examples"] for label, row in before["labels"].items()} == n
    assert {label: row["examples"] for label, row in after["labels"].items()} == {"waste": sum(n.values())}
    assert max(row["f1"] for row in before["labels"].values()) < 0.7 < before["either_name"] <= after["either_name"]
    assert after["either_name"] == after["labels"]["waste"]["f1"]
    assert after["micro_f1"] > before["micro_f1"]
    assert after["macro_f1"] > before["macro_f1"]
    assert vocabulary(client, grown) == state
    assert tried(client, grown, "merge", "Scrap", "waste")["id"] == job["id"]
    assert tried(client, grown, "merge", "waste", "Scrap")["result"]["changes"] == n["waste"]


def test_a_dry_run_of_other_suggestions(client: TestClient, grown: str) -> None:
    found = tried(client, grown, "parent", "poodle", "dog")["result"]
    assert (found["changes"], found["before"]["either_name"]) == (0, None)
    assert set(found["before"]["labels"]) == set(found["after"]["labels"]) == {"poodle", "dog"}
    assert found["before"]["labels"]["dog"]["examples"] == found["after"]["labels"]["dog"]["examples"]
    found = tried(client, grown, "parent", "GLASS", "dog")["result"]
    n = sum("GLASS" in each["y"] for each in examples())
    assert found["changes"] == n
    assert found["after"]["labels"]["dog"]["examples"] == found["before"]["labels"]["dog"]["examples"] + n
    for kind in ("pause", "vague"):
        found = tried(client, grown, kind, "dog", last=200)["result"]
        latest = float(sum("dog" in each["y"] for each in examples()[-200:]))
        assert (found["examples"], found["changes"]) == (200, latest)
        assert found["before"]["labels"]["dog"]["examples"] == latest
        assert found["after"]["labels"] == {}


def test_a_dry_run_counts_conflicts(client: TestClient, grown: str) -> None:
    ok(client.post(f"{grown}/update", json={"x": {"a": 1.0}, "y": {"Scrap": True, "waste": False, "dog": True}}))
    ok(client.post(f"{grown}/update", json={"x": {"a": 1.0}, "y": {"Scrap": True, "dog": False}}))
    (text,) = tried(client, grown, "merge", "Scrap", "waste")["result"]["conflicts"]
    assert text.endswith(": 1")
    (text,) = tried(client, grown, "parent", "Scrap", "dog")["result"]["conflicts"]
    assert text.endswith(": 1")
    group = {"name": "g", "labels": ["waste", "dog"], "choose": "at_most_one"}
    ok(client.put(f"{grown}/groups", json={"groups": [group]}))
    assert len(tried(client, grown, "merge", "Scrap", "waste")["result"]["conflicts"]) == 2


def test_a_dry_run_of_a_follower_is_that_of_its_leader(client: TestClient, grown: str) -> None:
    follower = create(client, "follower", follow={"model": "test", "from": "start"})
    job = tried(client, follower, "merge", "Scrap", "waste")
    assert job["model"] == "test"
    assert tried(client, grown, "merge", "Scrap", "waste")["id"] == job["id"]
    refused(client.get(f"{grown}/doubts"), 404, "doubts_not_found")


def test_a_suggestion_that_cannot_be_applied_is_not_tried(client: TestClient, grown: str) -> None:
    group = {"name": "g", "labels": ["glass", "dog"], "choose": "at_most_one"}
    ok(client.put(f"{grown}/groups", json={"groups": [group], "parents": {"poodle": "animal"}}))
    for body, status, code, pointer in (
        ({"kind": "merge", "label": "glass", "other": "waste"}, 422, "invalid_request", "/label"),
        ({"kind": "parent", "label": "poodle", "other": "dog"}, 422, "invalid_request", "/label"),
        ({"kind": "parent", "label": "glass", "other": "waste"}, 422, "invalid_request", "/other"),
        ({"kind": "merge", "label": "waste"}, 422, "invalid_request", "/other"),
        ({"kind": "retire", "label": "waste"}, 422, "invalid_request", "/kind"),
        ({"kind": "pause", "label": "waste", "last": 0}, 422, "invalid_request", "/last"),
        ({"kind": "merge", "label": "birds", "other": "waste"}, 404, "label_not_found", None),
        ({"kind": "merge", "label": "waste", "other": "birds"}, 404, "label_not_found", None),
        ({"kind": "pause", "label": "birds"}, 404, "label_not_found", None),
        ({"kind": "parent", "label": "waste", "other": "waste"}, 409, "label_exists", None),
        ({"kind": "name", "label": "waste", "other": "waste"}, 409, "label_exists", None),
    ):
        refused(client.post(f"{grown}/health/dry-run", json=body), status, code, *([pointer] if pointer else []))


def test_a_label_may_be_merged_into_a_later_one(client: TestClient, model: str) -> None:
    ok(client.post(f"{model}/update", json={"x": {"paper": 1.0}, "y": ["scrap"]}))
    ok(client.post(f"{model}/update", json={"examples": [{"x": {"paper": 1.0}, "y": ["waste"]}] * 20}))
    assert tried(client, model, "merge", "scrap", "waste")["result"]["changes"] == 1
    ok(client.post(f"{model}/labels/merge", json={"label": "scrap", "into": "waste"}))
    assert searched(client, model)["state"] == "succeeded"
