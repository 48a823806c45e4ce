"""Any order of requests, crashes and restores against a perfect model in memory, through registries as processes use.

What the perfect model knows is plain: the examples learnt, in order; what they were at each position of the log; and
the requests done. What is due of predictions and bytes is had from a fold of those examples, one by one, into a model
that knows of no log, no requests and no snapshots; of a rollback it knows only the names that came before it.
"""

import asyncio
import functools
import itertools
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.service.fleet import snapshot_bytes
from tests.service.online.folds import append
from tests.support.limits import settings_of
from tests.support.waiting import eventually_async

from manylabel_core.records.number_fields import NumberFields
from manylabel_service import ulid as prediction_ids
from manylabel_service.app import open_registry
from manylabel_service.errors import (
    BeforeHistory,
    InvalidExample,
    KeyReused,
    LogTrimmed,
    ModelExists,
    ModelNotFound,
    NotReady,
    PredictionError,
    PredictionLabelled,
)
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.hosting.predictions import Prediction
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.models.registry import Registry
from manylabel_service.online.replica import Replica
from manylabel_service.online.snapshots import retention
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.log_entries import Update
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateResult
from manylabel_service.online.state.stream_offsets import StreamPart
from manylabel_service.storage import SEED, START, Address, SnapshotMeta, SQLiteStore, Store, position_key
from manylabel_service.storage.redis import RedisStore

R = TypeVar("R")


class Late(NamedTuple):
    """An example with numbers as of others, whose prediction was kept: its id, and the labels and scores answered."""

    i: int
    j: int
    id: str
    labels: tuple[str, ...]
    scores: tuple[tuple[str, float], ...]


class Undone(NamedTuple):
    """A rollback: what had been learnt until then has left its names, and nothing else."""

    learnt: "Learnt"


Learnt = tuple[tuple[int, int] | Late | Undone, ...]
"""Examples by number, features `x_of` the first with the labels `y_of` the second; and what rollbacks have undone."""
Request = Callable[[Replica], Awaitable[UpdateResult]]

SPECS: dict[str, dict[str, Any]] = {
    "falt": {"algorithm": "falt", "window": 3},
    "salt": {"algorithm": "salt", "scaling": "unit"},
    "kernel": {"algorithm": "kernel_falt", "params": {"budget": 4}},
}
SETTINGS = settings_of(snapshot_retention_count=2, history_bytes=0, snapshot_every_updates=12, evict_idle_seconds=0)
WAIT_SECONDS = 120.0

NAMES = st.sampled_from(["m", "n"])
PASSING = st.just("n")  # the other model exists for long
PLACES = st.integers(0, 1)
EXAMPLES = st.tuples(st.integers(0, 19), st.integers(0, 19))
CHOICES = st.integers(0, 5)
KEYED = st.sampled_from([True, True, False])
BATCHES = st.lists(EXAMPLES, min_size=1, max_size=4).map(tuple)


# -- what is due ----------------------------------------------------------------------------------


def x_of(i: int) -> Features:
    names = tuple(dict.fromkeys(f"f{i * k % 7}" for k in range(1, 2 + i % 4)))
    return Features(names, None, np.array([(i + 2 * k) % 5 - 1.5 for k in range(len(names))], dtype=np.float32))


def y_of(i: int) -> Labels:
    names = tuple(dict.fromkeys(f"l{i * k % 5}" for k in range(i % 3)))
    if i % 4:
        return Labels.all_of(names)
    return Labels(names, np.array([1 if k % 2 else -1 for k in range(len(names))], dtype=np.int8), complete=False)


def examples_of(learnt: Learnt) -> list[Example]:
    return [Example(x_of(one[0]), y_of(one[1])) for one in learnt if not isinstance(one, Undone)]


PROBES = [x_of(i) for i in range(8)]


def chosen(positions: list[str], which: int, otherwise: str) -> str:
    """One of them: how many there are may depend on the time, what is drawn must not."""
    return positions[-1 - which % len(positions)] if positions else otherwise


def spec_of(kind: str, name: str) -> ModelSpec:
    return ModelSpec.model_validate({"name": name, **SPECS[kind]})


@functools.lru_cache(1000)
def plain(kind: str, learnt: Learnt) -> OnlineModel:
    """A model that has learnt just that."""
    model = OnlineModel(spec_of(kind, "plain"))
    for one in learnt:
        if isinstance(one, Undone):
            give_columns(model, plain(kind, one.learnt))
        else:
            kept: dict[str, Any] = {}
            if isinstance(one, Late):
                kept = {"prediction_ids": (one.id,), "served": (np.array([score for _, score in one.scores]),)}
            append(model, Update(tuple(examples_of((one,))), **kept))
    return model


