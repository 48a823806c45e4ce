"""Models of a SQLite store: rows of a table, created and removed in steps that a kill can interrupt."""

from collections.abc import Sequence

from manylabel_service.storage.gate import gated
from manylabel_service.storage.models import Models, Succession
from manylabel_service.storage.protocol import Logs, ModelMeta, position_key
from manylabel_service.storage.snapshots import Snapshots
from manylabel_service.storage.sqlite.engine import Engine


class SQLiteModels(Models):
    """Implements `Models` on the engine of a store."""

    def __init__(self, engine: Engine, logs: Logs, snapshots: Snapshots) -> None:
        super().__init__(engine.gate, engine.background, logs, snapshots)
        self._engine = engine

    def position_at(self, position: str) -> str:
        number, *rest = position_key(position)
        return str(number + any(rest))

    @gated
    async def find(self, name: str) -> ModelMeta | None:
        return await self._engine.threads.write(self._engine.tables.find_model, name)

    @gated
    async def all(self) -> list[ModelMeta]:
        return await self._engine.threads.write(self._engine.tables.models)

    async def _prepare(self, name: str, spec: bytes, at: str) -> ModelMeta:
        return await self._engine.threads.write(self._engine.tables.prepare_model, name, spec, at)

    async def _name(self, successions: Sequence[Succession]) -> None:
        await self._engine.threads.write_urgent(self._engine.tables.name_models, successions)

    async def _unname(self, record: ModelMeta) -> None:
        await self._engine.threads.write_urgent(self._engine.tables.hide_model, record)

    async def _discard(self, successor: ModelMeta) -> bool:
        return await self._engine.threads.write_urgent(self._engine.tables.discard_model, successor)

    async def _purge(self, record: ModelMeta) -> None:
        await self._engine.maintenance.forget(record.incarnation)
