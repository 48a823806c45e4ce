"""/v1/webhooks: created, shown and deleted; events are delivered, repeated, and given up."""

import asyncio
import base64
import contextlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
import structlog
from starlette.testclient import TestClient
from tests.service.access.keyed import Keyed
from tests.service.api.answers import ok
from tests.service.api.routers.test_drift import ITEMS, WATCHING
from tests.service.api.routers.test_parity import PARITY, SOURCES, loop
from tests.service.api.routers.test_promise import EASY, items, teach
from tests.service.jobs.conftest import songs
from tests.service.webhooks.receiver import SECRET, Receiver, receiving, status
from tests.support.audited import audited
from tests.support.cases import for_each
from tests.support.waiting import eventually

from manylabel_service.api.routers.webhooks import NewWebhook, WebhookDelivery, WebhookDetail, WebhookList
from manylabel_service.settings import Settings, origin_of
from manylabel_service.webhooks import deliverer, sender, webhook

Create = Callable[..., str]
Refused = Callable[..., dict[str, Any]]
EVENTS = ["label", "drift", "parity", "job", "promoted", "review"]


def made(client: TestClient, receiver: Receiver, **fields: Any) -> dict[str, Any]:
    wanted = {"url": receiver.url, "events": ["label"], "secret": SECRET, **fields}
    answer = client.post("/v1/webhooks", json=wanted)
    assert answer.status_code == 201, answer.text
    NewWebhook.model_validate_json(answer.content, strict=True)
    found: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"/v1/webhooks/{found['id']}"
    return found


def shown(client: TestClient, id: str) -> dict[str, Any]:
    answer = client.get(f"/v1/webhooks/{id}")
    assert answer.status_code == 200, answer.text
    WebhookDetail.model_validate_json(answer.content, strict=True)
    found: dict[str, Any] = answer.json()
    return found


def update(client: TestClient, address: str, *labels: str) -> str:
    answer = client.post(f"{address}/update", json={"x": {"a": 1}, "y": list(labels)})
    assert answer.status_code == 200, answer.text
    position: str = answer.json()["position"]
    return position


