"""Lifetimes of several servers: requests, faults, and the properties that must hold."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from tests.faults.log_oracle import replay
from tests.simulation.world import QUIET_SECONDS, Disconnected, Server, World
from tests.support.limits import settings_of

from manylabel_service.access.grant import ANY, SCOPES, Access
from manylabel_service.access.key import new_key
from manylabel_service.errors import (
    KeyInvalid,
    KeyRequired,
    KeyReused,
    LimitExceeded,
    ModelExists,
    ModelNotFound,
    ServiceError,
)
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.history.lineage import Receipt
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.successor.rewriter import Selection
from manylabel_service.storage import START, position_key

T = TypeVar("T")

WRONG = (KeyReused, LimitExceeded)
"""Errors that no request of these clients may get."""
SETTLED_SECONDS = 3.0
"""Time after the last fault after which revoked keys must open nothing."""
ANYONE = Access(None, SCOPES, (ANY,))


@dataclass
class Learnt:
    """An update that was acknowledged, with its first reply."""

    model: str
    name: str
    key: IdempotencyKey
    position: str
    updates: int


@dataclass
class Known:
    """Knowledge of the clients.

    Attributes
    ----------
    learnt : acknowledged updates.
    keys : texts of the keys, by id; those of which no reply was received are not listed.
    revoked : ids of the keys whose revocation was acknowledged.
    forgetting, forgotten : names of examples that are to be forgotten, and those whose receipt is complete.
    """

    learnt: list[Learnt] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    forgetting: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)


class Lifetime:
    """A lifetime of a seed.

    Parameters
    ----------
    seed : of all that happens.

    Attributes
    ----------
    world : servers, store and loop.
    done : number of successful requests of each kind.
    """

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.rng = random.Random(self.world.rng.random())
        self.known = Known()
        self._states: dict[tuple[int, str], str] = {}
        self._positions: dict[tuple[str, int], str] = {}
        self.done = Counter[str]()
        self._n_names = 0
        self._stopping: list[asyncio.Task[None]] = []

    def run(self) -> None:
        """Run the lifetime. Raises Violation."""
        self.world.run(self._life())

    async def _life(self) -> None:
        world, rng = self.world, self.rng
        world.settings = settings_of(
            snapshot_every_updates=rng.choice([2, 5, 20]),
            snapshot_every_seconds=rng.choice([1.0, 5.0, 60.0]),
            snapshot_retention_count=rng.choice([1, 2, 3]),
            history_bytes=rng.choice([0, 2**20]),
            evict_idle_seconds=rng.choice([0, 2, 3_600]),
        )
        faults, rate = world.faults, rng.choice([0.0, 0.002, 0.02])
        faults.lost, faults.late, faults.unanswered = (rate * rng.random() for _ in range(3))
        faults.slow = rng.choice([0.0, 0.01])
        world.slots = [None] * rng.choice([2, 2, 3, 4])
        for slot in range(len(world.slots)):
            world.start(slot)
        watching = asyncio.ensure_future(self._watch())
        work = [self._learner("m") for _ in range(rng.choice([1, 2, 3]))]
        work += [self._short_lived("d"), self._keys(), self._keys()]
        if rng.random() < 0.5:
            work.append(self._forgetter("m"))
        clients = [asyncio.ensure_future(each) for each in work]
        await self._nemesis(rng.choice([5, 10, 20]))
        await self._quiet()
        _, late = await asyncio.wait(clients, timeout=QUIET_SECONDS)
        if late:
            world.fail(f"{len(late)} clients still wait {QUIET_SECONDS:g} s after the last fault")
            await asyncio.sleep(0)
        for client in clients:
            client.result()
        watching.cancel()
        await asyncio.sleep(SETTLED_SECONDS)
        self._check_keys()
        await self._check_models()

    # -- clients ----------------------------------------------------------------------------------------

    async def _until_done(
        self, what: str, work: Callable[[Server], Awaitable[T]], final: tuple[type[Exception], ...] = ()
    ) -> T:
        """Send a request to one server after another until one replies without an error, or with a `final` one."""
        world, pause = self.world, 0.05
        while True:
            if world.servers:
                server = self.rng.choice(world.servers)
                try:
                    result = await world.request(server, work)
                    shown = result.status if isinstance(result, Receipt) else result
                    world.note(f"{what} -> {server.process}: {shown}", "client")
                    self.done[what.split()[0]] += 1
                    return result
                except final:
                    raise
                except (ServiceError, Disconnected) as error:
                    world.note(f"{what} -> {server.process}: {type(error).__name__} {error}", "client")
                    if isinstance(error, WRONG):
                        world.fail(f"{what} got {error!r}", error)
            await asyncio.sleep(pause * self.rng.random())
            pause = min(2 * pause, 1.0)

    async def _create(self, name: str) -> None:
        spec = ModelSpec.model_validate({"name": name, "algorithm": "falt"})

        async def create(server: Server) -> str:
            return (await server.registry.create(spec)).position

        with suppress(ModelExists):
            await self._until_done(f"create {name}", create, (ModelExists,))

    async def _learn(self, model: str) -> Learnt:
        self._n_names += 1
        name, id = f"u{self._n_names:04}", f"k{self._n_names:04}"
        key = IdempotencyKey(id, id.encode().ljust(16, b"."))
        x = Features((name, "a"), None, np.array([1.0, self.rng.randrange(3)], dtype=np.float32))
        example = Example(x, Labels.all_of([f"l{self.rng.randrange(3)}"]), ref=name)

        async def learn(server: Server) -> tuple[str, int]:
            async with server.registry.use(model) as replica:
                assert isinstance(replica, Replica)
                result = await replica.update([example], key=key)
                return result.position, result.updates

        position, updates = await self._until_done(f"learn {name}", learn, (ModelNotFound,))
        first = Learnt(model, name, key, position, updates)
        if self.rng.random() < 0.3:
            await asyncio.sleep(self.rng.random())
            again = await self._until_done(f"again {name}", learn, (ModelNotFound,))
            if again[0] != position or (again[1] != updates and not self.known.forgetting):
                self.world.fail(f"the retry of {name} got {again}, the first request {position, updates}")
        return first

    async def _learner(self, model: str) -> None:
        await self._create(model)
        for _ in range(self.rng.randrange(5, 25)):
            self.known.learnt.append(await self._learn(model))
            await asyncio.sleep(self.rng.expovariate(2))

    async def _short_lived(self, name: str) -> None:
        """Create a model, teach it, take snapshots of it, and delete it; again and again."""
        for _ in range(self.rng.randrange(5)):
            await self._create(name)
            for _ in range(self.rng.randrange(3)):
                try:
                    await self._learn(name)
                except ModelNotFound:
                    break
            snapshot = asyncio.ensure_future(self._snapshot(name))
            await asyncio.sleep(self.rng.random() * self.rng.choice([0.01, 1]))
            await self._delete(name)
            await snapshot
            await asyncio.sleep(self.rng.random())

    async def _snapshot(self, name: str) -> None:
        async def take(server: Server) -> str:
            async with server.registry.use(name) as replica:
                assert isinstance(replica, Replica)
                return (await replica.take_snapshot()).position

        if self.world.servers:
            server = self.rng.choice(self.world.servers)
            try:
                await self.world.request(server, take)
            except (ServiceError, Disconnected) as error:
                self.world.note(f"snapshot of {name}: {error!r}", "client")

    async def _delete(self, name: str) -> None:
        async def delete(server: Server) -> None:
            hosted = [each for each in server.registry.resident() if each.name == name]
            await server.registry.delete(name)
            if any(isinstance(each, Replica) and each.snapshotter.busy for each in hosted):
                self.world.fail(f"{name} is deleted, and its snapshot is still being stored in {server.process}")

        with suppress(ModelNotFound):
            await self._until_done(f"delete {name}", delete, (ModelNotFound,))

    async def _forgetter(self, model: str) -> None:
        """Have examples forgotten."""
        for _ in range(self.rng.randrange(1, 4)):
            await asyncio.sleep(self.rng.expovariate(0.3))
            if learnt := [each for each in self.known.learnt if each.model == model]:
                await self._forget(self.rng.choice(learnt))

    async def _forget(self, learnt: Learnt) -> None:
        selection = Selection(frozenset([learnt.name]))

        async def begin(server: Server) -> str:
            async with server.registry.use(learnt.model) as replica:
                assert isinstance(replica, Replica)
                return (await server.forgetter.begin(replica, selection, None)).id

        self.known.forgetting.add(learnt.name)
        receipt: Receipt | None = None
        while receipt is None or receipt.status != "done":
            id = await self._until_done(f"forget {learnt.name}", begin)

            async def find(server: Server, id: str = id) -> Receipt:
                server.registry.require_ready()
                return await server.forgetter.receipt(learnt.model, id)

            receipt = None
            while receipt is None or receipt.status == "running":
                receipt = await self._until_done(f"receipt {learnt.name}", find)
                await asyncio.sleep(0.2 if receipt.status == "running" else 0)
            if "the history of model" in (receipt.error or ""):
                return  # no state before it is stored: the server says that it cannot forget it
        if position_key(receipt.since) >= position_key(learnt.position):
            return  # the history begins after it
        self.known.forgotten.add(learnt.name)
        for place in self.world.disk.places_of(learnt.name.encode()):
            self.world.fail(f"{learnt.name} is forgotten, and stands in {place}")

    async def _keys(self) -> None:
        """Create keys and revoke them."""
        for _ in range(self.rng.randrange(8)):
            await asyncio.sleep(self.rng.expovariate(2))
            key, text = new_key("k", SCOPES)

            async def add(server: Server, key: Any = key) -> None:
                server.registry.require_ready()
                await server.keyring.add(key.model_copy(), ANYONE)

            if self.world.servers:
                server = self.rng.choice(self.world.servers)
                try:
                    await self.world.request(server, add)
                except (ServiceError, Disconnected):
                    continue  # it may exist or not
                self.world.note(f"key {key.id} added at {server.process}", "client")
                self.done["key"] += 1
                self.known.keys[key.id] = text
                await asyncio.sleep(self.rng.expovariate(1))
                if self.rng.random() < 0.7:
                    await self._revoke(key.id)

    async def _revoke(self, id: str) -> None:
        async def revoke(server: Server) -> bool:
            server.registry.require_ready()
            return await server.keyring.revoke(id, ANYONE) is None

        while not await self._until_done(f"revoke {id}", revoke):
            await asyncio.sleep(0.5)
        self.known.revoked.add(id)

    # -- faults -------------------------------------------------------------------------------------------

    async def _nemesis(self, seconds: float) -> None:
        """Let servers crash, stop and stand still, cut their connections, and set clocks."""
        world, rng = self.world, self.rng
        until = world.loop.time() + seconds
        kinds = rng.sample(["crash", "crash", "stop", "pause", "cut", "cut_all", "clock"], rng.randrange(7))
        while world.loop.time() < until:
            await asyncio.sleep(rng.expovariate(1))
            kind = rng.choice(kinds) if kinds else "none"
            if kind == "none":
                continue
            if kind == "clock":
                place = rng.choice("abcds")
                world.skews[place] = world.skews.get(place, 0.0) + rng.choice([-10.0, -1.0, 1.0, 10.0])
                world.note(f"CLOCK of {place} is off by {world.skews[place]:g} s", "")
                continue
            if not world.servers:
                continue
            server = rng.choice(world.servers)
            if kind == "crash":
                world.loop.crash_after(
                    server.process, 1 + int(rng.expovariate(1 / 50)), lambda s=server: self._crashed(s)
                )
            elif kind == "stop":
                self._stopping.append(asyncio.ensure_future(self._stopped(server)))
            elif kind == "pause":
                seconds = rng.expovariate(1 / 4)
                world.note(f"PAUSE of {seconds:.1f} s", server.process)
                world.loop.pause(server.process, seconds)
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
        self.world.loop.call_later(seconds, setattr, server.network, "cut", False)

    async def _quiet(self) -> None:
        """End all faults."""
        world = self.world
        world.note("QUIET", "")
        world.faults.active = False
        world.loop.calm()
        for slot, server in enumerate(world.slots):
            if server is None:
                world.start(slot)
            else:
                server.network.cut = False

    # -- properties -----------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Look at all models every now and then."""
        while True:
            await asyncio.sleep(self.rng.expovariate(1))
            for server in self.world.servers:
                for replica in server.registry.resident():
                    if isinstance(replica, Replica) and replica.serving and not replica.busy:
                        self._check_state(server, replica)

    def _check_state(self, server: Server, replica: Replica) -> None:
        """Check that replicas at one position have one state, and that no position goes back."""
        incarnation, position = replica.record.incarnation, replica.position
        state = replica.model.checksum()
        if (found := self._states.setdefault((incarnation, position), state)) != state:
            self.world.fail(f"{server.process} has another state at {position} of {replica.name}: {state}, not {found}")
        before = self._positions.get((server.process, incarnation))
        if before is not None and position_key(position) < position_key(before):
            self.world.fail(f"{server.process} has gone back from {before} to {position} of {replica.name}")
        self._positions[server.process, incarnation] = position

    def _check_keys(self) -> None:
        for server in self.world.servers:
            for id, text in self.known.keys.items():
                try:
                    server.keyring.access(text).require(["learn"], "m")
                    opens = True
                except (KeyInvalid, KeyRequired):
                    opens = False
                if opens == (id in self.known.revoked):
                    state = "revoked and opens" if opens else "valid and does not open"
                    self.world.fail(f"key {id} is {state} server {server.process}")

    async def _check_models(self) -> None:
        for server in self.world.servers:
            until = self.world.loop.time() + SETTLED_SECONDS
            while (left := server.registry.snapshot_room.bytes_in_memory) and self.world.loop.time() < until:
                await asyncio.sleep(0.1)
            if left:
                self.world.fail(f"{left} bytes of snapshots stay reserved in {server.process}")
        for name in self.world.disk.models:
            for server in self.world.servers:
                replica = await self._until_synced(server, name)
                self._check_state(server, replica)
                await self.world.request(server, lambda _, replica=replica: self._check_log(replica))

    async def _until_synced(self, server: Server, name: str) -> Replica:
        async def sync(server: Server) -> Replica:
            async with server.registry.use(name) as replica:
                assert isinstance(replica, Replica)
                if (error := await replica.sync()) is not None:
                    raise error
                return replica

        for _ in range(100):
            try:
                return await self.world.request(server, sync)
            except (ServiceError, Disconnected) as error:
                self.world.note(f"sync of {name}: {error!r}", server.process)
                await asyncio.sleep(0.3)
        self.world.fail(f"{server.process} cannot read {name}")
        await asyncio.sleep(0)
        raise AssertionError

    async def _check_log(self, replica: Replica) -> None:
        """Check the log, and the state by a replay of the whole log."""
        log = self.world.disk.logs[replica.record.incarnation]
        if log.sealed:
            self.world.fail(f"the log of {replica.name} is sealed for ever")
        entries = log.untrimmed
        if log.begin != position_key(START):  # a successor, whose history has what was before
            reader = replica.history()
            if await reader.begin() != START:
                return
            entries = []
            while more := await reader.read(entries[-1].position if entries else START):
                entries += more
        replayed = replay(replica.record, entries, ())
        if replica.position != replayed.model.position:
            self.world.fail(f"{replica.name} is at {replica.position}, its log ends at {replayed.model.position}")
        if replica.model.checksum() != replayed.model.checksum():
            self.world.fail(f"the state of {replica.name} is not the replay of its log")
        for each in self.known.learnt:
            if each.model != replica.name or each.name in self.known.forgetting - self.known.forgotten:
                continue
            due = int(each.name not in self.known.forgotten)
            if replayed.learnt[each.name] != due:
                self.world.fail(f"{each.name} was learnt {replayed.learnt[each.name]} times, not {due}")
            elif due and replayed.positions[each.name] != each.position:
                self.world.fail(f"{each.name} was learnt at {replayed.positions[each.name]}, not {each.position}")
