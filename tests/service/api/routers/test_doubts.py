"""/v1/models/{name}/doubts: a search in a training process, its list, and what a person has answered since."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, ok, refused
from tests.service.api.routers.test_forgetting import forgotten
from tests.service.api.routers.test_history import log
from tests.support.waiting import eventually

N_EXAMPLES = 120
WRONG, MISSING = 70, 81
"""Examples with a wrong label, and without a label that they should have."""


def examples() -> list[dict[str, Any]]:
    """Return examples whose labels follow from a word, but for two of them."""
    rng = random.Random(0)
    made = []
    for n in range(N_EXAMPLES):
        words = rng.sample(["cat", "dog", "fish"], rng.randint(0, 2))
        x = {**dict.fromkeys(words, 1.0), f"w{rng.randrange(9)}": 1.0, "all": 1.0}
        made.append({"x": x, "y": [f"{word}s" for word in sorted(words)], "ref": f"r{n}"})
    made[WRONG] |= {"x": {"w1": 1.0, "all": 1.0}, "y": ["cats"]}
    made[MISSING] |= {"x": {"dog": 1.0, "all": 1.0}, "y": []}
    return made


@pytest.fixture
def taught(client: TestClient, model: str) -> Iterator[str]:
    """A model that has learnt the examples: the first 20 one by one, the others in one request."""
    for each in examples()[:20]:
        ok(client.post(f"{model}/update", json=each))
    ok(client.post(f"{model}/update", json={"examples": examples()[20:]}))
    yield model
    client.delete(f"{model}?followers=delete")


def searched(client: TestClient, model: str, **wanted: Any) -> dict[str, Any]:
    """Return the job of a search, once it has ended."""
    answer = client.post(f"{model}/doubts", json=wanted)
    job = ok(answer, 202)
    assert answer.headers["location"] == f"/v1/jobs/{job['id']}"

    def has_ended() -> bool:
        return ok(client.get(f"/v1/jobs/{job['id']}"))["state"] not in ("queued", "running")

    eventually(has_ended)
    ended: dict[str, Any] = ok(client.get(f"/v1/jobs/{job['id']}"))
    return ended


def doubts(client: TestClient, model: str, **query: Any) -> dict[str, Any]:
    found: dict[str, Any] = ok(client.get(f"{model}/doubts", params=query))
    return found


def test_a_search_lists_missing_and_wrong_labels(client: TestClient, taught: str) -> None:
    refused(client.get(f"{taught}/doubts"), 404, "doubts_not_found")
    job = searched(client, taught)
    assert (job["state"], job["trainer"], job["result"]) == ("succeeded", "doubts", None)
    assert job["sampled"]["rows"] == N_EXAMPLES
    missing, wrong = (doubts(client, taught, kind=kind) for kind in ("missing", "wrong"))
    assert (missing["job"], missing["position"], missing["since"]) == (job["id"], "21", "1")
    assert (missing["examined"], missing["left_out"]) == (
        N_EXAMPLES,
        {"not_human": 0, "before_since": 0, "too_rare": 0, "checked": 0},
    )
    first = missing["doubts"][0]
    assert (first["position"], first["index"], first["ref"]) == ("21", MISSING - 20, f"r{MISSING}")
    times = {line["position"]: line["time"] for line in log(client, taught)}
    assert first["time"] == times["21"]
    assert all(each["time"] == times[each["position"]] for each in first["similar"])
    assert (first["label"], first["given"], first["kind"], first["existed"]) == ("dogs", False, "missing", True)
    assert first["probability"] > 0.5 > first["share"]
    assert first["for"][0]["feature"] == "dog"
    assert first["for"][0]["contribution"] > 0
    assert all("dogs" in examples()[int(each["ref"][1:])]["y"] for each in first["similar"])
    assert first["similar"]
    first = wrong["doubts"][0]
    assert (first["ref"], first["label"], first["given"], first["kind"]) == (f"r{WRONG}", "cats", True, "wrong")
    assert not [row for row in wrong["doubts"] if not row["given"]]
    assert [row["score"] for row in wrong["doubts"]] == sorted((row["score"] for row in wrong["doubts"]), reverse=True)


def test_a_list_belongs_to_a_position(client: TestClient, taught: str) -> None:
    job = searched(client, taught)
    assert searched(client, taught)["id"] == job["id"]
    other = searched(client, taught, top=3)
    assert other["id"] != job["id"]
    assert len(doubts(client, taught)["doubts"]) == 3
    assert len(doubts(client, taught, top=1)["doubts"]) == 1
    ok(client.post(f"{taught}/update", json=examples()[0]))
    later = searched(client, taught)
    assert later["id"] not in (job["id"], other["id"])
    assert doubts(client, taught)["position"] == "22"


def test_labels_that_a_person_has_checked_are_not_listed_again(client: TestClient, taught: str) -> None:
    searched(client, taught)
    before = doubts(client, taught)["doubts"]
    first, second, *rest = before
    at = {part: first[part] for part in ("position", "index")}
    ok(client.post(f"{taught}/correct", json={**at, "y": {first["label"]: True}}))
    at = {part: second[part] for part in ("position", "index")}
    ok(client.post(f"{taught}/correct", json={**at, "y": {second["label"]: False}}))
    after = doubts(client, taught)
    assert (after["doubts"], after["left_out"]["checked"]) == (rest, 2)
    searched(client, taught)
    again = doubts(client, taught)
    pairs = [(row["ref"], row["label"]) for row in again["doubts"] + doubts(client, taught, kind="wrong")["doubts"]]
    assert (first["ref"], first["label"]) not in pairs
    assert (second["ref"], second["label"]) not in pairs
    assert again["examined"] == N_EXAMPLES  # a correction does not count as a further example


def test_one_label(client: TestClient, taught: str) -> None:
    searched(client, taught)
    assert {row["label"] for row in doubts(client, taught, label="cats")["doubts"]} == {"cats"}
    job = searched(client, taught, label="dogs")
    assert doubts(client, taught, label="dogs")["job"] == job["id"]
    assert doubts(client, taught, label="cats")["job"] != job["id"]
    refused(client.post(f"{taught}/doubts", json={"label": "birds"}), 404, "label_not_found")


def test_labels_have_their_current_names(client: TestClient, taught: str) -> None:
    searched(client, taught)
    ok(client.post(f"{taught}/labels/rename", json={"label": "dogs", "to": "hounds"}))
    assert doubts(client, taught)["doubts"][0]["label"] == "hounds"
    assert doubts(client, taught, label="hounds")["doubts"]
    ok(client.post(f"{taught}/labels/pause", json={"label": "hounds"}))
    assert "hounds" not in {row["label"] for row in doubts(client, taught)["doubts"]}
    searched(client, taught)
    assert "hounds" not in {row["label"] for row in doubts(client, taught)["doubts"]}
    refused(client.post(f"{taught}/doubts", json={"label": "hounds"}), 404, "label_not_found")


def test_merged_labels_count_as_one(client: TestClient, taught: str) -> None:
    for n in range(10):
        ok(client.post(f"{taught}/update", json={"x": {"dog": 1.0, "all": 1.0}, "y": ["puppies"], "ref": f"p{n}"}))
    ok(client.post(f"{taught}/labels/merge", json={"label": "puppies", "into": "dogs"}))
    searched(client, taught)
    rows = doubts(client, taught)["doubts"] + doubts(client, taught, kind="wrong")["doubts"]
    assert "puppies" not in {row["label"] for row in rows}
    assert not [
        row for row in doubts(client, taught)["doubts"] if row["ref"].startswith("p") and row["label"] == "dogs"
    ]


def test_a_label_that_came_later_did_not_exist(client: TestClient, taught: str) -> None:
    for n in range(12):
        x = {f"w{n % 9}": 1.0, "all": 1.0}
        ok(client.post(f"{taught}/update", json={"x": x, "y": ["new"], "ref": f"n{n}"}))
    searched(client, taught)
    rows = doubts(client, taught, label="new")["doubts"]
    assert rows
    assert {row["existed"] for row in rows} == {False}
    searched(client, taught, label="cats")
    first = next(n for n, each in enumerate(examples()) if "cats" in each["y"])
    for row in doubts(client, taught, label="cats")["doubts"]:
        assert row["existed"] == (row["ref"].startswith("n") or int(row["ref"][1:]) >= first)


def test_labels_of_machines_neither_teach_nor_are_judged(client: TestClient) -> None:
    model = create(client, "machines", sources={"machine": 1.0})
    for n, each in enumerate(examples()):
        ok(client.post(f"{model}/update", json={**each, "source": "machine" if n % 4 == 0 else "human"}))
    searched(client, model)
    found = doubts(client, model)
    assert (found["examined"], found["left_out"]["not_human"]) == (90, 30)
    assert all(int(row["ref"][1:]) % 4 for row in found["doubts"])
    ok(client.post(f"{model}/correct", json={"position": "1", "y": ["cats", "fishs"]}))
    searched(client, model)
    assert doubts(client, model)["examined"] == 91  # a correction is from a person
    client.delete(model)


def test_a_follower_has_the_list_of_its_leader(client: TestClient, taught: str) -> None:
    follower = create(client, "follower", follow={"model": "test", "from": "start"})
    job = searched(client, follower)
    assert job["model"] == "test"
    assert doubts(client, follower) == doubts(client, taught)


def test_forgetting_deletes_the_lists(client: TestClient, taught: str) -> None:
    searched(client, taught)
    forgotten(client, taught, refs=[f"r{MISSING}"])
    refused(client.get(f"{taught}/doubts"), 404, "doubts_not_found")
    searched(client, taught)
    rows = doubts(client, taught)["doubts"] + doubts(client, taught, kind="wrong")["doubts"]
    assert doubts(client, taught)["examined"] == N_EXAMPLES - 1
    assert f"r{MISSING}" not in {row["ref"] for row in rows}
    assert f"r{MISSING}" not in {each["ref"] for row in rows for each in row["similar"]}


def test_another_model_of_the_name_has_no_list(client: TestClient, taught: str) -> None:
    searched(client, taught)
    client.delete(taught)
    create(client, "test")
    refused(client.get(f"{taught}/doubts"), 404, "doubts_not_found")


def test_only_the_latest_examples_are_examined(client: TestClient, taught: str) -> None:
    searched(client, taught, last=50)
    found = doubts(client, taught)
    assert (found["examined"], found["left_out"]["before_since"]) == (50, N_EXAMPLES - 50)
    assert all(int(row["ref"][1:]) >= N_EXAMPLES - 50 for row in found["doubts"])


def test_a_model_without_examples_has_no_doubts(client: TestClient, model: str) -> None:
    job = searched(client, model)
    assert job["state"] == "failed"
    assert "no examples" in job["error"]["detail"]
    refused(client.get(f"{model}/doubts"), 404, "doubts_not_found")


def test_bad_requests_are_refused(client: TestClient, model: str) -> None:
    for body, pointer in (({"top": 0}, "/top"), ({"last": 10**7}, "/last"), ({"kind": "wrong"}, "/kind")):
        refused(client.post(f"{model}/doubts", json=body), 422, "invalid_request", pointer)
    refused(client.get(f"{model}/doubts", params={"kind": "all"}), 422, "invalid_request", "kind")
    body = {"trainer": "doubts", "data": {"stream": "test", "last": 9}, "model": "test", "params": {}}
    refused(client.post("/v1/jobs", json=body), 422, "invalid_request", "/trainer")
