"""Models of a SQLite store: rows of a table, created and removed in steps that a kill can interrupt."""

from collections.abc import Sequence

from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import SEED, Bytes, ModelMeta, position_key
from manylabel_service.storage.sqlite.engine import Part


class SQLiteModels(Part):
    """Implements `Models` on the engine of a store."""

    @gated
    async def create(self, name: str, spec: bytes, state: Bytes | None = None, at: str = SEED) -> ModelMeta:
        if state is None:
            return await self._engine.threads.write(self._engine.tables.create_model, name, spec)
        return await self._engine.background.finish(self._create_seeded(name, spec, state, at))

    @gated
    async def _create_seeded(self, name: str, spec: bytes, state: Bytes, at: str) -> ModelMeta:
        threads, tables = self._engine.threads, self._engine.tables
        record = await threads.write(tables.prepare_model, name, spec, at)
        try:
            await threads.file(self._engine.snapshot_files.write, record.incarnation, at, state)
            await threads.write(tables.reveal_model, record, at, len(state))
        except BaseException:
            self._engine.maintenance.forget(record.incarnation)
            raise
        return record

    def position_at(self, position: str) -> str:
        number, *rest = position_key(position)
        return str(number + any(rest))

    @gated
    async def stage(self, record: ModelMeta, at: str) -> ModelMeta:
        return await self._engine.threads.write(self._engine.tables.stage_model, record, at)

    @gated
    async def replace(self, successions: Sequence[tuple[ModelMeta, ModelMeta]]) -> None:
        await self._engine.threads.write_urgent(self._engine.tables.replace_models, successions)
        for record, successor in successions:
            if successor.incarnation != record.incarnation:
                self._engine.maintenance.forget(record.incarnation)

    @gated
    async def discard(self, successor: ModelMeta) -> None:
        if await self._engine.threads.write_urgent(self._engine.tables.discard_model, successor):
            self._engine.maintenance.forget(successor.incarnation)

    @gated
    async def find(self, name: str) -> ModelMeta | None:
        return await self._engine.threads.write(self._engine.tables.find_model, name)

    @gated
    async def all(self) -> list[ModelMeta]:
        return await self._engine.threads.write(self._engine.tables.models)

    @gated
    async def delete(self, record: ModelMeta) -> None:
        await self._engine.threads.write_urgent(self._engine.tables.hide_model, record)
        self._engine.maintenance.forget(record.incarnation)
