"""Properties that hold in every lifetime."""

import asyncio
import random

from tests.simulation.clients import Known
from tests.simulation.disk import Disk, contains
from tests.simulation.oracle import Replayed, replay
from tests.simulation.place import MemoryPlace
from tests.simulation.store import Network, SimulatedStore
from tests.simulation.world import Disconnected, Server, World

from manylabel_service.archive.restoring import restore
from manylabel_service.errors import FollowerFailed, KeyInvalid, KeyRequired, ServiceError
from manylabel_service.models.garbage import collect_garbage
from manylabel_service.online.history.catalogue import KIND as HISTORY
from manylabel_service.online.replica import Replica
from manylabel_service.online.snapshots.reader import SnapshotReader
from manylabel_service.online.spec.follow import follow_of
from manylabel_service.storage import START, Entry, ModelMeta, position_key
from manylabel_service.storage.snapshots import KIND as SNAPSHOTS

KINDS = (SNAPSHOTS, HISTORY)
"""Kinds of documents that name blobs of models."""
SETTLED_SECONDS = 3.0
"""Time after the last fault after which revoked keys must open nothing."""
WHOLE_BYTES = 2**20
"""Bytes of a history that is never full."""
SEALED_SECONDS = 20.0
"""Time without a fault after which a log must not be sealed: its server may have to be found dead first."""
KNOWN_SECONDS = 5.0
"""Time after which a server that was not disturbed must know of a revocation; one second, and failed polls."""