def give_columns(model: OnlineModel, other: OnlineModel) -> None:
    """Give the model the columns of another, with nothing learnt in them: features only if there are some already.

    Number fields stay known, without examples.
    """
    known, names = model.features.names.names, other.features.names.names
    if known and names[: len(known)] == known:
        model.features.names.add(names)
        own, later = model.features.layout.numbers, other.features.layout.numbers
        seen = None if own.seen is None or later.seen is None else {name: own.seen.get(name, 0) for name in later.seen}
        numbers = NumberFields(None) if seen is None else replace(own, seen=seen)
        model.features.layout = replace(model.features.layout, numbers=numbers)
    model.labels.add(other.labels.names)
    model.learner.pipeline.grow(len(model.features) if model.updates else 0, len(model.labels))


def count(learnt: Learnt) -> int:
    """How many examples there are."""
    return sum(not isinstance(one, Undone) for one in learnt)


class Judged(NamedTuple):
    """The answer to an example, and the relevant labels that clients submitted for it."""

    id: str | None
    predicted: frozenset[str]
    truth: dict[str, bool]


@functools.lru_cache(1000)
def judged(kind: str, learnt: Learnt) -> tuple[Judged, ...]:
    """The answers to each example learnt, and the truth; of one labelled in parts, all of them together."""
    if not learnt:
        return ()
    before, last = judged(kind, learnt[:-1]), learnt[-1]
    if isinstance(last, Undone):
        return before
    y = y_of(last[1])
    others = plain(kind, learnt).labels.names if y.complete else ()
    truth = dict.fromkeys(others, False) | {
        name: sign > 0 for name, sign in zip(y.names, y.signs.tolist(), strict=True)
    }
    if not isinstance(last, Late):
        (answered,) = plain(kind, learnt[:-1]).predict([x_of(last[0])])
        return (*before, Judged(None, frozenset(answered.labels), truth))
    for n, one in enumerate(before):
        if one.id == last.id:
            return (*before[:n], one._replace(truth=one.truth | truth), *before[n + 1 :])
    return (*before, Judged(last.id, frozenset(last.labels), truth)) if truth else before


def by_hand(kind: str, learnt: Learnt) -> dict[str, float | None]:
    """Some measures, from what clients were answered."""
    known = [one for one in judged(kind, learnt) if one.truth]
    if not known:
        return {"examples": 0, "micro_f1": None, "hamming_loss": None, "subset_accuracy": None}
    wrong = [sum((name in predicted) != true for name, true in truth.items()) for _, predicted, truth in known]
    right = sum(true and name in predicted for _, predicted, truth in known for name, true in truth.items())
    return {
        "examples": len(known),
        "micro_f1": 2 * right / (2 * right + sum(wrong)) if right else 0.0,
        "hamming_loss": float(np.mean([n / len(truth) for n, (_, _, truth) in zip(wrong, known, strict=True)])),
        "subset_accuracy": float(np.mean([n == 0 for n in wrong])),
    }


def told(kind: str, before: Learnt, learnt: Learnt) -> list[Prediction]:
    """Predictions for each example just before it is learnt."""
    xs = [x for x, *_ in examples_of(learnt)]
    return [plain(kind, before + learnt[:n]).predict([x])[0] for n, x in enumerate(xs)]


@functools.lru_cache(1000)
def plain_bytes(kind: str, learnt: Learnt) -> bytes:
    return learnt_bytes(plain(kind, learnt))


def learnt_bytes(model: OnlineModel) -> bytes:
    """All that a model has learnt, as bytes, without what it knows of requests."""
    return bytes(model.seed("seed"))


def facts(answer: UpdateResult) -> tuple[Any, ...]:
    """The part of an answer that a retry gets too."""
    predictions = None if answer.predictions is None else list(answer.predictions)
    return answer.position, answer.updates, predictions, answer.skipped, answer.rolled_back_to


