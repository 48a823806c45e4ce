"""The last examples of an online model as a dataset, in the columns of the model."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.service.online.folds import dense, named, new_model, sparse, ulid

from manylabel_core.datasets import Dataset
from manylabel_service.datasets import export_log as folding
from manylabel_service.datasets import from_stream as stream_module
from manylabel_service.datasets import sandbox as helper
from manylabel_service.datasets.from_stream import StreamCounts, rows_of_stream
from manylabel_service.datasets.sandbox_child import report_of
from manylabel_service.errors import InvalidDataset, ModelIsTrained, ModelNotFound
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.spec.trained import TrainedSpec
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.controls import Relabel, Rollback
from manylabel_service.online.state.corrections import Corrects
from manylabel_service.online.state.log_entries import Change, Update, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.settings import Settings
from manylabel_service.storage import SEED, START, LogExtent, Store

SettingsWith = Callable[..., Settings]


class Stream:
    """A model in a store, and a copy of the model that applies the same entries here."""

    def __init__(self, store: Store, settings: Settings, to: Path) -> None:
        self.store, self.settings, self.to = store, settings, to
        self.states: dict[str, bytes] = {}

    async def create(self, **spec: Any) -> None:
        self.model = new_model(**spec)
        self.record = await self.store.models.create("m", self.model.spec.model_dump_json().encode())
        self.position = START

    async def append(self, change: Change) -> str:
        """Append an entry to the log and apply it; return its position."""
        (entry,) = await self.store.logs.append(self.record, [encode(change)], self.position)
        self.position = entry.position
        folding = ApplyBatch(self.model, [LogEntry(entry.position, change)])
        while folding.step(100):  # the first vector of a field takes a separate step
            if folding.needed_snapshot is not None:
                folding.roll_back(OnlineModel.from_bytes(self.states[folding.needed_snapshot]))
        return entry.position

    async def learn(self, *examples: tuple[Features, Sequence[str] | dict[str, bool]], **more: Any) -> str:
        return await self.append(Update(tuple(Example(x, labels(y)) for x, y in examples), **more))

    async def snapshot(self) -> str:
        self.states[self.position] = self.model.to_bytes()
        extent = LogExtent(self.model.updates, 100 * self.model.updates)
        await self.store.snapshots.put(self.record, self.position, self.states[self.position], extent)
        return self.position

    async def rows(self, last: int) -> tuple[StreamCounts, Dataset]:
        counts = await rows_of_stream(self.store, self.settings, "m", last, self.to)
        dataset = Dataset.from_bytes(self.to.read_bytes())
        assert counts.rows == dataset.n_rows
        assert dataset.label_names == self.model.labels.names
        if self.model.features.layout.kind == "named":
            assert dataset.names == self.model.features.names.names
        return counts, dataset


def labels(y: Sequence[str] | dict[str, bool]) -> Labels:
    if isinstance(y, dict):
        return Labels(tuple(y), np.int8([1 if relevant else -1 for relevant in y.values()]), complete=False)
    return Labels.all_of(y)


def told(dataset: Dataset) -> list[tuple[dict[str, float], set[str]]]:
    """Return the rows with names of features and labels."""
    X: Any = dataset.X
    X = X.toarray() if sp.issparse(X) else X
    names = dataset.names or tuple(map(str, range(dataset.n_features)))
    return [
        (
            {names[column]: float(x[column]) for column in np.flatnonzero(x)},
            {dataset.label_names[column] for column in dataset.Y[[row]].indices},
        )
        for row, x in enumerate(X)
    ]


@pytest.fixture(autouse=True)
def _applied_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply logs in this process, because a child takes longer to start than to apply these logs."""

    async def run_here(module: str, request: dict[str, Any], files: list[Any], **limits: int) -> dict[str, Any]:
        assert module == folding.__name__
        for file in files:
            file.flush()
            file.seek(0)
        return helper.checked(json.loads(json.dumps(report_of(folding.fold, request, files))))

    monkeypatch.setattr(stream_module, "run", run_here)


@pytest.fixture
def any_stream(store: Store, settings_with: SettingsWith, tmp_path: Path) -> Stream:
    return Stream(store, settings_with(), tmp_path / "rows")


