"""Several registries in one test, as if each were a separate process, on one Redis."""

import asyncio
import contextlib
import io
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.limits import settings_of
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_service.app import open_registry
from manylabel_service.errors import StorageUnavailable, VersionNotFound
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.models.registry import Registry
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.params import PARAMS
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.settings import Settings
from manylabel_service.storage import Store
from manylabel_service.trained.publishing import publish
from manylabel_service.trained.version import Promote, Version, VersionMeta
from manylabel_service.trained.version_store import VersionStore

each_learner = pytest.mark.parametrize(
    ("any_fleet", "algorithm"),
    [*zip(itertools.cycle(["redis", "sqlite"]), sorted(PARAMS), strict=False)],
    indirect=["any_fleet"],
)
"""Each algorithm on one store, in turn: a store does not see which algorithm has made the bytes."""
linear_and_kernel = pytest.mark.parametrize(
    ("any_fleet", "algorithm"), [("redis", "salt"), ("sqlite", "kernel_falt")], indirect=["any_fleet"]
)
"""A linear and a kernel algorithm, for tests of copied states and logs that are applied again."""


on_both_stores = pytest.mark.parametrize("any_fleet", ["redis", "sqlite"], indirect=True)


async def snapshot_bytes(replica: Replica, position: str) -> bytes:
    """A snapshot as it is stored."""
    file = io.BytesIO()
    await replica.files.snapshots.copy(position, file)
    return file.getvalue()


async def _never(*args: Any) -> None:
    await asyncio.Event().wait()


def version_meta(job: str = "job-1", trainer: str = "m3l") -> VersionMeta:
    """Metadata of a version of a trained model."""
    return VersionMeta(job, trainer, {"C": 1.0}, 60, {"micro_f1": 0.75}, 1_700_000_000_000)


class Fleet:
    """Registries on one store. Those still running when the test ends are killed.

    Attributes
    ----------
    redis_timeout_seconds : of the stores that are made from now on; short only where a test is about it.
    """

    redis_timeout_seconds = DEADLINE_SECONDS

    def __init__(self, make_store: Callable[[], Store], server: Any = None) -> None:
        self.server = server
        self._make_store = make_store
        self._stores: dict[Registry, Store] = {}
        self._jobs = itertools.count(1)

    async def start(self, *, preload: bool = True, **settings: Any) -> Registry:
        """Start a registry; with `preload`, restore all models at once."""
        registry = await self.begin(preload=False, **settings)
        for record in await self.store(registry).models.all() if preload else ():
            await registry.restore(record.name, time.monotonic())
        return registry

    async def begin(self, **settings: Any) -> Registry:
        """Start a registry as the product does."""
        store = self._make_store()
        await store.open()
        registry = open_registry(store, settings_of(**settings))
        self._stores[registry] = store
        await registry.start()
        return registry

    async def start_several(self, number: int, **settings: Any) -> list[Registry]:
        return [await self.start(**settings) for _ in range(number)]

    async def hosted(self, number: int, **settings: Any) -> tuple[list[Registry], list[Any]]:
        """Start registries; return them, and the replica of the model `m` in each."""
        registries = await self.start_several(number, **settings)
        await registries[0].create(self.spec())
        return registries, [await registry.get("m") for registry in registries]

    def store(self, registry: Registry) -> Store:
        return self._stores[registry]

    async def stop(self, registry: Registry) -> None:
        await registry.stop()
        await self._stores.pop(registry).close()

    async def kill(self, registry: Registry) -> None:
        """Leave behind what a killed process does: no last snapshot, nothing finished."""
        store = self._stores.pop(registry)
        registry.successions.recover = _never  # type: ignore[method-assign]
        for task in (*registry._tasks, *registry.successions._tasks.values()):
            task.cancel()
        await asyncio.gather(*registry._tasks, return_exceptions=True)
        await registry._loader.cancel()
        for replica in registry.resident():
            await replica.drop()
        await store.close()

    async def end(self) -> None:
        for registry in list(self._stores):
            with contextlib.suppress(StorageUnavailable):
                await self.kill(registry)

    # -- trained models ---------------------------------------------------------------------------

    async def publish(
        self, registry: Registry, version: Any, name: str = "m", promote: Promote = "always", job: str | None = None
    ) -> Version:
        """Publish a version as a job would in the process of this registry."""
        about = version_meta(job or f"job-{next(self._jobs)}")
        store = self.store(registry)
        number, _ = await publish(store, Settings(), name, version.contents, about, promote=promote)
        registry.poll(name)
        try:
            return await (await self.versions(registry, name)).find(number)
        except VersionNotFound:  # it has been deleted since
            return Version(number, "", 0, about)

    async def versions(self, registry: Registry, name: str = "m") -> VersionStore:
        """Return the versions of a model in the store of this registry."""
        record = await self.store(registry).models.find(name)
        assert record is not None
        return VersionStore(record, self.store(registry))

    # -- examples and states ----------------------------------------------------------------------

    @staticmethod
    def spec(name: str = "m", **fields: Any) -> ModelSpec:
        return ModelSpec.model_validate({"name": name, "algorithm": "falt", **fields})

    @staticmethod
    def example(i: int, width: int = 2) -> Example:
        names = ("a", *(f"b{(i + j) % 5}" for j in range(1, width)))
        values = np.arange(1, width + 1, dtype=np.float32) * (1 + i % 7)
        return Example(Features(names, None, values), Labels.all_of([f"l{i % 3}"]))

    async def agreed(self, name: str = "m") -> bytes:
        """Wait until all registries have the same model at the same position; its state."""
        registries = list(self._stores)
        for registry in registries:
            await registry.get(name)

        def models() -> list[Replica]:
            return [r for registry in registries for r in registry.resident() if r.spec.name == name]

        await eventually_async(lambda: len({replica.model.position for replica in models()}) == 1)
        states = {replica.model.to_bytes() for replica in models()}
        assert len(models()) == len(registries)
        assert len(states) == 1, "the replicas have the same position and different states"
        return states.pop()
