"""Clients of the servers: they send requests until one succeeds, and remember what was promised to them."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from tests.simulation.training import job
from tests.simulation.world import Disconnected, Server, World

from manylabel_core.label_health import KINDS
from manylabel_core.parity import Deferral, ParityTarget
from manylabel_service import ulid
from manylabel_service.access.grant import ANY, SCOPES, Access
from manylabel_service.access.key import new_key
from manylabel_service.errors import (
    BeforeHistory,
    ExampleNotFound,
    InvalidExample,
    InvalidField,
    KeyNotFound,
    KeyReused,
    LabelExists,
    LabelNotFound,
    LimitExceeded,
    ModelExists,
    ModelNotFound,
    NotPromotable,
    PositionNotFound,
    PredictionError,
    RevisionConflict,
    ServiceError,
)
from manylabel_service.hosting.examples import Example, Features, Labels, Source
from manylabel_service.hosting.predictions import DrawnPredictions
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.jobs.job_record import JobDocument
from manylabel_service.models.garbage import GarbageCollector
from manylabel_service.online.following import begin_follower
from manylabel_service.online.history.lineage import Promotion, Receipt
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.follow import follow_of
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.controls import Control, Describe, Dismiss, Relabel, SetPromise
from manylabel_service.online.state.dismissals import PAIRS
from manylabel_service.online.successor.rewriter import Selection
from manylabel_service.storage import START, position_key

T = TypeVar("T")

WRONG = (KeyReused, LimitExceeded)
"""Errors that no request of these clients may get."""
REFUSED = (
    BeforeHistory,
    ExampleNotFound,
    InvalidExample,
    InvalidField,
    LabelExists,
    LabelNotFound,
    PositionNotFound,
)
"""Errors of changes and corrections that do not fit the model."""
REFUSED_LABELS = (ModelNotFound, InvalidExample, PredictionError)
"""Errors that end the attempts to label a prediction."""
ANYONE = Access(None, SCOPES, (ANY,))
TEACHER: Source = "machine"
"""Source of the labels of a teacher."""


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
    changed : acknowledged changes of labels, dismissals and corrections; `name` is that of the corrected example.
    keys : texts of the keys, by id; those of which no reply was received are not listed.
    revoked : times at which the revocations of keys were acknowledged, by id.
    forgetting, forgotten : names of examples that are to be forgotten, and those whose receipt is complete.
    promoted : whether a follower may have been promoted.
    late : whether a follower began after the start of the log, so that the history may begin there.
    whole : whether the state of a model is that of a whole log, by name.
    audits : ids of predictions that were served as audits of a promise of parity.
    labelled : ids of predictions whose labels may have arrived.
    may_lose : whether the store may lose changes.
    rolled_back : whether a model may have returned to an earlier state.
    lost : positions of entries that a failover has lost.
    unsure : ids of keys that a failover may have brought back or lost.
    """

    learnt: list[Learnt] = field(default_factory=list)
    changed: list[Learnt] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    revoked: dict[str, float] = field(default_factory=dict)
    forgetting: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    promoted: bool = False
    late: bool = False
    whole: dict[str, bool] = field(default_factory=dict)
    audits: set[str] = field(default_factory=set)
    labelled: set[str] = field(default_factory=set)
    may_lose: bool = False
    rolled_back: bool = False
    lost: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)