@dataclass
class Known:
    """A model as it should be.

    `states` has what had been learnt at each position where the log has been, and `seen` the bytes of the whole
    state that a replica had there.
    """

    name: str
    kind: str
    incarnation: int
    learnt: Learnt = ()
    position: str = START
    states: dict[str, Learnt] = field(default_factory=dict)
    seen: dict[str, bytes] = field(default_factory=dict)
    answers: dict[str, tuple[Request, tuple[Any, ...]]] = field(default_factory=dict)
    kept: dict[str, tuple[int, Prediction]] = field(default_factory=dict)
    labelled: dict[str, set[str] | None] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.states[self.position] = self.learnt

    def move(self, position: str) -> None:
        assert position_key(position) >= position_key(self.position)
        self.position = position
        assert self.states.setdefault(position, self.learnt) == self.learnt

    def may_label(self, id: str, j: int) -> bool:
        """Whether the labels are others than those that were told of it."""
        told, y = self.labelled.get(id, set()), y_of(j)
        new = id not in self.labelled
        return new or (told is not None and not y.complete and told.isdisjoint(y.names))

    def label(self, id: str, j: int) -> Late:
        """Note that it was told; return what is learnt."""
        y, (i, answered) = y_of(j), self.kept[id]
        told = self.labelled.get(id) or set()
        self.labelled[id] = None if y.complete else told | set(y.names)
        return Late(i, j, id, tuple(answered.labels), tuple(answered.scores.items()))


# -- requests -------------------------------------------------------------------------------------


def updating(learnt: Learnt, key: IdempotencyKey | None = None, tell: bool = False) -> Request:
    return lambda replica: replica.update(examples_of(learnt), key=key, want_predictions=tell)


def streaming(learnt: Learnt, part: StreamPart) -> Request:
    return lambda replica: replica.update(examples_of(learnt), want_predictions=True, stream=part)


async def listed_snapshots(replica: Replica) -> list[SnapshotMeta]:
    return await replica.files.snapshots.list()


def rolling_back(position: str, key: IdempotencyKey | None) -> Request:
    return lambda replica: replica.rollback(position, key)


def labelling(labels: dict[str, int], key: IdempotencyKey | None = None, look: bool = True) -> Request:
    """Submit as the interface does; without the look, as a request that comes at the same time as another."""

    async def label(replica: Replica) -> UpdateResult:
        ids = list(labels)
        try:
            truths = [y_of(j) for j in labels.values()]
            kept = await (replica.kept(ids, truths) if look else replica.prediction_store.get(ids))
        except PredictionError:
            if (earlier := await replica.replayed(key)) is None:
                raise
            return earlier
        examples = [Example(one.x, y_of(j)) for one, j in zip(kept, labels.values(), strict=True)]
        return await replica.update(examples, key=key, prediction_ids=ids, served=[one.scores for one in kept])

    return label


# -- the machine ----------------------------------------------------------------------------------


class Clock:
    """Stands in for `time` where pins are released."""

    passed = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.passed


