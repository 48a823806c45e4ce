"""Models of a store: logs with a name."""

import json
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, NamedTuple

from manylabel_service.errors import ModelExists, ModelGone, StorageUnavailable
from manylabel_service.storage.background import BackgroundTasks, attempt
from manylabel_service.storage.gate import Gate, gated
from manylabel_service.storage.protocol import SEED, START, Bytes, Logs, ModelMeta
from manylabel_service.storage.snapshots import Snapshots

Succession = tuple[ModelMeta | None, ModelMeta]
"""Model (None for a new name) and its successor."""


class Use(NamedTuple):
    """Last recorded use of a model, by the clock of the store; a new model counts as used."""

    record: ModelMeta
    unix_ms: int
    age_ms: int
    """Milliseconds since the last use."""


def leader_of(spec: bytes) -> int | None:
    """Return the incarnation of the model whose log a model reads, from its spec; None if the model has its own log."""
    if b'"follow"' not in spec:
        return None
    try:
        document = json.loads(spec)
    except ValueError:
        return None
    found = document.get("follow") if isinstance(document, dict) else None
    leader = found.get("incarnation") if isinstance(found, dict) else None
    return leader if type(leader) is int else None


class Models(ABC):
    """Metadata of all models: name, incarnation and spec of each. All stores share the methods that are not abstract.

    A new model, or a successor, is prepared without a name, and exists when it gets a name. A deletion removes the name
    first.
    """

    def __init__(self, gate: Gate, background: BackgroundTasks, logs: Logs, snapshots: Snapshots) -> None:
        self.gate = gate
        self._background = background
        self._logs = logs
        self._snapshots = snapshots

    @abstractmethod
    async def find(self, name: str) -> ModelMeta | None:
        """Return the current model of this name; None if missing."""

    @abstractmethod
    async def all(self) -> list[ModelMeta]:
        """Return all models, in the order of their creation."""

    @abstractmethod
    async def count(self) -> int:
        """Return the number of models."""

    @abstractmethod
    async def existing(self, incarnations: Set[int]) -> dict[int, str]:
        """Return the incarnations of models, including damaged ones, and of staged successors, with their names. A
        store may not know the name of a successor."""

    @abstractmethod
    async def page(self, prefix: str, after: str, limit: int) -> list[ModelMeta]:
        """Return the next models whose names begin with a prefix and come after a name.

        They are sorted by the UTF-8 bytes of the names. If fewer than `limit` models are returned, they are the last
        ones.
        """

    @abstractmethod
    async def recent(self, before: tuple[int, str] | None, limit: int) -> list[Use]:
        """Return the next models in the order of their last use, latest first.

        `before` is the time of use and the name of the model after which the list continues. If fewer than `limit`
        models are returned, they are the last ones.
        """

    @abstractmethod
    async def use(self, ages_ms: Mapping[str, int]) -> None:
        """Record the last uses of models, by name, as milliseconds ago. Unknown names, and uses earlier than the
        recorded one, are ignored."""

    @abstractmethod
    async def followers(self, leader: ModelMeta) -> list[ModelMeta]:
        """Return the models that read the log of a model (see `leader_of`), in the order of their creation."""

    @abstractmethod
    def position_at(self, position: str) -> str:
        """Return the first position at which a log of this store can begin, at or after a position that may come from
        another store."""

    @abstractmethod
    async def _prepare(self, name: str, spec: bytes, at: str) -> ModelMeta:
        """Add an unnamed log that ends at a position."""

    @abstractmethod
    async def _name(self, successions: Sequence[Succession]) -> None:
        """Name all successors in one step; raise `ModelGone` or `ModelExists`."""

    @abstractmethod
    async def _unname(self, record: ModelMeta) -> None:
        """Remove the name; later calls with the record raise `ModelGone`. Raises `ModelGone` if there is no such
        name."""

    @abstractmethod
    async def _discard(self, successor: ModelMeta) -> bool:
        """Make an unnamed log inaccessible; return whether there was such a log."""

    @abstractmethod
    def _purge(self, record: ModelMeta) -> Coroutine[Any, Any, None]:
        """Remove the remains of an unnamed model from the store."""

    @gated
    async def create(self, name: str, spec: bytes, state: Bytes | None = None, at: str = SEED) -> ModelMeta:
        """Add a model with an empty log.

        A state becomes the snapshot of the model at the position `at`. The log counts as trimmed up to this position,
        so that no process assumes that the model began empty. Without a state, the model has no snapshot. `at` is
        `SEED` or a result of `position_at`; all positions of the log are above it.

        Raises `ModelExists` if the name is taken; exactly one of several concurrent attempts succeeds.
        """
        if state is not None and await self.find(name) is not None:  # otherwise, `_name` raises the error
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
        """Prepare a successor of a model: another incarnation with its spec, whose log ends, without entries, at a
        position.

        The successor is not listed, and is removed some time after its process has died. Calls with its record work
        like those of any model. Raises `ModelGone`.
        """
        await self._logs.check(record)
        return await self._prepare(record.name, record.spec, at)

    @gated
    async def replace(self, successions: Sequence[tuple[ModelMeta, ModelMeta]]) -> None:
        """Give the names of models to their successors atomically, and delete the replaced models like `delete`.

        Each pair is a model and its successor, with the new spec. A successor with the same incarnation is the model
        itself, which only gets a new spec. Raises `ModelGone` if a model was deleted, or a successor was discarded;
        then nothing has changed.
        """
        await self._background.finish(self._name(successions))
        for record, successor in successions:
            if successor.incarnation != record.incarnation:
                await self._forget(record)

    @gated
    async def discard(self, successor: ModelMeta) -> None:
        """Remove a successor that has not replaced its model; the replacement is no longer possible."""
        if await self._discard(successor):
            await self._forget(successor)

    @gated
    async def delete(self, record: ModelMeta) -> None:
        """Remove the model with its log and its snapshots.

        When this returns, the name is free and every call with this record raises `ModelGone`. A call in progress
        either completes as if before the deletion, or also raises. The space may be freed later, in steps.
        """
        await self._background.finish(self._unname(record))
        await self._forget(record)

    async def _forget(self, record: ModelMeta) -> None:
        self._background.begin(attempt(self._purge(record)))
        await self._background.finish(attempt(self._snapshots.forget(record.incarnation)))