class Properties:
    """Checks of one lifetime.

    Parameters
    ----------
    world, known : the servers, and the knowledge of the clients.
    """

    def __init__(self, world: World, known: Known) -> None:
        self.world, self.known = world, known
        self._states: dict[tuple[int, str], str] = {}
        self._positions: dict[tuple[str, int], str] = {}
        self._checked: dict[tuple[str, int], tuple[str, int]] = {}
        self._sealed: dict[int, float] = {}
        self._replayed: dict[tuple[bytes, str], Replayed] = {}

    async def watch(self, rng: random.Random) -> None:
        """Look at all models, logs and revoked keys every now and then."""
        while True:
            await asyncio.sleep(rng.expovariate(0.5))
            self._check_sealed()
            self._check_blobs()
            for server in self.world.servers:
                for replica in server.registry.resident():
                    if isinstance(replica, Replica) and replica.serving and not replica.busy:
                        self._check_state(server, replica)
                self._check_revoked(server)

    def _check_state(self, server: Server, replica: Replica) -> None:
        """Check that replicas at one position have one state, and that no position goes back."""
        incarnation, position = replica.record.incarnation, replica.position
        before = self._positions.get((server.process, incarnation))
        if self._checked.get((server.process, incarnation)) == (position, id(replica.model)):
            return
        self._checked[server.process, incarnation] = position, id(replica.model)
        state = replica.model.checksum()
        if (found := self._states.setdefault((incarnation, position), state)) != state:
            self.world.fail(f"{server.process} has another state at {position} of {replica.name}: {state}, not {found}")
        went_back = before is not None and position_key(position) < position_key(before)
        if went_back and before not in self.known.lost:
            self.world.fail(f"{server.process} has gone back from {before} to {position} of {replica.name}")
        self._positions[server.process, incarnation] = position

    def _check_blobs(self) -> None:
        """Check that no damaged blob was read as if it were whole."""
        for key in self.world.disk.accepted:
            self.world.fail(f"the blob {key} is damaged, and was accepted")

    def _check_sealed(self) -> None:
        """Check that no log is sealed for long while the servers are not disturbed."""
        logs, time = self.world.disk.logs, self.world.loop.time()
        self._sealed = {number: self._sealed.get(number, time) for number, log in logs.items() if log.sealed}
        for number, since in self._sealed.items():
            if time - max(since, self.world.disturbed_at) > SEALED_SECONDS:
                self.world.fail(f"the log {number} has been sealed for {time - since:.1f} s")

    # -- keys -----------------------------------------------------------------------------------------

    def _check_revoked(self, server: Server) -> None:
        """Check that a server that was not disturbed does not accept a key some time after its revocation."""
        calm_since = max(server.disturbed_at, self.world.loop.resumed.get(server.process, 0.0))
        for id, revoked_at in self.known.revoked.items():
            quiet = self.world.loop.time() - max(calm_since, revoked_at)
            if quiet > KNOWN_SECONDS and id not in self.known.unsure and self._opens(server, id):
                self.world.fail(f"key {id} was revoked {quiet:.1f} s ago, and opens server {server.process}")

    def check_keys(self) -> None:
        """Check that each valid key opens each server, and no revoked one does."""
        for server in self.world.servers:
            for id in self.known.keys.keys() - self.known.unsure:
                opens = self._opens(server, id)
                if opens == (id in self.known.revoked):
                    state = "revoked and opens" if opens else "valid and does not open"
                    self.world.fail(f"key {id} is {state} server {server.process}")

    def _opens(self, server: Server, id: str) -> bool:
        try:
            server.keyring.access(self.known.keys[id]).require(["learn"], "m")
        except (KeyInvalid, KeyRequired, ServiceError):
            return False
        return True

    # -- models ---------------------------------------------------------------------------------------

    async def check_models(self) -> None:
        """Check each model on each server, after all faults."""
        self._check_blobs()
        for server in self.world.servers:
            until = self.world.loop.time() + SETTLED_SECONDS
            while (left := server.registry.snapshot_room.bytes_in_memory) and self.world.loop.time() < until:
                await asyncio.sleep(0.1)
            if left:
                self.world.fail(f"{left} bytes of snapshots stay reserved in {server.process}")
        for name in list(self.world.disk.models):
            for number, server in enumerate(self.world.servers):
                replica = await self._until_synced(server, name)
                if replica is None:
                    continue
                self._check_state(server, replica)
                self._check_log(replica, await self._entries(server, replica, read=not number))
                self._check_audits(replica)

    async def _until_synced(self, server: Server, name: str) -> Replica | None:
        """Return a model that has read the whole log; None for a follower of a log that is trimmed too early."""

        async def sync(server: Server) -> Replica:
            async with server.registry.use(name) as replica:
                assert isinstance(replica, Replica)
                if (error := await replica.sync()) is not None:
                    raise error
                replica.check_serving()
                return replica

        for _ in range(100):
            try:
                return await self.world.request(server, sync)
            except FollowerFailed:
                if self.world.settings.history_bytes >= WHOLE_BYTES and not self.known.late:
                    self.world.fail(f"follower {name} has failed, and the history is whole")
                return None
            except (ServiceError, Disconnected) as error:
                self.world.note(f"sync of {name}: {error!r}", server.process)
                await asyncio.sleep(0.3)
        self.world.fail(f"{server.process} cannot read {name}")
        await asyncio.sleep(0)
        raise AssertionError

    async def _entries(self, server: Server, replica: Replica, read: bool) -> list[Entry] | None:
        """Return the entries that a model has learnt; None if the store no longer has the first ones.

        The store of a simulation remembers them, except those without forgotten examples, which are read.
        """
        record = replica.record if replica.follow is None else replica.follow.record
        log = self.world.disk.logs[record.incarnation]
        if log.sealed:
            self.world.fail(f"the log of {record.name} is sealed for ever")
        rewritten = bool(self.known.forgetting) and log.begin != position_key(START)
        remembered = None if rewritten else self.world.disk.whole(record.incarnation)
        if not (read or rewritten):
            return remembered

        async def history(_: Server) -> list[Entry] | None:
            reader = replica.history()
            if await reader.begin() != START:
                return None
            entries: list[Entry] = []
            while more := await reader.read(entries[-1].position if entries else START):
                entries += more
            return entries

        found = await self.world.request(server, history)
        if found is not None and remembered is not None and found != remembered:
            self.world.fail(f"the history of {record.name} does not have the entries of its log")
        return found if remembered is None else remembered

    def _check_log(self, replica: Replica, entries: list[Entry] | None) -> None:
        """Check the log, and the state by a replay of the whole log."""
        if entries is None:
            return
        end = entries[-1].position if entries else START
        if replica.position != end:
            self.world.fail(f"{replica.name} is at {replica.position}, its log ends at {end}")
        key = (replica.record.spec, end)
        replayed = self._replayed.get(key)
        if replayed is None:
            replayed = self._replayed[key] = replay(replica.record.spec, entries)
        if self.known.whole.get(replica.name, True) and replica.model.checksum() != replayed.model.checksum():
            self.world.fail(f"the state of {replica.name} is not the replay of its log")
        for each in self.known.learnt:
            if each.model != replica.name or each.name in self.known.forgetting - self.known.forgotten:
                continue
            due = int(each.name not in self.known.forgotten)
            count = replayed.learnt[each.name]
            if each.position in self.known.lost:
                if count > 1:
                    self.world.fail(f"{each.name} was learnt {count} times")
            elif count != due:
                self.world.fail(f"{each.name} was learnt {count} times, not {due}")
            elif due and replayed.positions[each.name] != each.position:
                self.world.fail(f"{each.name} was learnt at {replayed.positions[each.name]}, not {each.position}")

        for each in self.known.changed:
            if each.model != replica.name or each.name in self.known.forgetting or each.position in self.known.lost:
                continue
            found = replayed.changes.get(each.key.key, [])
            if not found and self.known.forgetting:
                continue  # without forgotten examples it no longer fits, and the next rewriting has dropped it
            if found != [each.position]:
                self.world.fail(f"change {each.key.key} is at {found} of the log, not once at {each.position}")

    def _check_audits(self, replica: Replica) -> None:
        """Check that each audit that a client has seen waits for the teacher until its labels have arrived."""
        known = self.known  # a follower has served nothing before its promotion
        if replica.follow is not None or known.may_lose or known.rolled_back or known.promoted:
            return
        waiting = replica.model.promises.waiting.keys()
        if missing := known.audits - known.labelled - waiting:
            self.world.fail(f"{replica.name} no longer waits for the teacher's answers to {sorted(missing)}")

    # -- archive --------------------------------------------------------------------------------------

    async def check_archive(self) -> None:
        """Check that the archive restores each model, and has no forgotten example."""
        objects = self.world.archived
        assert objects is not None
        for _ in range(2):  # the first time may be that at which a server began to archive
            since = self.world.loop.time()
            while not any(self._archived_since(server, since) for server in self.world.servers):
                await asyncio.sleep(0.5)
                if self.world.loop.time() > since + 60:
                    self.world.fail("nothing is archived for 60 s")
        for name in self.known.forgotten:
            if found := [key for key, data in objects.items() if contains(data, name.encode())]:
                self.world.fail(f"{name} is forgotten, and stands in the archive: {found[0]}")
        disk = Disk(self.world.now_ms, random.Random(0))
        store = SimulatedStore(disk)
        await store.open()
        restored = await restore(MemoryPlace(dict(objects), Network()), store, self.world.settings)
        if restored.refused:
            self.world.fail(f"the archive restores no {restored.refused}")
        for name, record in self.world.disk.models.items():
            if follow_of(record.spec) is None and name in restored.models:
                replica = await self._until_synced(self.world.servers[0], name)
                assert replica is not None
                position, at = restored.models[name]
                if position != replica.position:
                    self.world.fail(f"{name} is at {replica.position}, and archived up to {position}")
                elif position != START and await _checksum(disk.models[name], store, at) != replica.model.checksum():
                    self.world.fail(f"the archive has another state of {name}")
        await store.close()

    def _archived_since(self, server: Server, since: float) -> bool:
        """Return whether a server has completed a pass that began after a time."""
        status = None if server.archive is None else server.archive.status
        if status is None or status.lag_seconds is None or status.error is not None:
            return False
        return server.registry.membership.leads and self.world.loop.time() - status.lag_seconds > since

    # -- garbage --------------------------------------------------------------------------------------

    async def check_garbage(self) -> None:
        """Check that garbage collection leaves no blob of a deleted model, and deletes none that a document names."""
        disk = self.world.disk
        store = SimulatedStore(disk)
        await store.open()
        before = disk.blobs.keys() | set()
        await collect_garbage(store)
        await store.close()
        for key in before - disk.blobs.keys():
            id = key.rpartition("/")[2].encode()
            if any(id in value for (kind, _), (_, value) in disk.documents.items() if kind in KINDS):
                self.world.fail(f"the blob {key} was deleted, and a document names it")
        alive = {record.incarnation for record in disk.models.values()} | disk.staged
        for kind, incarnation, *_ in [key.split("/") for key in disk.blobs]:
            if kind in KINDS and int(incarnation) not in alive:
                self.world.fail(f"a blob of {kind} of the deleted incarnation {incarnation} is left")


async def _checksum(record: ModelMeta, store: SimulatedStore, position: str) -> str:
    return (await SnapshotReader(record, store).load(position)).checksum()