@pytest.fixture
def stream(sqlite_store: Store, settings_with: SettingsWith, tmp_path: Path) -> Stream:
    return Stream(sqlite_store, settings_with(), tmp_path / "rows")


async def test_a_child_process_reads_the_rows(any_stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "run", helper.run)
    await any_stream.create()
    last = await any_stream.learn((named(a=1, b=2), ["x"]), (named(c=3), ["y", "x"]))
    counts, dataset = await any_stream.rows(1)
    assert counts == (1, 1, 2, 1, 0, 0, last, False)
    assert told(dataset) == [({"c": 3}, {"y", "x"})]


async def test_rows_keep_their_weights(stream: Stream) -> None:
    await stream.create()
    await stream.learn((named(a=1), ["x"]))
    assert (await stream.rows(9))[1].weights is None
    for weight in (0.5, 1.0, 1000.0):
        await stream.append(Update((Example(named(a=weight), labels(["x", "y"]), weight),)))
    await stream.append(Update((Example(named(a=7), labels({"x": True}), 9.0),)))  # partial labels
    for n, weights in ((3, [0.5, 1.0, 1000.0]), (4, [1.0, 0.5, 1.0, 1000.0])):
        counts, dataset = await stream.rows(n)
        assert (counts.rows, counts.partial) == (n, 1)
        assert dataset.weights is not None
        assert dataset.weights.tolist() == weights


async def test_ignored_and_refused_features_and_labels_are_in_no_row(stream: Stream) -> None:
    limits = {"features": {"most": 2, "policy": "ignore"}, "labels": {"most": 2, "policy": "reject"}}
    await stream.create(limits=limits)
    await stream.learn((named(a=1, b=2, c=3), ["x"]))
    await stream.learn((named(a=9), ["y", "z"]))
    await stream.snapshot()
    await stream.learn((named(c=4, b=5), ["y"]), (named(d=6), ["x"]))
    _, dataset = await stream.rows(9)
    assert told(dataset) == [({"a": 1, "b": 2}, {"x"}), ({"b": 5}, {"y"}), (dict[str, float](), {"x"})]


async def test_a_model_that_hashes_its_features_has_no_rows(stream: Stream) -> None:
    await stream.create(limits={"features": {"most": 2, "policy": "hash"}})
    await stream.learn((named(a=1), ["x"]))
    with pytest.raises(InvalidDataset, match="hashes its features"):
        await stream.rows(9)


async def test_rows_are_the_last_examples_in_the_order_of_the_log(stream: Stream) -> None:
    await stream.create()
    await stream.learn((named(a=1, b=2), ["x"]), (named(c=3), ["y", "x"]))
    await stream.snapshot()
    last = await stream.learn((named(b=-1, d=0.5), []), (named(a=4, b=0), ["z"]))
    everything = [({"a": 1, "b": 2}, {"x"}), ({"c": 3}, {"y", "x"}), ({"b": -1, "d": 0.5}, set()), ({"a": 4}, {"z"})]
    for n in (1, 2, 3, 4, 100):
        counts, dataset = await stream.rows(n)
        assert told(dataset) == everything[-n:]
        assert counts == (n, min(n, 4), 4, min(n, 4), 0, 0, last, False)
        assert (dataset.names, dataset.label_names) == (("a", "b", "c", "d"), ("x", "y", "z"))


async def test_rows_before_the_log_are_counted_as_missing(stream: Stream) -> None:
    await stream.create()
    await stream.learn((named(a=1), ["x"]), (named(b=1), ["y"]))
    middle = await stream.snapshot()
    await stream.learn((named(c=2), ["z"]), (named(b=3), ["y"]))
    await stream.snapshot()
    await stream.store.logs.trim(stream.record, middle)
    counts, dataset = await stream.rows(10)
    assert (counts.rows, counts.available) == (2, 4)
    assert counts.to_text() == "2 of 10 asked; 4 were learnt, older ones are no longer in the log"
    enough, _ = await stream.rows(2)
    assert (enough.rows, enough.available) == (2, 2)
    assert enough.to_text() == "2 of 2 asked; 4 were learnt"
    assert told(dataset) == [({"c": 2}, {"z"}), ({"b": 3}, {"y"})]
    assert dataset.names == ("a", "b", "c"), "the columns are those of the model"


