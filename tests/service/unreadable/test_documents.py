"""A document that cannot be read stays as it is: whatever its kind, whatever the reason, whatever the server does."""

import json
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from starlette.testclient import TestClient
from tests.service.unreadable.filling import CannotStart, Filled, check_everything, context_of, ok, serving, work
from tests.service.unreadable.places import OnRedis
from tests.support.stored_models import stored_models

from manylabel_service.access.key import Key
from manylabel_service.archive.store_documents import Origin, RestoreMark
from manylabel_service.datasets.records import DatasetDocument
from manylabel_service.jobs.job_record import JobDocument
from manylabel_service.jobs.queue_limit import Claims
from manylabel_service.models.membership import Member
from manylabel_service.online.history.catalogue import Catalogue
from manylabel_service.online.history.lineage import Lineage
from manylabel_service.storage import StoredModel
from manylabel_service.storage.blob_places import Places
from manylabel_service.storage.checksums import SEAL_BYTES
from manylabel_service.storage.snapshots import SnapshotTable
from manylabel_service.trained.version_store import VersionCatalogue
from manylabel_service.webhooks.webhook import DeliveryState, Webhook

MODELS = [model for model in stored_models() if model is not RestoreMark]
UNREADABLE = ("newer", "wrong", "flipped")
LATER = {"of": ["a", "later", "release"]}

Answer = tuple[int, str | None]
"""Status and code."""


def _get(path: str) -> Callable[[TestClient, Filled], Answer]:
    return lambda client, filled: _answer(client.get(path.format(filled=filled)))


def _answer(response: Any) -> Answer:
    return response.status_code, None if response.is_success else response.json()["code"]


def _by_reader(client: TestClient, filled: Filled) -> Answer:
    return _answer(client.get("/v1/models", headers={"api-key": filled.reader}))


def _submitted(client: TestClient, filled: Filled) -> Answer:
    return _answer(client.post("/v1/jobs", json={"trainer": "m3l", "data": {"dataset": "rows"}, "model": "other"}))


def _predicted(client: TestClient, filled: Filled) -> Answer:
    return _answer(client.post("/v1/models/t/predict", json={"x": {"v": 1.0}}))


def _learnt(client: TestClient, filled: Filled) -> Answer:
    return _answer(client.post("/v1/models/m/update", json={"x": {"a": 1.0}, "y": ["l0"]}))


def _archived(client: TestClient, filled: Filled) -> Answer:
    error = context_of(client).archive.status.error
    return 0, next((word for word in ("upgrade", "damaged") if word in str(error)), error)


TOO_OLD, DAMAGED = (503, "release_too_old"), (500, "storage_damaged")
SAID: dict[type[StoredModel], tuple[Callable[[TestClient, Filled], Answer], Answer | None, Answer | None]] = {
    Catalogue: (_get("/v1/models/m/log"), TOO_OLD, DAMAGED),
    Claims: (_submitted, TOO_OLD, (202, None)),
    DatasetDocument: (_get("/v1/datasets/rows"), TOO_OLD, DAMAGED),
    DeliveryState: (_get("/v1/webhooks/{filled.webhook}"), TOO_OLD, DAMAGED),
    JobDocument: (_get("/v1/jobs/{filled.job}"), TOO_OLD, DAMAGED),
    Key: (_by_reader, TOO_OLD, (401, "key_invalid")),
    Lineage: (_get("/v1/models/g/forget"), TOO_OLD, DAMAGED),
    Member: (_get("/v1/replicas"), (200, None), (200, None)),
    Origin: (_archived, (0, "upgrade"), (0, "damaged")),
    Places: (_get("/v1/models"), None, None),
    SnapshotTable: (_learnt, TOO_OLD, (200, None)),
    VersionCatalogue: (_predicted, TOO_OLD, (500, "model_damaged")),
    Webhook: (_get("/v1/webhooks/{filled.webhook}"), TOO_OLD, (404, "webhook_not_found")),
}
"""A request, and its answers if the document is newer, and if it is damaged; None: the server does not start."""


def spoil(filled: Filled, model: type[StoredModel], how: str) -> None:
    place, document = filled.place, filled.documents[model]
    value = json.loads(place.value(document))
    if how == "newer":
        place.put_document(document, json.dumps({"format": model.FORMAT + 1, "release": "99", "x": LATER}).encode())
    elif how == "wrong":
        wrong = dict.fromkeys(value.keys() - {"format", "release"}, -1.5)
        place.put_document(document, json.dumps({**value, **wrong}).encode())
    elif how == "flipped":
        place.flip_document(document)
    elif how == "unknown":
        place.put_document(document, json.dumps({**value, "later": LATER}).encode())


