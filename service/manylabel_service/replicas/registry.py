"""The models of this process, by name."""

import asyncio

import structlog

from manylabel_service.errors import (
    LimitExceeded,
    ModelExists,
    ModelNotFound,
    NotReady,
    StorageError,
)
from manylabel_service.replicas.entries import UnreadableEntry
from manylabel_service.replicas.replica import Replica
from manylabel_service.replicas.spec import ModelSpec
from manylabel_service.replicas.warmup import warm_up
from manylabel_service.settings import Settings
from manylabel_service.storage import ModelRecord, Store

log = structlog.get_logger()


class Registry:
    """Creates, finds, lists and deletes replicas.

    Attributes
    ----------
    ready : True once the kernels are compiled and every model is restored, until `stop`.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._replicas: dict[str, Replica] = {}
        self._creating: set[str] = set()
        self.ready = False

    async def start(self) -> None:
        """Warm the kernels and restore every model of the store.

        Raises
        ------
        StorageError
            The list of models cannot be read.
        """
        records = await self._store.models()
        self._replicas = {r.name: Replica(r, self._store, self._settings) for r in records}
        await asyncio.to_thread(warm_up)
        for replica in self._replicas.values():
            await self._restore(replica)
        self.ready = True

    async def _restore(self, replica: Replica) -> None:
        name = replica.spec.name
        try:
            await replica.restore()
        except Exception as error:  # whatever it is, it must not keep the other models from serving
            expected = isinstance(error, StorageError | UnreadableEntry)
            action = "delete it, or mend the store"
            log.error("model_not_restored", model=name, error=str(error), action=action, exc_info=not expected)
            replica.fail(lambda: NotReady(f"model {name!r} could not be restored; see the server's log"))
        else:
            log.info("model_restored", model=name, position=replica.model.position, updates=replica.model.updates)

    @property
    def failed(self) -> list[str]:
        """Names of models that could not be restored, or broke; they answer 503, the others are not held up."""
        return [replica.spec.name for replica in self.list() if replica.failed]

    async def stop(self) -> None:
        """Finish what waits, and take last snapshots: one after the other, each as large as its model."""
        self.ready = False
        for replica in self._replicas.values():
            replica.stop_learning()
        for replica in self._replicas.values():
            try:
                await replica.stop()
            except Exception:  # the others, and the store, still have to be put away in good order
                log.exception("model_not_stopped", model=replica.spec.name)

    def get(self, name: str) -> Replica:
        """The replica of a model.

        Raises
        ------
        ModelNotFound
        NotReady
            The model is not there, and until every model is restored nobody knows whether it will be.
        """
        replica = self._replicas.get(name)
        if replica is None:
            self.require_ready()
            raise ModelNotFound(name)
        return replica

    def require_ready(self) -> None:
        """Raise NotReady until every model is restored, and once the server is stopping."""
        if not self.ready:
            raise NotReady("the server is starting or stopping")

    def list(self) -> list[Replica]:
        """All replicas, by name."""
        return [self._replicas[name] for name in sorted(self._replicas)]

    async def create(self, spec: ModelSpec) -> Replica:
        """A new model, ready to learn.

        Raises
        ------
        NotReady, ModelExists, LimitExceeded, StorageError
        """
        self.require_ready()
        if spec.name in self._replicas or spec.name in self._creating:
            raise ModelExists(spec.name)
        self._check_limits(spec)
        self._creating.add(spec.name)
        try:
            record = await self._store.create_model(spec.name, spec.model_dump_json().encode())
        finally:
            self._creating.discard(spec.name)
        return self._host(record)

    def _host(self, record: ModelRecord) -> Replica:
        replica = Replica(record, self._store, self._settings)
        self._replicas[record.name] = replica
        replica.start()
        return replica

    def _check_limits(self, spec: ModelSpec) -> None:
        settings = self._settings
        n_features = spec.features if isinstance(spec.features, int) else len(spec.features or ())
        n_labels = len(spec.labels or ())
        nbytes = spec.learner().nbytes_after(n_features, n_labels, 0, 0)
        for what, size, limit in (
            ("the number of models", len(self._replicas) + len(self._creating) + 1, settings.max_models),
            (f"features of model {spec.name!r}", n_features, settings.max_features),
            (f"labels of model {spec.name!r}", n_labels, settings.max_labels),
            (f"bytes of model {spec.name!r}", nbytes, settings.max_model_bytes),
        ):
            if size > limit:
                raise LimitExceeded(what, size, limit)

    async def delete(self, name: str) -> None:
        """Delete a model with its log and its snapshots.

        Raises
        ------
        NotReady, ModelNotFound, StorageError
        """
        self.require_ready()
        replica = self.get(name)
        await self._store.delete_model(replica.record)
        self._replicas.pop(name, None)
        await replica.drop()