async def test_examples_with_partial_labels_are_skipped_and_counted(stream: Stream) -> None:
    await stream.create()
    await stream.learn((named(a=1), {"x": True}), (named(a=2), ["x"]), (named(a=3), {"x": True, "y": False}))
    await stream.learn((named(a=4), ["y"]), (named(a=5), {"x": False}))
    for n, n_partial in ((1, 1), (2, 1), (5, 2)):
        counts, dataset = await stream.rows(n)
        assert counts.partial == n_partial, "those before the first row do not count"
        assert told(dataset) == [({"a": 2}, {"x"}), ({"a": 3}, {"x"}), ({"a": 4}, {"y"})][-n:]
        assert counts.available == counts.rows, "none is missing for want of the log"
    assert counts.to_text() == "3 of 5 asked; 5 were learnt; 2 skipped because a label is unknown"


async def test_delayed_partial_labels_and_renamed_labels_are_read(stream: Stream) -> None:
    await stream.create()
    first, whole = ulid(1), ulid(2)
    for y in ({"x": True}, {"y": False}):
        await stream.learn((named(a=1), y), prediction_ids=(first,), served=(np.empty(0),))
    await stream.learn((named(a=2), ["x"]), prediction_ids=(whole,), served=(np.zeros(2),))
    await stream.append(Relabel("x", "z"))
    await stream.learn((named(a=3), ["y", "z"]))
    await stream.append(Relabel("y", None))
    counts, dataset = await stream.rows(10)
    assert told(dataset) == [({"a": 2}, {"z"}), ({"a": 3}, {"y", "z"})]
    assert counts.partial == 2


async def test_skipped_rows_do_not_hide_that_the_log_is_trimmed(stream: Stream) -> None:
    await stream.create()
    await stream.learn(*[(named(a=1), ["x"])] * 3)
    middle = await stream.snapshot()
    await stream.learn((named(a=2), ["x", "y"]), (named(a=1), {"x": True}), (named(a=3), ["y"]))
    await stream.snapshot()
    await stream.store.logs.trim(stream.record, middle)
    counts, _ = await stream.rows(4)
    assert (counts.rows, counts.available, counts.partial) == (2, 4, 1)
    await stream.learn((named(a=4), {"x": True, "y": True}), (named(a=5), ["z"]))
    counts, _ = await stream.rows(4)
    assert (counts.rows, counts.available, counts.partial) == (3, 3, 2), "one was complete until z came"


async def test_examples_that_were_never_in_the_log_are_counted(stream: Stream) -> None:
    """The log of a model that was made of a snapshot begins with the next example."""
    await stream.create()
    await stream.learn((named(a=1), ["x"]), (named(b=1), ["y"]))
    store, record = stream.store, stream.record
    state = OnlineModel.from_bytes(await store.snapshots.get(record, await stream.snapshot()) or b"")
    await store.models.delete(record)
    stream.record = await store.models.create(record.name, record.spec, state.seed(record.name))
    stream.model, stream.position = OnlineModel.from_bytes(state.seed(record.name)), SEED
    await stream.learn((named(c=2), ["x"]))
    counts, dataset = await stream.rows(10)
    assert counts.to_text() == "1 of 10 asked; 3 were learnt, older ones were learnt before this log began"
    assert told(dataset) == [({"c": 2}, {"x"})]
    enough, _ = await stream.rows(1)
    assert enough.to_text() == "1 of 1 asked; 3 were learnt"


async def test_a_trimmed_log_may_have_no_row(stream: Stream) -> None:
    await stream.create()
    await stream.learn((named(a=1), ["x"]))
    only = await stream.snapshot()
    await stream.store.logs.trim(stream.record, only)
    counts, _ = await stream.rows(4)
    assert counts.to_text() == "0 of 4 asked; 1 were learnt, older ones are no longer in the log"