def lost_blobs(filled: Filled, before: dict[str, bytes], unreadable: str | None) -> set[str]:
    """The blobs that are gone or changed, except snapshots that the retention dropped, of models with a readable
    table."""
    after = filled.place.blobs()
    lost = {key for key, data in before.items() if after.get(key) != data}
    return {key for key in lost if not key.startswith("snapshots/") or key.split("/")[1] == unreadable}


def test_each_kind_of_document_is_tried(filled: Filled) -> None:
    assert set(SAID) == set(MODELS), "a new kind of document: say here what a server answers when it cannot be read"
    assert set(filled.documents) == {*MODELS, RestoreMark}
    there = set(filled.place.documents())
    assert {document for model, document in filled.documents.items() if model is not RestoreMark} <= there
    assert {kind for kind, _ in there} == {filled.documents[model][0] for model in MODELS}


@pytest.mark.parametrize("how", UNREADABLE)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_an_unreadable_document_stays_and_other_things_go_on(
    copied: Filled, model: type[StoredModel], how: str
) -> None:
    place, document = copied.place, copied.documents[model]
    documents, blobs = place.documents(), place.blobs()
    spoil(copied, model, how)
    spoiled = place.documents()[document]
    ask, newer, damaged = SAID[model]
    expected = newer if how == "newer" else damaged
    if expected is None:
        with pytest.raises(CannotStart), serving(place, copied.admin):
            pass
    else:
        with serving(place, copied.admin) as client:
            work(client)
            assert ask(client, copied) == expected
            assert client.get("/v1/models").status_code == 200
            assert client.post("/v1/models/g/update", json={"x": {"a": 1.0}, "y": ["l0"]}).status_code == 200
    after = place.documents()
    assert after[document] == spoiled
    assert documents.keys() - after.keys() == set()
    assert lost_blobs(copied, blobs, document[1] if model is SnapshotTable else None) == set()
    place.write_document(document, documents[document])
    with serving(place, copied.admin) as client:
        check_everything(copied, client)


def test_a_webhook_with_a_damaged_queue_is_listed_as_damaged(copied: Filled) -> None:
    spoil(copied, DeliveryState, "flipped")
    with serving(copied.place, copied.admin) as client:
        assert ok(client.get("/v1/webhooks"))["damaged"] == [copied.webhook]
        assert client.delete(f"/v1/webhooks/{copied.webhook}").is_success
        assert ok(client.get("/v1/webhooks")) == {"webhooks": []}


def test_a_dataset_that_a_newer_job_may_need_is_not_deleted(copied: Filled) -> None:
    document = copied.documents[JobDocument]
    before = copied.place.documents()[document]
    spoil(copied, JobDocument, "newer")
    with serving(copied.place, copied.admin) as client:
        assert _answer(client.delete("/v1/datasets/rows")) == TOO_OLD
        assert ok(client.get("/v1/datasets/rows"))["rows"] == 20
    copied.place.write_document(document, before)
    with serving(copied.place, copied.admin) as client:
        assert _answer(client.delete("/v1/datasets/rows")) == (409, "dataset_in_use")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_field_of_a_later_release_stays(copied: Filled, model: type[StoredModel]) -> None:
    place, document = copied.place, copied.documents[model]
    documents, blobs = place.documents(), place.blobs()
    spoil(copied, model, "unknown")
    with serving(place, copied.admin) as client:
        work(client)
        check_everything(copied, client)
    after = place.documents()
    assert json.loads(after[document][SEAL_BYTES:])["later"] == LATER
    assert documents.keys() - after.keys() == set()
    assert lost_blobs(copied, blobs, None) == set()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_lack_of_memory_loses_nothing(
    copied: Filled, model: type[StoredModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = copied.place
    documents, blobs = place.documents(), place.blobs()
    tried = []

    def once(value: bytes) -> NoReturn:
        tried.append(value)
        monkeypatch.undo()
        raise MemoryError

    monkeypatch.setattr(model, "model_validate_json", once)
    try:
        with serving(place, copied.admin) as client:
            work(client)
    except CannotStart:
        pass
    assert len(tried) == 1 or (model is Member and not isinstance(place, OnRedis)), "a lone server reads no others"
    assert documents.keys() - place.documents().keys() == set()
    assert lost_blobs(copied, blobs, None) == set()
    with serving(place, copied.admin) as client:
        check_everything(copied, client)


@pytest.mark.parametrize("value", [b"{}", b'{"format": 2, "release": "99"}'], ids=["damaged", "newer"])
def test_no_server_starts_on_an_unreadable_mark_of_a_restore(copied: Filled, value: bytes) -> None:
    place, document = copied.place, copied.documents[RestoreMark]

    async def put(store: Any) -> None:
        await store.documents.put(*document, value, revision=None)

    place.run(put)
    documents, blobs = place.documents(), place.blobs()
    with pytest.raises(CannotStart), serving(place, copied.admin):
        pass
    assert (place.documents(), place.blobs()) == (documents, blobs)
