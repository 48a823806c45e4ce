"""The part of `Models` that all stores share."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from manylabel_service.errors import ModelExists, ModelGone, StorageUnavailable
from manylabel_service.storage.background import BackgroundTasks, attempt
from manylabel_service.storage.gate import Gate, gated
from manylabel_service.storage.protocol import SEED, START, Bytes, Logs, ModelMeta
from manylabel_service.storage.snapshots import ModelSnapshots

Succession = tuple[ModelMeta | None, ModelMeta]
"""A model, None for a new name, and its successor."""


class ModelNames(ABC):
    """Creates, replaces and deletes models: logs with a name.

    A new model, like a successor, is prepared without a name. It exists once it has one. A deletion removes the name
    first.
    """

    def __init__(self, gate: Gate, background: BackgroundTasks, logs: Logs, snapshots: ModelSnapshots) -> None:
        self.gate = gate
        self._background = background
        self._logs = logs
        self._snapshots = snapshots

    @abstractmethod
    async def find(self, name: str) -> ModelMeta | None:
        """Return the current model of this name; None if missing."""

    @abstractmethod
    async def _prepare(self, name: str, spec: bytes, at: str) -> ModelMeta:
        """Add a log without a name, which ends at a position."""

    @abstractmethod
    async def _name(self, successions: Sequence[Succession]) -> None:
        """Name all successors in one step; raise `ModelGone` or `ModelExists`."""

    @abstractmethod
    async def _unname(self, record: ModelMeta) -> None:
        """Remove the name, after which all calls with the record raise `ModelGone`; raise `ModelGone`."""

    @abstractmethod
    async def _discard(self, successor: ModelMeta) -> bool:
        """Make a log without a name inaccessible; return whether it was one."""

    @abstractmethod
    def _purge(self, record: ModelMeta) -> Coroutine[Any, Any, None]:
        """Remove what a model without a name has left in the store."""

    @gated
    async def create(self, name: str, spec: bytes, state: Bytes | None = None, at: str = SEED) -> ModelMeta:
        if await self.find(name) is not None:
            raise ModelExists(name)
        return await self._background.finish(self._create(name, spec, state, at))

    async def _create(self, name: str, spec: bytes, state: Bytes | None, at: str) -> ModelMeta:
        record = await self._prepare(name, spec, START if state is None else at)
        try:
            if state is not None:
                await self._snapshots.put(record, at, state, foreign=True)
            await self._name([(None, record)])
        except BaseException as error:
            with suppress(StorageUnavailable):
                await self.discard(record)
            if isinstance(error, ModelGone):
                raise StorageUnavailable(f"creating model {name!r} took too long", heals=True) from error
            raise
        return record

    @gated
    async def stage(self, record: ModelMeta, at: str) -> ModelMeta:
        await self._logs.check(record)
        return await self._prepare(record.name, record.spec, at)

    @gated
    async def replace(self, successions: Sequence[tuple[ModelMeta, ModelMeta]]) -> None:
        await self._background.finish(self._name(successions))
        for record, successor in successions:
            if successor.incarnation != record.incarnation:
                self._forget(record)

    @gated
    async def discard(self, successor: ModelMeta) -> None:
        if await self._discard(successor):
            self._forget(successor)

    @gated
    async def delete(self, record: ModelMeta) -> None:
        await self._background.finish(self._unname(record))
        self._forget(record)

    def _forget(self, record: ModelMeta) -> None:
        self._background.begin(attempt(self._snapshots.forget(record.incarnation)))
        self._background.begin(attempt(self._purge(record)))