class TestEvents:
    """Each type is delivered once, with its facts."""

    def test_new_labels_of_one_entry_are_one_event(
        self, client: TestClient, receiver: Receiver, create: Create
    ) -> None:
        address = create(client, "tags")
        update(client, address, "old")
        webhook = made(client, receiver)
        position = update(client, address, "old", "new", "newer")
        update(client, address, "old", "new")
        client.patch(f"{address}/labels", json={"labels": {"described": {"title": "A title"}, "new": {"title": "N"}}})
        found = receiver.waits_for("label", 2)
        assert found[0] == {"model": "tags", "position": position, "count": 2, "labels": ["new", "newer"]}
        assert found[1]["labels"] == ["described"]
        assert eventually(lambda: shown(client, webhook["id"])["waiting"] == 0)
        assert len(receiver.ids) == len(set(receiver.ids)) == 2
        assert shown(client, webhook["id"])["delivered"] == 2

    def test_alarms_of_drift(self, client: TestClient, receiver: Receiver, create: Create) -> None:
        made(client, receiver, events=["drift"], models=["watch*"])
        blind, watched = create(client, "blind", **WATCHING), create(client, "watched", **WATCHING)
        for start in range(0, len(ITEMS), 50):
            for address in (blind, watched):
                client.post(f"{address}/update", json={"examples": ITEMS[start : start + 50]}).raise_for_status()
        drift = client.get(f"{watched}/metrics").json()["drift"]
        expected = drift["alarms"] + sum(label["alarms"] for label in drift["labels"].values())
        eventually(lambda: sum(each["count"] for each in receiver.of("drift")) == expected, otherwise=receiver.all)
        assert expected > 0
        assert {each["model"] for each in receiver.of("drift")} == {"watched"}
        told = [alarm for each in receiver.of("drift") for alarm in each["alarms"]]
        assert drift["last"] in [alarm["updates"] for alarm in told if alarm["label"] is None]

    def test_openings_of_a_promise_of_parity(self, client: TestClient, receiver: Receiver, create: Create) -> None:
        made(client, receiver, events=["parity"])
        address = create(client, "deferring", promise=PARITY, sources=SOURCES)
        loop(client, address, 200)
        (opened, *_) = receiver.waits_for("parity")
        assert opened == {"model": "deferring", "position": opened["position"], "state": "open"}
        ok(client.put(f"{address}/promise", json={**PARITY, "parity": 0.9}))
        assert [each["state"] for each in receiver.waits_for("parity", 2)][-1] == "closed"

    @pytest.mark.usefixtures("programs")  # jobs are fitted by processes of their own
    def test_jobs_and_promotions(self, client: TestClient, receiver: Receiver, create: Create) -> None:
        data = songs(60)
        names = data.label_names
        items = [
            {"x": row, "y": [name for name, on in zip(names, labels, strict=True) if on]}
            for row, labels in zip(data.X.tolist(), data.Y.toarray(), strict=True)
        ]
        address = create(client, "online", features=5, labels=list(names))
        client.post(f"{address}/update", json={"examples": items}).raise_for_status()
        wanted = {"trainer": "m3l", "data": {"stream": "online", "last": 40}, "promote": "always"}
        assert client.post("/v1/jobs", json={**wanted, "model": "before"}).status_code == 202
        eventually(lambda: client.get("/v1/jobs?state=succeeded").json()["jobs"])
        made(client, receiver, events=["job", "promoted"])
        job = client.post("/v1/jobs", json={**wanted, "model": "batch"}).json()
        (ended,) = receiver.waits_for("job")
        assert (ended["job"], ended["model"], ended["state"]) == (job["id"], "batch", "succeeded")
        assert (ended["version"], ended["error"]) == (1, None)
        (promoted,) = receiver.waits_for("promoted")
        assert (promoted["model"], promoted["version"], promoted["previous"]) == ("batch", 1, None)
        client.post("/v1/jobs", json={**wanted, "model": "batch"})
        assert receiver.waits_for("promoted", 2)[1]["previous"] == 1

    def test_a_cancelled_job(self, serve: Callable[..., Any], receiver: Receiver, quick: None, create: Create) -> None:
        with serve(webhook_urls=origin_of(receiver.url), job_slots=0) as client:  # the job stays queued
            address = create(client, "online")
            client.post(f"{address}/update", json={"x": {"a": 1}, "y": ["p"]}).raise_for_status()
            made(client, receiver, events=["job"])
            wanted = {"trainer": "m3l", "data": {"stream": "online", "last": 40}, "model": "batch"}
            job = client.post("/v1/jobs", json=wanted).json()
            client.delete(f"/v1/jobs/{job['id']}").raise_for_status()
            (ended,) = receiver.waits_for("job")
        assert (ended["job"], ended["model"], ended["state"]) == (job["id"], "batch", "cancelled")
        assert (ended["version"], ended["error"]) == (None, None)

    def test_uncertain_stored_predictions(
        self, client: TestClient, receiver: Receiver, create: Create, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        address = create(client, "reviewed")
        examples = [{"x": {"a": 1}, "y": ["p"]}, {"x": {"b": 1}, "y": ["q"]}] * 40
        client.post(f"{address}/update", json={"examples": examples}).raise_for_status()
        made(client, receiver, events=["review"])
        predicted = client.post(
            f"{address}/predict?keep=true", json={"examples": [{"x": {"a": 1}}, {"x": {"a": 1, "b": 1}}]}
        )
        sure, torn = (one["id"] for one in predicted.json()["predictions"])
        (review,) = receiver.waits_for("review")
        assert (review["model"], review["count"]) == ("reviewed", 1)
        assert [each["prediction_id"] for each in review["predictions"]] == [torn]
        assert review["predictions"][0]["uncertainty"] >= 0.5
        assert sure != torn

    def test_a_promise_decides_what_needs_review(self, client: TestClient, receiver: Receiver, create: Create) -> None:
        address = create(client, "promising", promise={**EASY, "audit_rate": 0.4})
        teach(client, address)
        made(client, receiver, events=["review"])
        predicted = client.post(
            f"{address}/predict?keep=true", json={"examples": [{"x": item["x"]} for item in items(20, seed=2)]}
        )
        due = {one["id"] for one in predicted.json()["predictions"] if one["review"]}
        receiver.waits_for("review")
        eventually(lambda: sum(each["count"] for each in receiver.of("review")) == len(due), otherwise=receiver.all)
        listed = {
            one["prediction_id"]: one["uncertainty"] for each in receiver.of("review") for one in each["predictions"]
        }
        assert listed.keys() == due
        assert min(listed.values()) < 0.5, "an audit of a prediction that the model is sure of"
        assert 0 < len(due) < 20

    @pytest.mark.parametrize("initial", [{}, {"promise": EASY}], ids=["empty", "initial state"])
    def test_a_model_that_was_created_later_counts_from_its_beginning(
        self, client: TestClient, receiver: Receiver, create: Create, initial: dict[str, Any]
    ) -> None:
        made(client, receiver, models=["later"])
        update(client, create(client, "other"), "a")
        update(client, create(client, "later", **initial), "b")
        assert [each["labels"] for each in receiver.waits_for("label")] == [["b"]]
        client.delete("/v1/models/later")
        update(client, create(client, "later"), "b")
        assert len(receiver.waits_for("label", 2)) == 2
        assert len(set(receiver.ids)) == 2


class TestDelivery:
    """Responses of a receiver, and their effects."""

    def test_a_failed_event_is_sent_again_with_the_same_id(
        self, client: TestClient, receiver: Receiver, create: Create
    ) -> None:
        answers = [500, 503, 302, 404, 204]

        def respond(handler: BaseHTTPRequestHandler) -> None:
            code = answers.pop(0)
            status(handler, code, **({"Location": f"{receiver.url}/elsewhere"} if code == 302 else {}))

        receiver.respond = respond
        webhook = made(client, receiver)
        update(client, create(client, "tags"), "a")
        eventually(lambda: shown(client, webhook["id"])["delivered"] == 1)
        assert len(receiver.events) == 5, "no redirect was followed"
        assert len(set(receiver.ids)) == 1
        assert len({event["timestamp"] for event in receiver.events}) == 1
        deliveries = shown(client, webhook["id"])["deliveries"]
        assert [each["status"] for each in deliveries] == [204, 404, 302, 503, 500]
        assert [each["error"] for each in deliveries] == [None, *["status"] * 4]
        assert [each["attempt"] for each in deliveries] == [5, 4, 3, 2, 1]

    @pytest.mark.parametrize("part", ["send", "connected"])
    def test_an_unexpected_error_is_counted_and_tried_again(
        self,
        client: TestClient,
        receiver: Receiver,
        create: Create,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        part: str,
    ) -> None:
        id = made(client, receiver)["id"]
        working, failures = getattr(sender.Sender, part), 2

        def failing(*args: Any) -> Any:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise ValueError("for the test")
            return working(*args)

        monkeypatch.setattr(sender.Sender, part, failing)
        update(client, create(client, "tags"), "a")
        eventually(lambda: shown(client, id)["delivered"] == 1)
        attempts = [(each["attempt"], each["error"]) for each in shown(client, id)["deliveries"]]
        assert attempts == [(3, None), (2, "internal_error"), (1, "internal_error")]
        assert 'manylabel_webhook_deliveries_total{outcome="failed"} 2.0' in client.get("/metrics").text
        assert "webhook_delivery_failed" in capsys.readouterr().out

    def test_events_are_delivered_in_order(self, client: TestClient, receiver: Receiver, create: Create) -> None:
        is_up = False
        receiver.respond = lambda handler: status(handler, 200 if is_up else 500)
        webhook = made(client, receiver)
        address = create(client, "tags")
        for label in "abc":
            update(client, address, label)
        eventually(lambda: shown(client, webhook["id"])["failures"] > 2)
        assert shown(client, webhook["id"])["waiting"] == 3
        is_up = True
        eventually(lambda: shown(client, webhook["id"])["waiting"] == 0)
        assert [each["labels"] for each in receiver.of("label")][-3:] == [["a"], ["b"], ["c"]]

    @pytest.mark.parametrize("how", ["silent", "endless head"])
    def test_a_slow_receiver_does_not_delay_others(
        self, serve: Any, quick: None, create: Create, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        monkeypatch.setattr(sender, "TIMEOUT_SECONDS", 0.5)
        with receiving() as slow, receiving() as fast:
            over = threading.Event()

            def respond(handler: BaseHTTPRequestHandler) -> None:
                line = b"HTTP/1.1 200 OK\r\n"
                while not over.wait(0.01):  # a receiver that takes its time
                    if how == "endless head":
                        handler.wfile.write(line)
                        line = b"a: b\r\n"

            slow.respond = respond
            with serve(webhook_urls=f"{origin_of(slow.url)},{origin_of(fast.url)}") as client:
                stuck, flows = made(client, slow), made(client, fast)
                address = create(client, "tags")
                for label in "abc":
                    update(client, address, label)
                assert len(fast.waits_for("label", 3)) == 3
                eventually(lambda: shown(client, stuck["id"])["deliveries"])
                assert shown(client, stuck["id"])["deliveries"][-1]["error"] in ("timeout", "no_response")
                eventually(lambda: shown(client, flows["id"])["waiting"] == 0)
                over.set()

    def test_the_body_of_a_response_is_not_read(self, client: TestClient, receiver: Receiver, create: Create) -> None:
        def respond(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            with contextlib.suppress(OSError):  # the client has gone
                while True:
                    handler.wfile.write(b"x" * 65536)

        receiver.respond = respond
        webhook = made(client, receiver)
        update(client, create(client, "tags"), "a")
        eventually(lambda: shown(client, webhook["id"])["delivered"] == 1)

    def test_410_disables_a_webhook_until_it_is_enabled(
        self, client: TestClient, receiver: Receiver, create: Create
    ) -> None:
        receiver.respond = lambda handler: status(handler, 410)
        webhook = made(client, receiver)
        address = create(client, "tags")
        with structlog.testing.capture_logs() as lines:
            update(client, address, "a")
            eventually(lambda: shown(client, webhook["id"])["state"] == "disabled")
        assert shown(client, webhook["id"])["reason"] == "gone"
        assert [line["webhook"] for line in lines if line["event"] == "webhook_disabled"] == [webhook["id"]]
        assert "manylabel_webhooks_disabled 1.0" in client.get("/metrics").text
        update(client, address, "b")
        eventually(lambda: shown(client, webhook["id"])["waiting"] == 2)
        assert len(receiver.events) == 1
        receiver.respond = lambda handler: status(handler, 204)
        enabled = client.post(f"/v1/webhooks/{webhook['id']}/enable")
        assert (enabled.status_code, enabled.json()["state"]) == (200, "active")
        assert [each["labels"] for each in receiver.waits_for("label", 3)] == [["a"], ["a"], ["b"]]
        assert shown(client, webhook["id"])["reason"] is None

    def test_a_webhook_that_fails_for_too_long_is_disabled(
        self, client: TestClient, receiver: Receiver, create: Create, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        receiver.respond = lambda handler: status(handler, 500)
        webhook = made(client, receiver)
        update(client, create(client, "tags"), "a")
        eventually(lambda: len(receiver.events) > 1)
        monkeypatch.setattr(deliverer, "GIVE_UP_SECONDS", 0.0)
        eventually(lambda: shown(client, webhook["id"])["state"] == "disabled")
        assert shown(client, webhook["id"])["reason"] == "status"
        text = client.get("/metrics").text
        assert f'manylabel_webhook_deliveries_total{{outcome="failed"}} {float(len(receiver.events))}' in text

    def test_a_full_queue_drops_events_and_reports_it(
        self, client: TestClient, receiver: Receiver, create: Create, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(webhook, "MAX_QUEUED", 4)
        is_up = False
        receiver.respond = lambda handler: status(handler, 200 if is_up else 500)
        made_one = made(client, receiver)
        address = create(client, "tags")
        for number in range(10):
            update(client, address, f"l{number}")
        eventually(lambda: shown(client, made_one["id"])["dropped"] == 6)
        is_up = True
        eventually(lambda: shown(client, made_one["id"])["waiting"] == 0)
        update(client, address, "after")
        assert receiver.waits_for("dropped")[0] == {"count": 6}
        eventually(lambda: ["after"] in [each["labels"] for each in receiver.of("label")])
        assert shown(client, made_one["id"])["dropped"] == 0

    def test_delivery_goes_on_after_a_restart(
        self, serve: Any, receiver: Receiver, quick: None, create: Create, tmp_path: Any
    ) -> None:
        receiver.respond = lambda handler: status(handler, 500)
        settings = {"data_dir": tmp_path / "data", "webhook_urls": origin_of(receiver.url)}
        with serve(**settings) as client:
            webhook = made(client, receiver)
            update(client, create(client, "tags"), "a")
            eventually(lambda: receiver.events)
        receiver.events.clear()
        receiver.respond = lambda handler: status(handler, 204)
        with serve(**settings) as client:
            eventually(lambda: shown(client, webhook["id"])["delivered"] == 1)
            update(client, "/v1/models/tags", "b")
            # The last attempt of the server that stopped may arrive late.
            eventually(lambda: [each["labels"] for each in receiver.of("label")][-2:] == [["a"], ["b"]])
        n_events = len(receiver.events)
        with serve(data_dir=tmp_path / "data", webhook_urls="https://elsewhere.test") as client:
            update(client, "/v1/models/tags", "c")
            eventually(lambda: shown(client, webhook["id"])["reason"] == "url_not_allowed")
        assert len(receiver.events) == n_events

    def test_a_deleted_webhook_gets_nothing(self, client: TestClient, receiver: Receiver, create: Create) -> None:
        deleted, stays = made(client, receiver), made(client, receiver, events=["label", "drift"])
        assert client.delete(f"/v1/webhooks/{deleted['id']}").status_code == 204
        assert client.get(f"/v1/webhooks/{deleted['id']}").status_code == 404
        eventually(lambda: len(running(client)) == 1)
        update(client, create(client, "tags"), "a")
        eventually(lambda: shown(client, stays["id"])["delivered"] == 1)
        assert len(receiver.events) == 1
        documents = client.app.state.context.webhooks._webhooks._documents  # type: ignore[attr-defined]
        assert set(client.portal.call(documents.revisions, webhook.STATES)) == {stays["id"]}  # type: ignore[union-attr]

    def test_a_test_is_sent_at_once(self, client: TestClient, receiver: Receiver) -> None:
        found = made(client, receiver)
        answer = client.post(f"/v1/webhooks/{found['id']}/test")
        WebhookDelivery.model_validate_json(answer.content, strict=True)
        assert (answer.json()["status"], answer.json()["error"]) == (204, None)
        assert receiver.of("test") == [{"webhook": found["id"]}]
        receiver.respond = lambda handler: status(handler, 500)
        answer = client.post(f"/v1/webhooks/{found['id']}/test")
        assert (answer.status_code, answer.json()["error"], answer.json()["attempt"]) == (200, "status", 1)
        assert shown(client, found["id"])["deliveries"] == []


async def tasks() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks()}


def running(client: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = client.app.state.context.webhooks._running  # type: ignore[attr-defined]
    return found


class TestRequests:
    """Accepted definitions, the keys that may create them, and the fields shown."""

    def test_the_secret_is_shown_once(self, client: TestClient, receiver: Receiver, create: Create) -> None:
        with structlog.testing.capture_logs() as lines:
            found = client.post("/v1/webhooks", json={"url": receiver.url, "events": ["label"]}).json()
            receiver.secret = secret = found["secret"]
            assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
            update(client, create(client, "tags"), "a")
            receiver.waits_for("label")
            eventually(lambda: shown(client, found["id"])["delivered"] == 1)
            client.post(f"/v1/webhooks/{found['id']}/test")
        one, listed = client.get(f"/v1/webhooks/{found['id']}"), client.get("/v1/webhooks")
        WebhookList.model_validate_json(listed.content, strict=True)
        lines_of_audit = audited(client)
        audit, metrics = repr(lines_of_audit), client.get("/metrics").text
        stored = [repr(each) for each in running(client).values()] + [
            repr(each.webhook) + repr(each.state) for each in running(client).values()
        ]
        for text in (one.text, listed.text, audit, metrics, repr(lines), *stored):
            assert secret not in text
        assert "t0p" not in audit + metrics + repr(lines) + "".join(stored), "an address may be a secret, too"
        assert [each["target"] for each in lines_of_audit if "webhooks" in each["route"]]

    @for_each(
        ("change", "place"),
        [
            ({"url": ""}, "/url"),
            ({"url": 7}, "/url"),
            ({"url": "ftp://127.0.0.1/"}, "/url"),
            ({"url": "http://127.0.0.1:1/"}, "/url"),
            ({"url": "http://user:word@{host}/"}, "/url"),
            ({"url": "http://{host}@127.0.0.1:1/"}, "/url"),
            ({"url": "http://{host}.example.org/"}, "/url"),
            ({"url": "http://{host}/\u00e9"}, "/url"),
            ({"url": "http://{host}/a b"}, "/url"),
            ({"url": "http://{host}/a\r\nx: y"}, "/url"),
            ({"url": "http://{host}/" + "a" * 2_000}, "/url"),
            ({"events": []}, "/events"),
            ({"events": ["update"]}, "/events/0"),
            ({"events": ["label", "label"]}, "/events"),
            ({"events": "label"}, "/events"),
            ({"models": []}, "/models"),
            ({"models": ["A b"]}, "/models/0"),
            ({"models": ["a"] * 101}, "/models"),
            ({"secret": "whsec_"}, "/secret"),
            ({"secret": "c2VjcmV0" * 4}, "/secret"),
            ({"secret": "whsec_" + base64.b64encode(b"a" * 23).decode()}, "/secret"),
            ({"secret": "whsec_" + base64.b64encode(b"a" * 65).decode()}, "/secret"),
            ({"secret": "whsec_!" + "c2VjcmV0" * 4}, "/secret"),
            ({"headers": {}}, "/headers"),
        ],
    )
    def test_a_wrong_field_is_named(
        self, client: TestClient, receiver: Receiver, refused: Refused, change: dict[str, Any], place: str
    ) -> None:
        host = str(origin_of(receiver.url)).removeprefix("http://")
        change = json.loads(json.dumps(change).replace("{host}", host))
        answer = client.post("/v1/webhooks", json={"url": receiver.url, "events": ["label"], **change})
        problem = refused(answer, 422, "invalid_request", place)
        assert SECRET not in json.dumps(problem)
        assert client.get("/v1/webhooks").json() == {"webhooks": []}

    def test_a_url_that_is_too_long_is_told_its_own_limit(self, client: TestClient, refused: Refused) -> None:
        answer = client.post("/v1/webhooks", json={"url": "http://h/" + "a" * 2_000, "events": ["label"]})
        detail = refused(answer, 422, "invalid_request", "/url")["detail"]
        assert detail == "/url must have at most 2,000 characters"

    def test_no_webhooks_without_the_setting(self, serve: Any, receiver: Receiver, refused: Refused) -> None:
        with serve() as client:
            answer = client.post("/v1/webhooks", json={"url": receiver.url, "events": ["label"]})
            assert "webhook_urls" in refused(answer, 422, "invalid_request", "/url")["detail"]
            assert "webhooks" not in client.portal.call(tasks), "nothing asks the store for webhooks"
        for setting in ("http://", "https://a.test/path", "ftp://a.test"):
            with pytest.raises(ValueError, match="webhook_urls"):
                Settings(webhook_urls=setting)
        with pytest.raises(ValueError, match="webhook_networks"):
            Settings(webhook_networks="10.0.0.0/99")

    def test_the_number_is_limited(self, serve: Any, receiver: Receiver, refused: Refused) -> None:
        with serve(webhook_urls=origin_of(receiver.url), max_webhooks=2) as client:
            first, _ = made(client, receiver), made(client, receiver)
            answer = client.post("/v1/webhooks", json={"url": receiver.url, "events": ["label"]})
            refused(answer, 507, "limit_exceeded")
            assert client.delete(f"/v1/webhooks/{first['id']}").status_code == 204
            made(client, receiver)

    def test_unknown_webhooks_are_not_found(self, client: TestClient, refused: Refused) -> None:
        for id in ("0" * 26, "x", "z" * 300):
            for method, path in (("get", ""), ("delete", ""), ("post", "/test"), ("post", "/enable")):
                refused(client.request(method, f"/v1/webhooks/{id}{path}"), 404, "webhook_not_found")

    def test_a_damaged_webhook_can_be_deleted(
        self, client: TestClient, receiver: Receiver, create: Create, refused: Refused
    ) -> None:
        damaged, intact = made(client, receiver)["id"], made(client, receiver)["id"]
        documents = client.app.state.context.webhooks._webhooks._documents  # type: ignore[attr-defined]

        async def damage() -> None:
            document = await documents.get(webhook.DEFINITIONS, damaged)
            await documents.put(webhook.DEFINITIONS, damaged, b"{", revision=document.revision)

        client.portal.call(damage)  # type: ignore[union-attr]
        listed = client.get("/v1/webhooks").json()
        assert ([each["id"] for each in listed["webhooks"]], listed["damaged"]) == ([intact], [damaged])
        refused(client.get(f"/v1/webhooks/{damaged}"), 404, "webhook_not_found")
        update(client, create(client, "tags"), "a")
        eventually(lambda: shown(client, intact)["delivered"] == 1)
        assert client.delete(f"/v1/webhooks/{damaged}").status_code == 204
        assert client.get("/v1/webhooks").json()["webhooks"][0]["id"] == intact

    def test_a_key_for_some_models_sees_only_their_webhooks(
        self, serve: Any, receiver: Receiver, refused: Refused
    ) -> None:
        with serve(webhook_urls=origin_of(receiver.url)) as client:
            keyed = Keyed(client)
            wanted = {"url": receiver.url, "events": ["label"]}
            everything = keyed.call("post", "/v1/webhooks", json=wanted).json()["id"]
            some = keyed.make(models=["tags-*"])["key"]
            refused(keyed.call("post", "/v1/webhooks", some, json=wanted), 403, "model_not_allowed")
            own = keyed.call("post", "/v1/webhooks", some, json={**wanted, "models": ["tags-a"]}).json()["id"]
            assert [each["id"] for each in keyed.call("get", "/v1/webhooks", some).json()["webhooks"]] == [own]
            for method, path in (("get", ""), ("delete", ""), ("post", "/test"), ("post", "/enable")):
                target, unknown = f"/v1/webhooks/{everything}{path}", f"/v1/webhooks/{everything[::-1]}{path}"
                foreign = refused(keyed.call(method, target, some), 404, "webhook_not_found")
                other = refused(keyed.call(method, unknown, some), 404, "webhook_not_found")
                assert foreign["detail"] == other["detail"].replace(everything[::-1], everything)
            assert keyed.call("delete", f"/v1/webhooks/{own}", some).status_code == 204
            line = audited(client)[-1]
            assert (line["method"], line["route"], line["target"]) == ("DELETE", "/v1/webhooks/{id}", own)
