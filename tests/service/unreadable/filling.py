"""Fills a store through a server, has a server work over it, and checks that everything is there."""

import contextlib
import math
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

from starlette.testclient import TestClient
from tests.service.api.answers import create, ok
from tests.service.fleet import version_meta
from tests.service.test_two_servers import contents
from tests.service.unreadable.places import Document, Place
from tests.support.described_client import DescribedClient
from tests.support.limits import settings_of
from tests.support.waiting import DEADLINE_SECONDS, eventually

from manylabel_service.access.key import KIND as KEYS
from manylabel_service.access.key import Key
from manylabel_service.app import create_app
from manylabel_service.archive.store_documents import ARCHIVE, RESTORE, Origin, RestoreMark
from manylabel_service.datasets.dataset_store import KIND as DATASETS
from manylabel_service.datasets.records import DatasetDocument
from manylabel_service.jobs.job_record import JobDocument
from manylabel_service.jobs.job_store import KIND as JOBS
from manylabel_service.jobs.job_store import gathered_key
from manylabel_service.jobs.queue_limit import KIND as CLAIMS
from manylabel_service.jobs.queue_limit import NAME, Claims
from manylabel_service.models import membership
from manylabel_service.models.membership import KIND as MEMBERS
from manylabel_service.models.membership import Member
from manylabel_service.online.history.catalogue import KIND as HISTORY
from manylabel_service.online.history.catalogue import Catalogue
from manylabel_service.online.history.lineage import KIND as LINEAGES
from manylabel_service.online.history.lineage import Lineage
from manylabel_service.settings import Settings
from manylabel_service.storage import Store, StoredModel, open_store, pieces_of
from manylabel_service.storage.blob_places import KIND as PLACES
from manylabel_service.storage.blob_places import Places
from manylabel_service.storage.snapshots import KIND as SNAPSHOTS
from manylabel_service.storage.snapshots import SnapshotTable
from manylabel_service.trained.publishing import publish
from manylabel_service.trained.version_store import KIND as VERSIONS
from manylabel_service.trained.version_store import VersionCatalogue
from manylabel_service.webhooks.webhook import DEFINITIONS, STATES, DeliveryState, Webhook

ROWS = b"x,y,a,b\n" + b"".join(b"%d,%d,%d,%d\n" % (n, -n, n % 2, n % 3 == 0) for n in range(20))
SETTINGS: dict[str, Any] = {
    "webhook_urls": "http://127.0.0.1:9",
    "job_slots": 0,
    "snapshot_retention_count": 2,
    "snapshot_every_seconds": 3600.0,
    "archive_seconds": 3600.0,
}
N_UPDATES = 24


class Filled(NamedTuple):
    """A filled store.

    Attributes
    ----------
    documents : the document of each kind that a test replaces.
    """

    place: Place
    documents: dict[type[StoredModel], Document]
    admin: str
    reader: str
    prediction: str
    job: str
    webhook: str
    receipt: str
    incarnations: dict[str, str]


class CannotStart(Exception):
    """The server refused to start."""


@contextlib.contextmanager
def serving(place: Place, admin: str | None = None) -> Iterator[TestClient]:
    """A server of a place, and a client with a key; no replica expires meanwhile. Raises CannotStart."""
    settings = settings_of(**{"job_niceness": 0, **place.settings, **SETTINGS})
    ended, failed = threading.Event(), threading.Event()

    def fail() -> None:
        failed.set()
        ended.set()

    app = create_app(settings, open_store(settings), on_ready=ended.set, on_failure=fail)
    headers = {} if admin is None else {"api-key": admin}
    with (
        patch.object(membership, "EXPIRY_SECONDS", math.inf),
        DescribedClient(app, base_url="http://localhost", raise_server_exceptions=False, headers=headers) as client,
    ):
        assert ended.wait(DEADLINE_SECONDS)
        if failed.is_set():
            raise CannotStart
        yield client


def context_of(client: TestClient) -> Any:
    app: Any = client.app
    return app.state.context


def call(client: TestClient, function: Any, *args: Any) -> Any:
    assert client.portal is not None
    return client.portal.call(function, *args)


def update(client: TestClient, model: str, number: int) -> Any:
    label = f"l{number % 3}"
    return client.post(f"/v1/models/{model}/update", json={"x": {"a": 1.0, f"b{number % 5}": 1.0}, "y": [label]})


