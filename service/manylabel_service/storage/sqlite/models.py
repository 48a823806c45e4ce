"""Models of a SQLite store: rows of a table, created and removed in steps that a kill can interrupt.

A model without a name does not exist for callers: it is being prepared, or was deleted.
"""

from collections.abc import Mapping, Sequence, Set

from manylabel_service.clock import now_ms
from manylabel_service.errors import ModelExists
from manylabel_service.storage.checksums import first_link
from manylabel_service.storage.gate import gated
from manylabel_service.storage.models import Models, Succession, Use
from manylabel_service.storage.protocol import Bytes, ModelMeta, position_key
from manylabel_service.storage.snapshots import Snapshots
from manylabel_service.storage.sqlite.engine import Engine, Part, in_writer, urgent_in_writer
from manylabel_service.storage.sqlite.logs import SQLiteLogs, number_of
from manylabel_service.storage.sqlite.predictions import SQLitePredictions
from manylabel_service.storage.sqlite.tables import COLUMNS, LAST_NUMBER, Model, bounds


class SQLiteModels(Part, Models):
    """Implements `Models` on the engine of a store."""

    def __init__(self, engine: Engine, logs: SQLiteLogs, predictions: SQLitePredictions, snapshots: Snapshots) -> None:
        Part.__init__(self, engine)
        Models.__init__(self, engine.gate, engine.background, logs, snapshots)
        self._entries = logs
        self._predictions = predictions
        self._count = 0

    def position_at(self, position: str) -> str:
        number, *rest = position_key(position)
        return str(number + any(rest))

    @in_writer
    def find(self, name: str) -> ModelMeta | None:
        return self._find(name)

    def _find(self, name: str) -> ModelMeta | None:
        found = self._tables.models("name = ?", name)
        return found[0].record if found else None

    @in_writer
    def all(self) -> list[ModelMeta]:
        return [model.record for model in self._tables.models("name IS NOT NULL ORDER BY incarnation")]

    @gated
    async def count(self) -> int:
        return self._count

    @in_writer
    def existing(self, incarnations: Set[int]) -> dict[int, str]:
        marks = ", ".join("?" * len(incarnations))
        condition = f"incarnation IN ({marks}) AND name IS NOT NULL"
        rows = self._connection.execute(f"SELECT incarnation, name FROM models WHERE {condition}", list(incarnations))
        return {**dict.fromkeys(incarnations & self._tables.staged, ""), **dict(rows.fetchall())}

    @in_writer
    def page(self, prefix: str, after: str, limit: int) -> list[ModelMeta]:
        condition = "name BETWEEN ? AND ? AND name > ? ORDER BY name LIMIT ?"
        return [model.record for model in self._tables.models(condition, *bounds(prefix), after, limit)]

    @in_writer
    def recent(self, before: tuple[int, str] | None, limit: int) -> list[Use]:
        rows = self._connection.execute(
            f"SELECT {COLUMNS}, unix_ms FROM uses CROSS JOIN models ON uses.name = models.name"
            " WHERE (unix_ms, uses.name) < (?, ?) ORDER BY unix_ms DESC, uses.name DESC LIMIT ?",
            (*(before or (LAST_NUMBER, "")), limit),
        )
        now = now_ms()
        return [Use(Model.of(*row).record, int(unix_ms), max(0, now - unix_ms)) for *row, unix_ms in rows]

    @in_writer
    def use(self, ages_ms: Mapping[str, int]) -> None:
        uses = [(name, now_ms() - age_ms) for name, age_ms in ages_ms.items()]
        with self._tables.transaction("log"):
            self._connection.executemany("UPDATE uses SET unix_ms = ?2 WHERE name = ?1 AND unix_ms < ?2", uses)

    @in_writer
    def followers(self, leader: ModelMeta) -> list[ModelMeta]:
        condition = "leader = ? AND name IS NOT NULL ORDER BY incarnation"
        found = [model.record for model in self._tables.models(condition, leader.incarnation)]
        return [record for record in found if not record.damaged]

    async def _create(self, name: str, spec: bytes, state: Bytes | None, at: str) -> ModelMeta:
        return await (self._add(name, spec) if state is None else super()._create(name, spec, state, at))

    @in_writer
    def _add(self, name: str, spec: bytes) -> ModelMeta:
        """Add a model without a snapshot in one step."""
        with self._tables.transaction("fsync"):
            if self._find(name) is not None:
                raise ModelExists(name)
            incarnation = self._insert(name, spec, 0)
            self._connection.execute("INSERT OR REPLACE INTO uses VALUES (?, ?)", (name, now_ms()))
        self._count += 1
        return ModelMeta(name, incarnation, spec)

    @in_writer
    def _prepare(self, name: str, spec: bytes, at: str) -> ModelMeta:
        with self._tables.transaction("log"):
            incarnation = self._insert(None, spec, number_of(at))
        self._tables.staged.add(incarnation)
        return ModelMeta(name, incarnation, spec)

    def _insert(self, name: str | None, spec: bytes, trimmed: int) -> int:
        """Add the row of a model and the end of its log; return its incarnation."""
        incarnation = self._connection.execute("INSERT INTO models (spec) VALUES (?)", (b"",)).lastrowid
        assert incarnation is not None
        self._tables.write_model(incarnation, name, spec, trimmed)
        self._entries.insert(incarnation, trimmed + 1, (), first_link(incarnation), now_ms=0)
        return incarnation

    @urgent_in_writer
    def _name(self, successions: Sequence[Succession]) -> None:
        with self._tables.transaction("fsync"):
            trimmed = []
            for record, successor in successions:
                trimmed.append(self._tables.intact(successor).trimmed)
                if record is not None:
                    self._hide(record)
                elif self._find(successor.name) is not None:
                    raise ModelExists(successor.name)
            for (record, successor), through in zip(successions, trimmed, strict=True):
                self._tables.write_model(successor.incarnation, successor.name, successor.spec, through)
                if record is None:
                    self._connection.execute("INSERT OR REPLACE INTO uses VALUES (?, ?)", (successor.name, now_ms()))
        for record, successor in successions:
            self._tables.staged.discard(successor.incarnation)
            self._count += record is None
            if record is not None and successor.incarnation != record.incarnation:
                self._tables.logs.pop(record.incarnation, None)
                self._tables.sealed.discard(record.incarnation)

    @urgent_in_writer
    def _discard(self, successor: ModelMeta) -> bool:
        if successor.incarnation not in self._tables.staged:
            return False
        self._delete(successor)
        self._tables.staged.discard(successor.incarnation)
        return True

    @urgent_in_writer
    def _unname(self, record: ModelMeta) -> None:
        self._delete(record)
        self._count -= 1

    def _delete(self, record: ModelMeta) -> None:
        with self._tables.transaction("fsync"):
            if self._hide(record):
                self._connection.execute("DELETE FROM uses WHERE name = ?", (record.name,))
        self._tables.logs.pop(record.incarnation, None)

    def _hide(self, record: ModelMeta) -> bool:
        """Make every later call with the record fail (a tombstone); return whether the model had its name."""
        had_name = record.incarnation not in self._tables.staged
        self._tables.find(record)
        self._tables.write_model(record.incarnation, None, b"", LAST_NUMBER)
        return had_name

    async def _purge(self, record: ModelMeta) -> None:
        await self._purge_rows(record.incarnation)

    async def _purge_rows(self, incarnation: int) -> None:
        forgotten = await self._engine.maintenance.by_pieces(self._predictions.forget, incarnation)
        if forgotten and await self._entries.drop_entries(incarnation):
            await self._engine.threads.write_urgent(self._forget_row, incarnation)

    def _forget_row(self, incarnation: int) -> None:
        with self._tables.transaction("log"):
            self._connection.execute("DELETE FROM models WHERE incarnation = ?", (incarnation,))

    def load(self) -> None:
        """Find the remains of a killed process: models without a name, and trimmed logs.

        Runs in the writer at opening, because later a new model may also have no name.
        """
        ((self._count,),) = self._connection.execute("SELECT COUNT(*) FROM models WHERE name IS NOT NULL")
        hidden = self._tables.models("name IS NULL")
        self._hidden = [model.record.incarnation for model in hidden if not model.record.damaged]
        trimmed = self._tables.models("name IS NOT NULL AND trimmed > 0")
        self._trimmed = [(each.record.incarnation, each.trimmed) for each in trimmed if not each.record.damaged]

    async def clean(self) -> None:
        """Free the space of the data that `load` found."""
        for incarnation in self._hidden:
            await self._purge_rows(incarnation)
        for incarnation, trimmed in self._trimmed:
            await self._entries.drop_entries(incarnation, trimmed)