async def test_partial_labels_that_name_every_label_are_complete(stream: Stream) -> None:
    await stream.create()
    await stream.learn((named(a=1), {"x": True, "y": False}), (named(a=2), {"y": True, "x": False}))
    counts, dataset = await stream.rows(5)
    assert (counts.partial, told(dataset)) == (0, [({"a": 1}, {"x"}), ({"a": 2}, {"y"})])
    await stream.learn((named(a=3), ["z"]), (named(a=4), {"x": True, "y": True, "z": False}))
    counts, dataset = await stream.rows(5)
    assert (counts.partial, told(dataset)) == (2, [({"a": 3}, {"z"}), ({"a": 4}, {"x", "y"})])


async def test_refused_and_repeated_updates_are_no_rows(stream: Stream) -> None:
    await stream.create()
    key, id = IdempotencyKey("k", b"d" * 16), ulid(1)
    wants = {"want_predictions": True, "want_probabilities": True}
    await stream.learn((named(a=1), ["x"]), key=key, **wants)
    await stream.learn((named(a=2), ["x"]), key=key)  # again
    await stream.learn((named(a=3), ["x"]), key=IdempotencyKey("k", b"e" * 16))  # the key of another
    await stream.learn((dense(1, 2, 3), ["x"]))  # of another form
    await stream.learn((named(a=4), ["y"]), prediction_ids=(id,), served=(np.empty(0),))
    await stream.learn((named(a=5), ["y"]), prediction_ids=(id,), served=(np.empty(0),))  # labelled before
    counts, dataset = await stream.rows(10)
    assert told(dataset) == [({"a": 1}, {"x"}), ({"a": 4}, {"y"})]
    assert (counts.partial, counts.rolled_back) == (0, 0)


async def test_rows_of_another_input_kind_before_a_rollback_are_skipped(stream: Stream) -> None:
    await stream.create()
    back = await stream.snapshot()
    await stream.learn((dense(1, 2, 3), ["x"]))
    await stream.append(Rollback(back))
    await stream.learn((named(a=1), ["y"]))
    counts, dataset = await stream.rows(10)
    assert told(dataset) == [({"a": 1}, {"y"})]
    assert (dataset.names, counts.rolled_back) == (("a",), 1)


@pytest.mark.parametrize("form", [dense, lambda *values: sparse(*range(len(values)))])
async def test_numbered_features_without_gaps_are_dense(stream: Stream, form: Callable[..., Features]) -> None:
    await stream.create(algorithm="kernel_falt", params={"budget": 2})
    await stream.learn((form(1, 1, 1), ["x"]), (form(1, 1, 1), []))
    _, dataset = await stream.rows(10)
    assert dataset.names is None
    assert isinstance(dataset.X, np.ndarray)
    assert dataset.X.tolist() == [[1, 1, 1], [1, 1, 1]]


async def test_numbered_features_with_gaps_are_sparse(stream: Stream) -> None:
    await stream.create()
    await stream.learn((sparse(5, 900), ["x"]), (sparse(2, 5), []), (sparse(0, 900), ["x"]))
    _, dataset = await stream.rows(10)
    assert (dataset.X.shape, dataset.X.has_sorted_indices) == ((3, 901), True)
    assert [dataset.X[[row]].indices.tolist() for row in range(3)] == [[5, 900], [2, 5], [0, 900]]


async def test_a_missing_value_is_no_zero(stream: Stream) -> None:
    await stream.create(features=["a", "b"])
    await stream.learn((named(a=0.0, b=2.0), ["x"]), (named(b=0.0), ["x"]))
    _, found = await stream.rows(2)
    assert [part.tolist() for part in (found.X.indptr, found.X.indices)] == [[0, 2, 3], [0, 1, 1]]
    assert found.X.data.tolist() == [0.0, 2.0, 0.0]


async def test_declared_features_and_labels_keep_their_order(stream: Stream) -> None:
    await stream.create(features=["b", "a"], labels=["q", "p"])
    await stream.learn((named(a=1), ["p"]))
    _, dataset = await stream.rows(1)
    assert (dataset.names, dataset.label_names) == (("b", "a"), ("q", "p"))
    assert told(dataset) == [({"a": 1}, {"p"})]