class ReplicaMachine(RuleBasedStateMachine):
    """Makes orders of requests to `n_places` processes.

    Parameters
    ----------
    new_store : makes an unopened store.
    reopened : one over what another has left, `crashed` one over what would be left if its process ended now.
    """

    def __init__(
        self,
        clock: Clock,
        n_places: int,
        new_store: Callable[[], Store],
        reopened: Callable[[Store], Store],
        crashed: Callable[[Store], Store],
    ) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock, self.n_places = clock, n_places
        self.new_store, self.reopened, self.crashed = new_store, reopened, crashed
        self.known: dict[str, Known] = {}
        self.numbers = itertools.count(1)
        self.abandoned: list[Store] = []
        self.registries: list[Registry] = []
        self.stores: list[Store] = []
        self.dead: list[tuple[Registry, Replica]] = []

    def run(self, call: Awaitable[R]) -> R:
        async def bounded() -> R:
            async with asyncio.timeout(WAIT_SECONDS):
                return await call

        return self.runner.run(bounded())

    def key(self) -> IdempotencyKey:
        return IdempotencyKey(f"k{next(self.numbers)}", b"d" * 16)

    @initialize(kind=st.sampled_from(list(SPECS)), again=st.sampled_from(list(SPECS)))
    def start(self, kind: str, again: str) -> None:
        for _ in range(self.n_places):
            store = self.new_store()
            self.stores.append(store)
            self.registries.append(self.run(self.started(store)))
        self.create("m", kind, 0)
        self.create("n", again, 1)

    async def started(self, store: Store) -> Registry:
        await store.open()
        registry = open_registry(store, SETTINGS)
        await registry.start()
        return registry

    def registry(self, place: int) -> Registry:
        return self.registries[place % self.n_places]

    async def ask(self, place: int, name: str, request: Callable[[Replica], Awaitable[R]]) -> R:
        """Ask as a client does: a replica may not have noticed that its model was replaced."""
        while True:
            try:
                async with self.registry(place).use(name) as model:
                    return await request(model)  # type: ignore[arg-type]
            except NotReady as error:
                if "replaced meanwhile" not in error.detail:
                    raise

    async def settled(self) -> None:
        """Wait until no replica has anything to do."""

        def idle() -> bool:
            replicas = [replica for registry in self.registries for replica in registry.resident()]
            return not any(replica.snapshotter.busy or replica.waited_for for replica in replicas)

        await eventually_async(idle)

    # -- requests that change something -----------------------------------------------------------

    def learn(
        self,
        known: Known,
        place: int,
        request: Request,
        new: Learnt,
        key: IdempotencyKey | None = None,
        tell: bool = False,
        skipped: int = 0,
    ) -> None:
        """A request that learns just these examples."""
        self.learnt(known, self.run(self.ask(place, known.name, request)), request, new, key, tell, skipped)
        self.check(known, place)

    def learnt(
        self,
        known: Known,
        answer: UpdateResult,
        request: Request,
        new: Learnt,
        key: IdempotencyKey | None = None,
        tell: bool = False,
        skipped: int = 0,
    ) -> None:
        assert position_key(answer.position) > position_key(known.position)
        due = told(known.kind, known.learnt, new) if tell else None
        known.learnt += new
        known.move(answer.position)
        assert facts(answer) == (answer.position, count(known.learnt), due, skipped, None)
        assert answer.replayed == (not new)
        if key is not None:
            known.answers[key.key] = request, facts(answer)

    def refuse(self, known: Known, place: int, request: Request, error: type[Exception]) -> None:
        """A request that comes to nothing; it may have got into the log."""
        with pytest.raises(error):
            self.run(self.ask(place, known.name, request))
        self.moved(known, place)
        self.check(known, place)

    def moved(self, known: Known, place: int) -> None:
        """An entry that changed nothing may be in the log."""
        position = self.run(self.registry(place).get(known.name)).model.position
        if position_key(position) > position_key(known.position):
            known.move(position)

    @rule(name=NAMES, place=PLACES, new=BATCHES, keyed=KEYED, tell=st.booleans())
    def update(self, name: str, place: int, new: Learnt, keyed: bool, tell: bool) -> None:
        if (known := self.known.get(name)) is not None:
            key = self.key() if keyed else None
            self.learn(known, place, updating(new, key, tell), new, key, tell)

    @rule(name=NAMES, several=st.lists(st.tuples(PLACES, BATCHES), min_size=2, max_size=4))
    def update_at_once(self, name: str, several: list[tuple[int, Learnt]]) -> None:
        if (known := self.known.get(name)) is None:
            return

        async def together() -> list[UpdateResult]:
            return await asyncio.gather(*(self.ask(place, name, updating(new)) for place, new in several))

        answers = zip(self.run(together()), several, strict=True)
        for answer, (_, new) in sorted(answers, key=lambda one: position_key(one[0].position)):
            self.learnt(known, answer, updating(new), new)

    @rule(name=NAMES, place=PLACES, data=st.data())
    def retry(self, name: str, place: int, data: st.DataObject) -> None:
        if (known := self.known.get(name)) is None or not known.answers:
            return
        for key in data.draw(st.lists(st.sampled_from(sorted(known.answers)), min_size=1, max_size=4)):
            self.again(known, place, key)
        self.refuse(known, place, updating(((1, 1),), IdempotencyKey(key, b"other" + bytes(11))), KeyReused)

    def again(self, known: Known, place: int, key: str) -> None:
        request, first = known.answers[key]
        answer = self.run(self.ask(place, known.name, request))
        assert answer.replayed
        assert facts(answer) == first
        self.moved(known, place)
        self.check(known, place)

    @rule(name=NAMES, place=PLACES, new=BATCHES, keyed=KEYED, alone=st.booleans())
    def update_invalid(self, name: str, place: int, new: Learnt, keyed: bool, alone: bool) -> None:
        """Features without names, in a model whose features have some; alone they pass one that has learnt nothing."""
        if (known := self.known.get(name)) is None or (alone and not count(known.learnt)):
            return
        bad = Example(Features(None, None, np.ones(3, dtype=np.float32)), y_of(1))
        examples = [bad] if alone else [*examples_of(new), bad]
        key = self.key() if keyed else None
        self.refuse(known, place, lambda replica: replica.update(examples, key=key), InvalidExample)

    @rule(name=NAMES, place=PLACES, stream=st.sampled_from("st"), new=BATCHES, back=st.integers(0, 5), gap=PLACES)
    def stream(self, name: str, place: int, stream: str, new: Learnt, back: int, gap: int) -> None:
        """Lines, from some that have been sent before."""
        if (known := self.known.get(name)) is None:
            return
        last = known.lines.get(stream, 0)
        begin = max(last + 1 - back, 1) + gap
        part = StreamPart(stream, tuple(range(begin, begin + len(new))))
        skipped = sum(line <= last for line in part.lines)
        known.lines[stream] = max(last, part.lines[-1])
        self.learn(known, place, streaming(new, part), new[skipped:], tell=True, skipped=skipped)

    def keep(self, known: Known, place: int, numbers: list[int]) -> None:
        ids, xs = [self.new_id() for _ in numbers], [x_of(i) for i in numbers]

        async def serve(replica: Replica) -> list[Prediction]:
            answered = list((await replica.predict(xs)).predictions)
            await replica.keep(ids, xs, answered)
            return answered

        answered = self.run(self.ask(place, known.name, serve))
        known.kept |= dict(zip(ids, zip(numbers, answered, strict=True), strict=True))

    def new_id(self) -> str:
        return prediction_ids.make(time.time_ns() // 1_000_000, next(self.numbers).to_bytes(10))

    def labels(self, known: Known, data: st.DataObject) -> dict[str, int]:
        ids = data.draw(st.lists(st.sampled_from(sorted(known.kept)), min_size=1, max_size=2, unique=True))
        return {id: data.draw(st.integers(0, 19)) for id in ids}

    @rule(
        name=NAMES,
        place=PLACES,
        new=st.lists(st.integers(0, 19), max_size=3),
        keyed=KEYED,
        look=st.booleans(),
        data=st.data(),
    )
    def label(self, name: str, place: int, new: list[int], keyed: bool, look: bool, data: st.DataObject) -> None:
        """Predictions kept now, or some time ago; perhaps they have got their labels."""
        if (known := self.known.get(name)) is None:
            return
        self.keep(known, place, new if known.kept else [3, *new])
        labels, key = self.labels(known, data), self.key() if keyed else None
        request = labelling(labels, key, look)
        if not all(known.may_label(id, j) for id, j in labels.items()):
            self.refuse(known, place, request, PredictionLabelled)
            return
        self.learn(known, place, request, tuple(known.label(id, j) for id, j in labels.items()), key)
        if not all(known.may_label(id, j) for id, j in labels.items()):
            self.refuse(known, 1 - place, labelling(labels, look=look), PredictionLabelled)

    # -- snapshots --------------------------------------------------------------------------------

    @rule(name=NAMES, place=PLACES)
    def take_snapshot(self, name: str, place: int) -> None:
        if (known := self.known.get(name)) is None:
            return
        replica = self.run(self.registry(place).get(name))
        behind = (replica.record.incarnation, replica.model.position) != (known.incarnation, known.position)
        try:
            taken = self.run(self.ask(place, name, Replica.take_snapshot))
        except NotReady:
            assert behind, "only one that has been overtaken is refused"
            return
        # A replica that is behind may be at the position of a request whose response was lost.
        assert behind or taken.position == known.position

    @rule(name=NAMES, place=PLACES, keyed=KEYED, which=CHOICES)
    def roll_back(self, name: str, place: int, keyed: bool, which: int) -> None:
        if (known := self.known.get(name)) is None:
            return
        self.run(self.settled())
        listed = [s.position for s in self.run(self.ask(place, name, listed_snapshots))]
        # Any earlier position that the log still has.
        position = chosen(listed, which, START) if which % 2 else chosen(list(known.states), which // 2, START)
        if position in listed and position not in known.states:
            return  # a position of a request that was cut off
        key = self.key() if keyed else None
        request = rolling_back(position, key)
        try:
            answer = self.run(self.ask(place, name, request))
        except BeforeHistory:
            assert position not in listed
            self.moved(known, place)
            self.check(known, place)
            return
        self.rolled_back(known, answer, request, position, key)
        assert not answer.replayed
        self.check(known, place)
        for undone in list(known.answers)[-4:]:
            self.again(known, 1 - place, undone)

    def rolled_back(
        self, known: Known, answer: UpdateResult, request: Request, to: str, key: IdempotencyKey | None
    ) -> None:
        assert position_key(answer.position) > position_key(known.position)
        if known.learnt != known.states[to]:
            known.learnt = (*known.states[to], Undone(known.learnt))
        known.move(answer.position)
        assert facts(answer) == (answer.position, count(known.learnt), None, 0, to)
        if key is not None:
            known.answers[key.key] = request, facts(answer)

    @rule()
    def let_pins_go(self) -> None:
        """Long enough after every rollback."""
        self.run(self.settled())
        self.clock.passed += 2 * retention.PIN_SECONDS

    @rule(name=NAMES, place=PLACES)
    def look_at_snapshots(self, name: str, place: int) -> None:
        """Each is of the state that was. From those to be kept there is a way to the present; older ones are gone."""
        if (known := self.known.get(name)) is None:
            return
        self.run(self.settled())
        _, before = self.look_at_kept(known, place)
        for _ in range(2):  # the first snapshot releases pins, the second the snapshots that were pinned
            self.run(self.ask(place, name, Replica.take_snapshot))
        replica, listed = self.look_at_kept(known, place)
        assert all(snapshot.pinned for snapshot in listed[SETTINGS.snapshot_retention_count :])
        assert {s.position for s in before[: SETTINGS.snapshot_retention_count - 1]} <= {s.position for s in listed}
        if len(listed) > 1 and listed[1].position != START:
            with pytest.raises(LogTrimmed):
                self.run(self.stores[place % self.n_places].logs.read(replica.record, START, 1))

    def look_at_kept(self, known: Known, place: int) -> tuple[Replica, list[SnapshotMeta]]:
        replica = self.run(self.caught_up(known, place))
        listed = self.run(replica.files.snapshots.list())
        for n, snapshot in enumerate(listed):
            data = self.run(snapshot_bytes(replica, snapshot.position))
            model = OnlineModel.from_bytes(data)
            assert model.position == snapshot.position
            if (learnt := known.states.get(snapshot.position)) is not None:
                assert learnt_bytes(model) == plain_bytes(known.kind, learnt)
            assert known.seen.setdefault(snapshot.position, data) == data
            if n < SETTINGS.snapshot_retention_count:
                while self.run(replica._replayer.read_on(model)):
                    pass
                assert model.to_bytes() == replica.model.to_bytes()
        return replica, listed

    # -- comings and goings -----------------------------------------------------------------------

    @rule(name=NAMES, kind=st.sampled_from(list(SPECS)), place=PLACES)
    def create(self, name: str, kind: str, place: int) -> None:
        create = self.registry(place).create(spec_of(kind, name))
        if name in self.known:
            with pytest.raises(ModelExists):
                self.run(create)
            return
        replica = self.run(create)
        self.known[name] = Known(name, kind, replica.record.incarnation)
        self.check(self.known[name], place)

    @rule(name=PASSING, place=PLACES)
    def create_from_a_snapshot(self, name: str, place: int) -> None:
        """In the place of the model that has the name, from the other one."""
        other = self.known.get("m" if name == "n" else "n")
        if other is None:
            return
        replica = self.run(self.caught_up(other, place))
        position = self.run(replica.take_snapshot()).position
        state = OnlineModel.from_bytes(self.run(snapshot_bytes(replica, position)))
        self.delete(name, place)
        replica = self.run(self.registry(place).create(spec_of("salt", name), state))
        known = Known(name, other.kind, replica.record.incarnation, other.states[position], SEED)
        self.known[name] = known
        self.check(known, place)

    @rule(name=PASSING, place=PLACES)
    def delete(self, name: str, place: int) -> None:
        if self.known.pop(name, None) is None:
            with pytest.raises(ModelNotFound):
                self.run(self.registry(place).delete(name))
            return
        held = [(one, r) for one in self.registries for r in one.resident() if r.spec.name == name]
        self.run(self.registry(place).delete(name))
        self.dead += held

    @rule(which=CHOICES, new=BATCHES)
    def use_the_dead(self, which: int, new: Learnt) -> None:
        if not self.dead:
            return
        _, replica = self.dead[which % len(self.dead)]
        for request in (updating(new), rolling_back(START, None)):
            with pytest.raises(ModelNotFound):
                self.run(request(replica))

    @rule(name=NAMES, place=PLACES, new=BATCHES)
    def evict(self, name: str, place: int, new: Learnt) -> None:
        if (known := self.known.get(name)) is None:
            return
        registry = self.registry(place)
        replica = self.run(self.caught_up(known, place))

        self.run(eventually_async(lambda: registry._eviction._take_out(replica, "test")))
        assert replica not in registry.resident()
        self.learnt(known, self.run(self.ask(place, name, updating(new))), updating(new), new)
        self.check(known, place)

    @rule(place=PLACES)
    def restart(self, place: int) -> None:
        """Stop a process cleanly, and start it again."""
        place %= self.n_places
        self.run(self.registries[place].stop())
        self.run(self.stores[place].close())
        self.open(place, self.reopened(self.stores[place]))
        for known in self.known.values():
            self.check(known, place)

    @rule(place=PLACES)
    def crash(self, place: int) -> None:
        """The process ends without a word; another takes its place, and restores everything."""
        place %= self.n_places
        successor = self.crashed(self.stores[place])
        self.run(self.killed(place))
        self.open(place, successor)
        for known in self.known.values():
            self.check(known, place)

    async def killed(self, place: int) -> None:
        """No task of it goes on; what it holds open stays so."""
        registry = self.registries[place]
        self.abandoned.append(self.stores[place])
        for task in registry._tasks:
            task.cancel()
        await asyncio.gather(*registry._tasks, return_exceptions=True)
        await registry._loader.cancel()
        for replica in registry.resident():
            await replica.drop()

    def open(self, place: int, store: Store) -> None:
        self.dead = [(registry, replica) for registry, replica in self.dead if registry is not self.registries[place]]
        self.stores[place] = store
        self.registries[place] = self.run(self.started(store))

    @rule(
        name=NAMES,
        places=st.tuples(PLACES, PLACES),
        what=st.sampled_from(["update", "label", "stream", "roll_back", "take_snapshot"]),
        new=BATCHES,
        milliseconds=st.integers(0, 30).map(lambda n: n / 10),
        which=CHOICES,
    )
    def crash_meanwhile(
        self,
        name: str,
        places: tuple[int, int],
        what: str,
        new: Learnt,
        milliseconds: float,
        which: int,
    ) -> None:
        """In the middle of a request, which is sent again, to whichever process: it counts once."""
        if (known := self.known.get(name)) is None:
            return
        self.run(self.settled())
        key, place, to = self.key(), places[0] % self.n_places, START
        request: Callable[[Replica], Awaitable[Any]] = updating(new, key, True)
        if what == "label":
            self.keep(known, place, [new[0][0]])
            *_, id = known.kept
            request = labelling({id: new[0][1]}, key)
            new = (known.label(id, new[0][1]),)
        elif what == "stream":
            begin = known.lines.get("s", 0) + 1
            known.lines["s"] = begin + len(new) - 1
            request = streaming(new, StreamPart("s", tuple(range(begin, begin + len(new)))))
        elif what == "roll_back":
            listed = [
                s.position for s in self.run(self.ask(place, name, lambda replica: replica.files.snapshots.list()))
            ]
            to = chosen(listed, which, "")
            if to not in known.states:
                return
            request = rolling_back(to, key)
        elif what == "take_snapshot":
            request = Replica.take_snapshot
        first = self.cut_off(place, name, request, milliseconds)
        if what == "take_snapshot":
            self.check(known, places[1])
            return
        answer = self.run(self.ask(places[1], name, request))
        if first is not None:
            assert answer.replayed
            if what != "stream":
                assert facts(answer) == facts(first)
        if what == "roll_back":
            self.rolled_back(known, answer, request, to, key)
        elif what == "stream":
            known.learnt += new
            assert answer.updates == count(known.learnt)
            assert answer.skipped == (len(new) if answer.replayed else 0)
        else:
            tell = what == "update"
            due = told(known.kind, known.learnt, new) if tell else None
            known.learnt += new
            known.move(answer.position)
            assert facts(answer) == (answer.position, count(known.learnt), due, 0, None)
            known.answers[key.key] = request, facts(answer)
        self.moved(known, places[1])
        self.check(known, places[1])

    def cut_off(
        self, place: int, name: str, request: Callable[[Replica], Awaitable[Any]], milliseconds: float
    ) -> Any | None:
        """Return the answer to the request; None if the process ended before it."""

        async def begin() -> "asyncio.Task[Any]":
            task = asyncio.create_task(self.ask(place, name, request))
            await asyncio.sleep(milliseconds / 1000)  # the process may end at any moment
            return task

        task = self.run(begin())
        answer = task.result() if task.done() else None
        successor = self.crashed(self.stores[place])

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.killed(place)

        self.run(end())
        self.open(place, successor)
        return answer

    # -- what holds at any time -------------------------------------------------------------------

    async def caught_up(self, known: Known, place: int) -> Replica:
        """The replica of a model once it has heard of all there is."""

        async def right_one() -> Replica | None:
            replica = await self.registry(place).get(known.name)
            return replica if replica.record.incarnation == known.incarnation else None

        replica = await eventually_async(right_one)
        await replica.predict([], at_least=known.position)
        return replica

    def check(self, known: Known, place: int) -> None:
        """One process has all of a model, to the bit."""
        replica = self.run(self.caught_up(known, place))
        model = replica.model
        predicted = self.run(replica.predict(PROBES))
        assert (predicted.position, model.position, model.updates) == (known.position,) * 2 + (count(known.learnt),)
        assert list(predicted.predictions) == plain(known.kind, known.learnt).predict(PROBES)
        assert (len(model.keys), len(model.labelled)) == (len(known.answers), len(known.labelled))
        assert all(key in model.keys for key in known.answers)
        assert all(id in model.labelled for id in known.labelled)
        cumulative = model.prequential.measures()["cumulative"]
        due = by_hand(known.kind, known.learnt)
        assert {name: cumulative[name] for name in due} == (pytest.approx(due) if due["examples"] else due)
        assert [model.streams.last(stream) for stream in "st"] == [known.lines.get(stream, 0) for stream in "st"]

    @rule(name=NAMES)
    def catch_up(self, name: str) -> None:
        if (known := self.known.get(name)) is not None:
            for place in range(self.n_places):
                self.check(known, place)

    @invariant()
    def has_what_was_there(self) -> None:
        """Also one that has not heard of everything has a state that was, the same as all others at that position."""
        for registry in self.registries:
            for replica in registry.resident():
                known, model = self.known.get(replica.spec.name), replica.model
                assert not replica.failed
                if known is None or replica.record.incarnation != known.incarnation or replica.busy:  # amid an entry
                    continue
                if (learnt := known.states.get(model.position)) is not None:
                    assert model.updates == count(learnt)
                    assert learnt_bytes(model) == plain_bytes(known.kind, learnt)
                state = model.to_bytes()
                assert known.seen.setdefault(model.position, state) == state

    def teardown(self) -> None:
        for place in range(len(self.registries)):
            self.run(self.killed(place))
        for store in self.abandoned:
            self.run(store.close())
        self.runner.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(retention, "time", clock)
    return clock


def run_machine(make: Callable[[], ReplicaMachine], examples: int) -> None:
    run_state_machine_as_test(
        make,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            database=None,
            derandomize=True,  # the same histories each time; their timing differs anyway
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


def test_any_order_in_one_directory(tmp_path: Path, clock: Clock, n_examples: int) -> None:
    numbers = itertools.count()

    def directory() -> Path:
        return tmp_path / str(next(numbers))

    def reopened(store: Store) -> Store:
        assert isinstance(store, SQLiteStore)
        return SQLiteStore(store.engine.directory)

    def crashed(store: Store) -> Store:
        """Over a copy of the directory as it is between two operations: what a kill there would leave."""
        assert isinstance(store, SQLiteStore)
        copy, threads = directory(), store.engine.threads

        def copied() -> None:
            threads.writer.submit(shutil.copytree, store.engine.directory, copy).result()

        threads.filer.submit(copied).result()
        return SQLiteStore(copy)

    def machine() -> ReplicaMachine:
        return ReplicaMachine(clock, 1, lambda: SQLiteStore(directory()), reopened, crashed)

    run_machine(machine, n_examples // 3)


def test_any_order_among_two_processes_on_redis(new_redis: Callable[..., Any], clock: Clock, n_examples: int) -> None:
    numbers, server = itertools.count(), new_redis(options={"databases": "10000"}).start()

    def machine() -> ReplicaMachine:
        address = Address.parse(f"redis://127.0.0.1:{server.port}/{next(numbers)}")

        def another(store: Store) -> Store:
            return RedisStore(address)

        return ReplicaMachine(clock, 2, lambda: RedisStore(address), another, another)

    run_machine(machine, n_examples // 3)