def fill(place: Place) -> Filled:
    """Fill an empty place."""
    with serving(place) as client:
        admin = client.post("/v1/keys", json={"name": "admin", "scopes": ["admin"]}).json()
        client.headers["api-key"] = admin["key"]
        reader = client.post("/v1/keys", json={"name": "reader", "scopes": ["read"]}).json()
        webhook = client.post("/v1/webhooks", json={"url": "http://127.0.0.1:9/", "events": ["label"], "models": ["*"]})
        assert webhook.status_code == 201, webhook.text
        for name in ("m", "g"):
            create(client, name)
        for number in range(N_UPDATES):
            ok(update(client, "m", number))
            if number % 4 == 0:
                _snapshot(client, "m")
        prediction = ok(client.post("/v1/models/m/predict?keep=true", json={"x": {"a": 1.0}}))["id"]
        for number in range(4):
            ok(update(client, "g", number))
        position = ok(update(client, "g", 4))["position"]
        begun = client.post("/v1/models/g/forget", json={"positions": [position]})
        assert begun.status_code == 202, begun.text
        receipt = begun.json()["id"]
        eventually(lambda: ok(client.get(f"/v1/models/g/forget/{receipt}"))["status"] == "done")
        csv = {"Content-Type": "text/csv"}
        added = client.post("/v1/datasets?name=rows&format=csv&label_columns=2", content=ROWS, headers=csv)
        assert added.status_code == 201, added.text
        store = context_of(client).registry._store
        call(client, partial(publish, store, Settings(), "t", contents(), version_meta("job-1"), promote="always"))
        job = client.post("/v1/jobs", json={"trainer": "m3l", "data": {"dataset": "rows"}, "model": "later"})
        assert job.status_code == 202, job.text
        work(client)
        eventually(lambda: any(kind == STATES for kind, _ in place.documents()))
        records = call(client, store.models.all)
    incarnations = {record.name: str(record.incarnation) for record in records}

    async def add(store: Store) -> None:
        await store.documents.put(MEMBERS, "dead", Member(id="dead").to_bytes(), revision=None)
        await store.documents.put(PLACES, PLACES, Places().to_bytes(), revision=None)
        await store.blobs.put(gathered_key(job.json()["id"]), pieces_of(b"examples"))

    place.run(add)
    documents: dict[type[StoredModel], Document] = {
        Catalogue: (HISTORY, incarnations["m"]),
        Claims: (CLAIMS, NAME),
        DatasetDocument: (DATASETS, "rows"),
        DeliveryState: (STATES, webhook.json()["id"]),
        JobDocument: (JOBS, job.json()["id"]),
        Key: (KEYS, reader["id"]),
        Lineage: (LINEAGES, "g"),
        Member: (MEMBERS, "dead"),
        Origin: (ARCHIVE, ARCHIVE),
        Places: (PLACES, PLACES),
        RestoreMark: (RESTORE, RESTORE),
        SnapshotTable: (SNAPSHOTS, incarnations["m"]),
        VersionCatalogue: (VERSIONS, incarnations["t"]),
        Webhook: (DEFINITIONS, webhook.json()["id"]),
    }
    ids = job.json()["id"], webhook.json()["id"], receipt
    return Filled(place, documents, admin["key"], reader["key"], prediction, *ids, incarnations)


def _snapshot(client: TestClient, model: str) -> None:
    async def take() -> None:
        await (await context_of(client).registry.get(model)).take_snapshot()

    call(client, take)


def work(client: TestClient) -> None:
    """Have the server do what it does in an hour; errors of the parts that cannot work are ignored."""
    context = context_of(client)
    for model in ("m", "g"):
        for number in range(3):
            update(client, model, number)
            with contextlib.suppress(Exception):
                _snapshot(client, model)
    client.post("/v1/jobs", json={"trainer": "m3l", "data": {"dataset": "rows"}, "model": "later"})
    for path in ("/v1/keys", "/v1/webhooks", "/v1/jobs", "/v1/datasets", "/v1/models", "/v1/models/t/versions"):
        client.get(path)

    async def passes() -> None:
        await context.keyring._poll()
        await context.jobs._monitor._poll()
        await context.jobs._monitor._collect_garbage()
        context.webhooks._looked_at = float("-inf")
        await context.webhooks._poll()
        await context.registry.membership._beat()
        await context.registry.successions.look()
        shipper = context.archive._shipper
        if shipper is not None:
            await context.archive._pass(shipper)
        for model in context.registry.resident():
            await context.registry._eviction._leaves(model, "idle")

    call(client, passes)
    update(client, "m", 1)


def check_everything(filled: Filled, client: TestClient) -> None:
    """Everything that `fill` made is there."""
    status = {each["name"]: each for each in ok(client.get("/v1/models"))["models"]}
    assert set(status) >= {"m", "g", "t"}
    assert ok(client.get("/v1/models/m"))["updates"] >= N_UPDATES
    snapshots = ok(client.get("/v1/models/m/snapshots"))["snapshots"]
    assert client.get(f"/v1/models/m/snapshots/{snapshots[0]['position']}").status_code == 200
    log = client.get("/v1/models/m/log").text.splitlines()
    assert len(log) >= N_UPDATES
    assert ok(client.get("/v1/models/m/predictions"))
    (receipt,) = ok(client.get("/v1/models/g/forget"))["receipts"]
    assert receipt["id"] == filled.receipt
    assert ok(client.get("/v1/keys"))["keys"]
    assert client.get("/v1/models", headers={"api-key": filled.reader}).status_code == 200
    assert ok(client.get("/v1/datasets/rows"))["rows"] == 20
    assert ok(client.get(f"/v1/jobs/{filled.job}"))["state"] == "queued"
    assert ok(client.post("/v1/models/t/predict", json={"x": {"v": 1.0}}))
    assert ok(client.get(f"/v1/webhooks/{filled.webhook}"))["waiting"] > 0
    assert context_of(client).archive.status.error is None