async def test_a_damaged_snapshot_is_passed_over(stream: Stream) -> None:
    await stream.create()
    await stream.learn((named(a=1), ["x"]))
    first = await stream.snapshot()
    await stream.learn((named(b=2), ["y"]))
    await stream.snapshot()
    await stream.learn((named(c=3), ["z"]))
    await stream.store.logs.trim(stream.record, first)
    damaged = stream.states[first][:-1] + b"!"
    await stream.store.snapshots.put(stream.record, first, damaged)
    counts, dataset = await stream.rows(10)
    assert counts.rows == 1
    assert told(dataset) == [({"c": 3}, {"z"})]


async def test_models_without_rows_are_refused(
    sqlite_store: Store, settings_with: SettingsWith, tmp_path: Path
) -> None:
    async def ask(name: str) -> None:
        await rows_of_stream(sqlite_store, settings_with(), name, 5, tmp_path / "rows")

    with pytest.raises(ModelNotFound):
        await ask("nobody")
    await sqlite_store.models.create("t", TrainedSpec(name="t").to_bytes())
    with pytest.raises(ModelIsTrained):
        await ask("t")
    await sqlite_store.models.create("m", new_model().spec.model_dump_json().encode())
    with pytest.raises(InvalidDataset, match="the log has no example"):
        await ask("m")


async def test_the_bytes_of_rows_are_limited(sqlite_store: Store, settings_with: SettingsWith, tmp_path: Path) -> None:
    stream = Stream(sqlite_store, settings_with(max_dataset_bytes=20_000), tmp_path / "rows")
    await stream.create()
    for _ in range(30):
        await stream.learn(*[(dense(*range(1, 11)), ["x"])] * 100)
    with pytest.raises(InvalidDataset, match="the rows take more than the limit of 20,000 bytes: use fewer rows"):
        await stream.rows(3_000)
    counts, _ = await stream.rows(100)
    assert counts.rows == 100


