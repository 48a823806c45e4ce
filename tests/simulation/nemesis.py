"""Faults of a lifetime, other than those of the network: servers crash, clocks jump, the store goes back."""

import asyncio
import random
from functools import partial

from tests.simulation.clients import Known
from tests.simulation.coverage import calls
from tests.simulation.disk import StoredBlob, name_outside
from tests.simulation.world import Server, World

from manylabel_service.access.key import KIND as KEYS
from manylabel_service.storage import position_key
from manylabel_service.storage.snapshots import BLOBS, KIND, SnapshotTable

KINDS = ("crash", "crash", "stop", "pause", "cut", "cut_all", "clock", "tear")
CLOCK_SECONDS = (1.0, 10.0, 3_600.0)
"""By how much a clock jumps: also by more than a lease."""


class Nemesis:
    """Causes faults, until `end`.

    Parameters
    ----------
    world, known : the servers, and the knowledge of the clients.
    rng : source of the faults.
    tears : whether snapshots may be torn or lost.
    """

    def __init__(self, world: World, known: Known, rng: random.Random, tears: bool) -> None:
        self.world, self.known, self.rng = world, known, rng
        self._tears = tears
        self._torn: set[str] = set()
        self._stopping: list[asyncio.Task[None]] = []

    async def ambush(self) -> None:
        """Crash servers while they replace models, until cancelled."""
        world, rng = self.world, self.rng
        while True:
            await asyncio.sleep(rng.expovariate(50))
            working = [each for each in world.servers if each.registry.successions._changes]
            if working and rng.random() < 0.1:
                self._disturb("crash", rng.choice(working))

    async def ambush_calls(self) -> None:
        """Crash servers at the start of a call of the store, until cancelled: each kind of call is as likely."""
        world, rng = self.world, self.rng
        while True:
            await asyncio.sleep(rng.expovariate(1))
            if world.servers:
                server, name = rng.choice(world.servers), rng.choice(calls())
                server.network.ambush = name, partial(self._crash_at_call, server)

    def _crash_at_call(self, server: Server) -> None:
        counts = self.world.faults.counts
        counts["crash at a call"] = counts.get("crash at a call", 0) + 1
        self._crash(server, 1)

    def _crash(self, server: Server, steps: int) -> None:
        """Crash a server after this many of its callbacks."""
        self.world.loop.crash_after(server.process, steps, lambda: self._crashed(server))

    async def run(self, seconds: float) -> None:
        """Let servers crash, stop and stand still, cut their connections, set clocks, and tear snapshots."""
        world, rng = self.world, self.rng
        until = world.loop.time() + seconds
        kinds = rng.sample(KINDS, rng.randrange(len(KINDS)))
        if "clock" in kinds:
            world.broken_clock = rng.choice([None, *"abcd"])
            world.note(f"BROKEN CLOCK of {world.broken_clock}", "")
        while world.loop.time() < until:
            await asyncio.sleep(rng.expovariate(1))
            kind = rng.choice(kinds) if kinds else "none"
            if kind == "clock":
                place, seconds = rng.choice("abcds"), rng.choice([-1, 1]) * rng.choice(CLOCK_SECONDS)
                world.skews[place] = world.skews.get(place, 0.0) + seconds
                world.note(f"CLOCK of {place} is off by {world.skews[place]:g} s", "")
            elif kind == "tear":
                if self._tears:
                    self._tear("m")
            elif kind != "none" and world.servers:
                self._disturb(kind, rng.choice(world.servers))

    def _disturb(self, kind: str, server: Server) -> None:
        world, rng = self.world, self.rng
        if kind == "crash":
            self._crash(server, 1 + int(rng.expovariate(1 / 50)))
        elif kind == "stop":
            self._stopping.append(asyncio.ensure_future(self._stopped(server)))
        elif kind == "pause":
            seconds = rng.expovariate(1 / 4)
            world.note(f"PAUSE of {seconds:.1f} s", server.process)
            world.loop.pause(server.process, seconds)
            world.disturbed(world.loop.time() + seconds)
        else:
            for each in world.servers if kind == "cut_all" else [server]:
                self._cut(each, rng.expovariate(1 / 3))

    def _crashed(self, server: Server) -> None:
        slot = self.world.slots.index(server)
        self.world.lose(server)
        self.world.loop.call_later(self.rng.expovariate(1 / 2), self._restart, slot)

    async def _stopped(self, server: Server) -> None:
        slot = self.world.slots.index(server)
        await self.world.stop(server)
        self.world.loop.call_later(self.rng.expovariate(1 / 2), self._restart, slot)

    def _restart(self, slot: int) -> None:
        if self.world.slots[slot] is None:
            self.world.start(slot)

    def _cut(self, server: Server, seconds: float) -> None:
        self.world.note(f"CUT from the store for {seconds:.1f} s", server.process)
        server.network.cut = True
        server.disturbed_at = self.world.loop.time() + seconds
        self.world.disturbed(server.disturbed_at)
        self.world.loop.call_later(seconds, setattr, server.network, "cut", False)

    def _tear(self, name: str) -> None:
        """Tear, change or lose the newest snapshot of a model, unless an older one was torn or none is left."""
        disk = self.world.disk
        record = disk.models.get(name)
        document = None if record is None else disk.documents.get((KIND, str(record.incarnation)))
        if record is None or document is None:
            return
        table = SnapshotTable.from_bytes(KIND, str(record.incarnation), document[1])
        recent = {id: each for id, each in table.snapshots.items() if "recent" in each.reasons}
        if len(recent) < 2 or self._torn & table.snapshots.keys():
            return
        id = max(recent, key=lambda id: position_key(recent[id].position))
        key = f"{BLOBS}{record.incarnation}/{recent[id].position}/{id}"
        blob = disk.blobs.get(key)
        if blob is None:  # a failover has lost it
            return
        outside = sorted(each for each in disk.outside or () if f"/{name_outside(blob.manifest.token)}." in each)
        how = self.rng.choice(["lost", "torn", "flipped"])
        if how == "lost" and outside:
            del disk.outside[outside[-1]]  # type: ignore[index]
        elif how == "lost":
            del disk.blobs[key]
        else:
            last = bytearray(disk.outside[outside[-1]] if outside else blob.pieces[-1])  # type: ignore[index]
            at = self.rng.randrange(len(last))
            if how == "torn":
                del last[at:]
            else:
                last[at] ^= 1
            pieces = blob.pieces
            if outside:
                disk.outside[outside[-1]] = bytes(last)  # type: ignore[index]
            else:
                pieces = [*blob.pieces[:-1], bytes(last)]
            disk.blobs[key] = StoredBlob(blob.manifest, pieces, whole=False)
        self._torn.add(id)
        self.world.note(f"{how.upper()} {key}", "")

    async def failover(self, name: str) -> None:
        """Let the store go back to what a replica of it had, once a model exists."""
        disk, rng = self.world.disk, self.rng
        while name not in disk.models:
            await asyncio.sleep(0.1)
        await asyncio.sleep(rng.uniform(0, 8))
        earlier = disk.copy()
        await asyncio.sleep(rng.expovariate(2))
        there = {entry.position for log in earlier.logs.values() for entry in log.untrimmed}
        lost = {entry.position for log in disk.logs.values() for entry in log.untrimmed} - there
        self.known.lost |= lost
        changed = disk.documents.items() ^ earlier.documents.items()
        self.known.unsure |= {id for (kind, id), _ in changed if kind == KEYS}
        self.world.note(f"FAILOVER loses {len(lost)} entries", "")
        disk.go_back(earlier)

    def end(self) -> None:
        """End all faults, and start the servers that do not run."""
        world = self.world
        world.note("QUIET", "")
        world.faults.active, world.broken_clock = False, None
        world.loop.calm()
        for slot, server in enumerate(world.slots):
            if server is None:
                world.start(slot)
            else:
                server.network.cut, server.network.ambush = False, None