class Clients:
    """Clients of one lifetime; each public method is a client.

    Parameters
    ----------
    world, rng : the servers, and the source of the requests.

    Attributes
    ----------
    teacher : whether models promise parity with a teacher.
    known : what was promised to them.
    done : number of successful requests of each kind.
    """

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.rng = world, rng
        self.known = Known()
        self.teacher = False
        self.done = Counter[str]()
        self._n_names = 0

    def _rounds(self, n: int) -> Iterator[None]:
        """Yield n times, but once only after the faults have ended: what clients do then shows that all works again."""
        for _ in range(n):
            calm = not self.world.faults.active
            yield
            if calm:
                break

    # -- requests -------------------------------------------------------------------------------------

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
                    world.note(f"{what} -> {server.process}: {_shown(result)}", "client")
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
        spec = _spec(name, self.teacher)

        async def create(server: Server) -> str:
            return (await server.registry.create(spec)).position

        with suppress(ModelExists):
            await self._until_done(f"create {name}", create, (ModelExists,))
        self.known.whole.setdefault(name, True)

    async def _learn(self, model: str) -> Learnt | None:
        """Teach a model an example; return None if its label is retired."""
        key = self._new_key("k")
        name = key.key.replace("k", "u")
        x = Features((name, "a"), None, np.array([1.0, self.rng.randrange(3)], dtype=np.float32))
        example = Example(x, Labels.all_of([self._label_name()]), ref=name)

        async def learn(server: Server) -> tuple[str, int]:
            async with server.registry.use(model) as replica:
                assert isinstance(replica, Replica)
                result = await replica.update([example], key=key)
                return result.position, result.updates

        try:
            position, updates = await self._until_done(f"learn {name}", learn, (ModelNotFound, InvalidExample))
        except InvalidExample:
            return None
        first = Learnt(model, name, key, position, updates)
        if self.rng.random() < 0.3:
            await asyncio.sleep(self.rng.random())
            again = await self._until_done(f"again {name}", learn, (ModelNotFound,))
            counts = again[1] == updates or self.known.forgetting or self.known.promoted
            same = again[0] == position and counts
            if not same and position not in self.known.lost:
                self.world.fail(f"the retry of {name} got {again}, the first request {position, updates}")
        return first

    # -- models ---------------------------------------------------------------------------------------

    async def learner(self, model: str) -> None:
        """Create a model, and teach it."""
        await self._create(model)
        for _ in self._rounds(self.rng.randrange(5, 25)):
            if (learnt := await self._learn(model)) is not None:
                self.known.learnt.append(learnt)
            await asyncio.sleep(self.rng.expovariate(2))

    async def curator(self, model: str) -> None:
        """Change labels, dismiss suggestions, and correct examples."""
        for _ in self._rounds(self.rng.randrange(1, 8)):
            await asyncio.sleep(self.rng.expovariate(1))
            learnt = [each for each in self.known.learnt if each.model == model]
            await self._change(model, self.rng.choice(learnt) if learnt and self.rng.random() < 0.5 else None)

    async def _change(self, model: str, learnt: Learnt | None) -> None:
        """Correct an example, or return to the state after it, or send a control entry."""
        key = self._new_key("c")
        labels, control, id = Labels.all_of([f"l{self.rng.randrange(3)}"]), self._control(key), key.key
        back = learnt is not None and self.rng.random() < 0.3
        self.known.rolled_back |= back

        async def change(server: Server) -> tuple[str, int]:
            async with server.registry.use(model) as replica:
                assert isinstance(replica, Replica)
                if learnt is None:
                    result = await replica.change(control)
                elif back:
                    result = await replica.rollback(learnt.position, key)
                else:
                    result = await replica.correct(learnt.position, None, labels, key)
                return result.position, result.updates

        what = f"change {id}: {control.to_json()}"
        if learnt is not None:
            what = f"rollback to {learnt.position} by {id}" if back else f"correct {learnt.name} by {id}"
        with suppress(ModelNotFound, *REFUSED):
            position, updates = await self._until_done(what, change, (ModelNotFound, *REFUSED))
            name = "" if learnt is None or back else learnt.name
            self.known.changed.append(Learnt(model, name, key, position, updates))

    def _control(self, key: IdempotencyKey) -> Control:
        choice = self.rng.choice
        label, other = self.rng.sample(["l0", "l1", "l2"], 2)
        what = choice(["rename", "merge", "retire", "pause", "resume", "describe", "dismiss", "dismiss"])
        if what == "dismiss":
            kind = choice(KINDS)
            return Dismiss(kind, label, other if kind in PAIRS else None, key)
        if what == "describe":
            return Describe({label: {"title": key.key}}, key)
        if what in ("pause", "resume"):
            return Relabel(label, None, key, paused=what == "pause")
        to = {"merge": other, "retire": None}.get(what, key.key)
        return Relabel(label, to, key, merges=what == "merge")

    async def labeller(self, model: str) -> None:
        """Have predictions stored, and send their labels later; a teacher is promised parity first."""
        await self._create(model)
        if self.teacher:
            await self._promise(model)
        waiting = []
        for _ in self._rounds(self.rng.randrange(2, 10)):
            await asyncio.sleep(self.rng.expovariate(2))
            waiting.append(asyncio.ensure_future(self._label_later(model)))
        for each in waiting:
            await each

    async def _promise(self, model: str) -> None:
        promise = SetPromise(None, self._new_key("t"), ParityTarget(0.05, of=TEACHER, audit_rate=0.5))

        async def change(server: Server) -> str:
            async with server.registry.use(model) as replica:
                assert isinstance(replica, Replica)
                return (await replica.change(promise)).position

        with suppress(ModelNotFound):
            await self._until_done("promise", change, (ModelNotFound,))

    async def _label_later(self, model: str) -> None:
        rng = self.rng

        async def predict(server: Server) -> tuple[str, Deferral | None]:
            id = ulid.new()
            x = Features((id, "a"), None, np.array([1.0, rng.randrange(3)], dtype=np.float32))
            async with server.registry.use(model) as replica:
                assert isinstance(replica, Replica)
                drawn = DrawnPredictions((await replica.predict([x])).predictions, [id])
                await replica.keep([id], [x], drawn)
                return id, drawn[0].deferral

        try:
            id, deferral = await self._until_done("predict", predict, (ModelNotFound,))
            if deferral is not None and deferral.why == "audit":
                self.known.audits.add(id)
            if rng.random() < 0.2:
                return
            await asyncio.sleep(rng.expovariate(0.3))
            self.known.labelled.add(id)
            await self._label(model, id, TEACHER if deferral is not None and deferral.ask else "human")
        except ModelNotFound:
            pass

    async def _label(self, model: str, id: str, source: Source) -> None:
        """Send the label of a stored prediction, as `manylabel_service.api.routers.labels` learns it."""
        key, y = self._new_key("q"), Labels.all_of([self._label_name()])

        name = key.key.replace("q", "u")

        async def label(server: Server) -> tuple[str, int]:
            async with server.registry.use(model) as replica:
                assert isinstance(replica, Replica)
                try:
                    (kept,) = await replica.kept([id], [y])
                except PredictionError:
                    if (earlier := await replica.replayed(key)) is None:
                        raise
                    return earlier.position, earlier.updates
                deferrals = None if kept.deferral is None else [kept.deferral]
                example = Example(kept.x, y, source=source, ref=name)
                given = {"prediction_ids": [id], "served": [kept.scores], "deferrals": deferrals}
                result = await replica.update([example], key=key, **given)
                return result.position, result.updates

        try:
            first = await self._until_done(f"label {name} of {id}", label, REFUSED_LABELS)
        except InvalidExample:
            return  # the label is retired
        except PredictionError as error:
            if not self.known.may_lose:
                self.world.fail(f"the label of {id} got {error!r}", error)
            return
        if self.rng.random() < 0.3:
            again = await self._until_done(f"again {name}", label, REFUSED_LABELS)
            if again[0] != first[0] and first[0] not in self.known.lost:
                self.world.fail(f"the retry of the label of {id} got {again}, the first request {first}")
        self.known.learnt.append(Learnt(model, name, key, *first))

    def _label_name(self) -> str:
        """Return a label; a teacher mostly gives one, so that the model is often sure of it."""
        return "l0" if self.teacher and self.rng.random() < 0.8 else f"l{self.rng.randrange(3)}"

    def _new_key(self, kind: str) -> IdempotencyKey:
        self._n_names += 1
        id = f"{kind}{self._n_names:04}"
        return IdempotencyKey(id, id.encode().ljust(16, b"."))

    async def short_lived(self, name: str) -> None:
        """Create a model, teach it, take snapshots of it, and delete it; again and again."""
        for _ in self._rounds(self.rng.randrange(5)):
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

    async def forgetter(self, model: str) -> None:
        """Have examples forgotten."""
        for _ in self._rounds(self.rng.randrange(1, 4)):
            await asyncio.sleep(self.rng.expovariate(0.5))
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
        if position_key(receipt.since or START) >= position_key(learnt.position):
            return  # the history begins after it
        self.known.forgotten.add(learnt.name)
        for place in self.world.disk.places_of(learnt.name.encode()):
            self.world.fail(f"{learnt.name} is forgotten, and stands in {place}")

    async def follower(self, leader: str, name: str, stays: bool = True) -> None:
        """Create a follower of a model, and promote it; again and again.

        Unless it stays, it is deleted each time: a model with followers forgets nothing.
        """
        await asyncio.sleep(self.rng.expovariate(0.5))
        while leader not in self.world.disk.models:
            await asyncio.sleep(0.1)
        for _ in self._rounds(self.rng.randrange(1, 4)):
            await self._create_follower(leader, name)
            for _ in range(self.rng.randrange(3)):
                await asyncio.sleep(self.rng.expovariate(0.5))
                if not await self._promote(leader, name):
                    break
            if not stays or self.rng.random() < 0.3:
                await self._delete(name)
                self.known.whole.pop(name, None)
        while not stays and (self.world.faults.active or name in self.world.disk.models):
            await asyncio.sleep(1)  # an attempt to create it that was given up may succeed later
            if name in self.world.disk.models:
                await self._delete(name)

    async def _create_follower(self, leader: str, name: str) -> None:
        spec = _spec(name, self.teacher, eta=self.rng.choice([0.1, 2.0]))
        from_start = self.rng.random() < 0.7

        async def create(server: Server) -> str:
            async with server.registry.use(leader) as replica:
                assert isinstance(replica, Replica)
                made = await begin_follower(replica, spec, from_start=from_start, until=None)
                return (await server.registry.create(*made)).position

        try:
            await self._until_done(f"follow {name}", create, (ModelExists,))
        except ModelExists:
            if name in self.known.whole:
                return  # it is of earlier
        follow = follow_of(self.world.disk.models[name].spec)
        assert follow is not None
        self.known.late |= follow.begin != START
        self.known.whole[name] = follow.begin == START and self.known.whole.setdefault(leader, True)

    async def _promote(self, leader: str, name: str) -> bool:
        """Promote a follower; return whether it could be promoted."""
        key = self._new_key("p")
        self.known.promoted = True

        async def promote(server: Server) -> Promotion | None:
            try:
                return (await server.promoter.promote(name, key, None))[0]
            except NotPromotable as error:
                if "delete it" in str(error):  # the history of its leader no longer reaches back to its state
                    return None
                raise

        promotion = await self._until_done(f"promote {name}", promote)
        if promotion is None:
            await self._delete(name)
            self.known.whole.pop(name, None)
            return False
        whole = self.known.whole
        whole[leader], whole[name] = whole.get(name, True), whole.get(leader, True)
        return True

    async def janitor(self) -> None:
        """Let servers collect garbage."""
        for _ in self._rounds(self.rng.randrange(1, 8)):
            await asyncio.sleep(self.rng.expovariate(1))

            async def collect(server: Server) -> bool:
                server.registry.require_ready()
                return await GarbageCollector(server.store).step()

            await self._until_done("collect", collect)

    # -- keys and jobs --------------------------------------------------------------------------------

    async def keys(self) -> None:
        """Create keys and revoke them."""
        for _ in self._rounds(self.rng.randrange(8)):
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
                if self.rng.random() < 0.7 and key.id not in self.known.unsure:
                    await self._revoke(key.id)

    async def _revoke(self, id: str) -> None:
        async def revoke(server: Server) -> bool:
            server.registry.require_ready()
            return await server.keyring.revoke(id, ANYONE) is None

        try:
            while not await self._until_done(f"revoke {id}", revoke, (KeyNotFound,)):
                await asyncio.sleep(0.5)
        except KeyNotFound:
            if id not in self.known.unsure:
                self.world.fail(f"key {id} was added, and is unknown")
            return
        self.known.revoked[id] = self.world.loop.time()

    async def jobs(self) -> None:
        """Submit jobs, and wait for their ends."""
        for _ in self._rounds(self.rng.randrange(1, 4)):
            self._n_names += 1
            id = f"job{self._n_names}"

            async def submit(server: Server, id: str = id) -> None:
                server.registry.require_ready()
                with suppress(RevisionConflict):
                    await server.jobs.job_store.add(job(id))

            async def find(server: Server, id: str = id) -> JobDocument:
                server.registry.require_ready()
                return await server.jobs.job_store.get(id)

            await self._until_done(f"job {id}", submit)
            while not (record := await self._until_done(f"status {id}", find)).has_ended:
                await asyncio.sleep(1)
            if record.error is not None and record.error.code != "worker_died":
                self.world.fail(f"{id} has failed: {record.error.detail}")


def _spec(name: str, teacher: bool, **params: float) -> ModelSpec:
    """Return the spec of a model with a small state, which is restored quickly."""
    options = {"scaling": "none", "window": 10, "params": {"step": "gradient", "calibrate": teacher, **params}}
    sources = {"sources": {TEACHER: 1.0}} if teacher else {}
    return ModelSpec.model_validate({"name": name, "algorithm": "falt", **options, **sources})


def _shown(result: Any) -> Any:
    if isinstance(result, Receipt | Promotion):
        return f"{result.id} {result.status} {result.error or ''}"
    return result.state if isinstance(result, JobDocument) else result