async def test_rows_of_any_log_are_the_remaining_examples(any_stream: Stream) -> None:
    """Compare updates, partial labels, snapshots, rollbacks and trims with a plain list of the remaining rows."""
    rng = random.Random(7)
    await any_stream.create()
    kept: list[tuple[str, tuple[dict[str, float], set[str]]]] = []  # examples by position, without the forgotten ones
    backs: list[str] = []
    trimmed = START
    for _ in range(60):
        act = rng.random()
        if act < 0.75 or not backs:
            x = {rng.choice("abcdefgh"): float(rng.randint(1, 9)) for _ in range(3)}
            y = {rng.choice("pqrs") for _ in range(2)}
            position = await any_stream.learn((named(**x), sorted(y)), (named(z=1), {"p": True}))
            kept.append((position, (x, y)))
        elif act < 0.9:
            to = rng.choice(backs)
            await any_stream.append(Rollback(to))
            kept = [row for row in kept if order(row[0]) <= order(to)]
        if rng.random() < 0.2:
            backs.append(await any_stream.snapshot())
    counts, dataset = await any_stream.rows(1_000)
    assert told(dataset) == [row for _, row in kept]
    _, latest = await any_stream.rows(5)
    assert told(latest) == told(dataset)[-5:]
    trimmed = backs[len(backs) // 2]
    await any_stream.store.logs.trim(any_stream.record, trimmed)
    expected = [row for position, row in kept if order(position) > order(trimmed)]
    if expected:
        counts, dataset = await any_stream.rows(1_000)
        assert told(dataset) == expected
    assert counts.rows > 0


def order(position: str) -> tuple[int, ...]:
    return tuple(map(int, position.split("-")))


@pytest.mark.parametrize("also_sparse", [False, True])
async def test_a_null_of_a_dense_example_is_missing(stream: Stream, also_sparse: bool) -> None:
    await stream.create()
    await stream.learn((dense(0.0, np.nan), ["x"]), (dense(1.0, 2.0), ["x"]))
    if also_sparse:
        await stream.learn((Features(None, np.array([1], dtype=np.int32), np.float32([0.0])), ["x"]))
    _, found = await stream.rows(3)
    if also_sparse:
        assert found.X.indptr.tolist() == [0, 1, 3, 4]
        assert found.X.data.tolist() == [0.0, 1.0, 2.0, 0.0]
    else:
        np.testing.assert_array_equal(found.X, np.float32([[0.0, np.nan], [1.0, 2.0]]))


async def test_a_vector_is_a_view_that_rows_may_lack(stream: Stream) -> None:
    def with_vector(x: Features, *numbers: float) -> Features:
        return x._replace(vectors={"v": np.array(numbers, dtype=np.float32)})

    await stream.create()
    await stream.learn((named(a=1), ["x"]), (with_vector(named(b=2), 0.0, -1.5), ["y"]))
    await stream.learn((named(a=3), ["x"]), (with_vector(named(), 4.0, 5.0), ["x", "y"]))
    await rows_of_stream(stream.store, stream.settings, "m", 3, stream.to)
    dataset = Dataset.from_bytes(stream.to.read_bytes())
    assert list(dataset.views) == ["x", "v"]
    assert dataset.names == ("a", "b", "v[0]", "v[1]")
    assert dataset.views["v"].tolist() == [[0.0, -1.5], [0.0, 0.0], [4.0, 5.0]]
    assert dataset.missing["v"].tolist() == [False, True, False]
    assert told(dataset) == [({"b": 2, "v[1]": -1.5}, {"y"}), ({"a": 3}, {"x"}), ({"v[0]": 4, "v[1]": 5}, {"x", "y"})]


def correction(position: str, x: Features, y: Sequence[str] | dict[str, bool], index: int = 0) -> Update:
    return Update((Example(x, labels(y)),), corrects=Corrects(position, index, None))


async def test_rows_have_the_corrected_labels(stream: Stream) -> None:
    await stream.create()
    first = await stream.learn((named(a=1), ["x"]), (named(a=2), ["y"]))
    some = await stream.learn((named(a=3), {"x": True}))
    await stream.append(correction(first, named(a=2), ["x"], 1))
    last = await stream.learn((named(a=4), ["z"]))
    await stream.append(Relabel("x", "w"))
    await stream.append(correction(some, named(a=3), ["w", "z"]))
    await stream.append(correction(first, named(a=2), ["w", "y"], 1))
    await stream.append(Update((), corrects=Corrects(first, 0, ("x",))))
    everything = [({"a": 1}, {"w"}), ({"a": 2}, {"w", "y"}), ({"a": 3}, {"w", "z"}), ({"a": 4}, {"z"})]
    for n in (1, 2, 3, 4, 9):
        counts, dataset = await stream.rows(n)
        assert told(dataset) == everything[-n:]
        assert (counts.rows, counts.learnt, counts.partial, counts.rolled_back) == (min(n, 4), 4, 0, 0)
    await stream.append(correction(last, named(a=4), {"x": True}))
    counts, dataset = await stream.rows(9)
    assert told(dataset) == everything[:-1]
    assert counts.partial == 1


async def test_a_correction_that_was_rolled_back_changes_no_row(stream: Stream) -> None:
    await stream.create()
    first = await stream.learn((named(a=1), ["x"]), (named(a=2), ["y"]))
    before = await stream.snapshot()
    await stream.append(correction(first, named(a=1), ["y"]))
    await stream.append(Rollback(before))
    counts, dataset = await stream.rows(9)
    assert told(dataset) == [({"a": 1}, {"x"}), ({"a": 2}, {"y"})]
    assert (counts.rows, counts.learnt, counts.rolled_back) == (2, 2, 1)


async def test_a_correction_of_an_example_before_the_log_is_no_row(stream: Stream) -> None:
    await stream.create()
    first = await stream.learn((named(a=1), ["x"]), (named(b=1), ["y"]))
    middle = await stream.snapshot()
    await stream.learn((named(a=2), ["x"]))
    await stream.append(correction(first, named(a=1), ["y"]))
    await stream.snapshot()
    await stream.store.logs.trim(stream.record, middle)
    counts, dataset = await stream.rows(9)
    assert told(dataset) == [({"a": 2}, {"x"})]
    assert (counts.rows, counts.learnt, counts.available) == (1, 3, 3)
