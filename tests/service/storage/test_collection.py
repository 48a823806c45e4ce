"""Documents of one kind as models: compare-and-set, retries, damage and changes."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from typing import Any, NamedTuple, NoReturn, get_args, get_type_hints

import pytest
from pydantic import BaseModel, ConfigDict, Field
from tests.support.cases import for_each
from tests.support.stored_models import stored_models

from manylabel_service.errors import DocumentDamaged, DocumentNewer, ReleaseTooOld, RevisionConflict, StorageError
from manylabel_service.release import RELEASE
from manylabel_service.storage import Collection, StoredModel, StoredPart, intact
from manylabel_service.storage import collection as module


class Count(StoredModel):
    n: int = 0


@pytest.fixture
def counts(store: Any) -> Collection[Count]:
    return Collection(store.documents, "count", Count)


def more(count: Count | None) -> Count:
    count = count or Count()
    count.n += 1
    return count


async def test_a_model_is_stored_at_its_revision(store: Any, counts: Collection[Count]) -> None:
    assert await counts.get("a") is None
    first = await counts.put("a", Count(n=1))
    assert first.revision > 0
    stale = await counts.get("a")
    assert stale is not None
    assert (stale.n, stale.revision) == (1, first.revision)
    first.n = 2
    second = await counts.put("a", first)
    assert second.revision > stale.revision
    for unseen in (stale, Count()):
        with pytest.raises(RevisionConflict):
            await counts.put("a", unseen)
    assert {name: count.n for name, count in intact(await counts.all()).items()} == {"a": 2}
    assert await counts.all(second.revision) == {}
    assert await counts.names() == {"a"}


async def test_a_change_is_retried_after_a_conflict(store: Any, counts: Collection[Count]) -> None:
    other, put = Collection(store.documents, "count", Count), counts.put
    overtaken = 0

    async def late(name: str, value: Count, *, urgent: bool = False) -> Count:
        nonlocal overtaken
        if overtaken < 3:
            overtaken += 1
            await other.change("a", more)
        return await put(name, value, urgent=urgent)

    counts.put = late  # type: ignore[method-assign]
    changed = await counts.change("a", more)
    assert changed is not None
    assert (changed.n, overtaken) == (4, 3)
    assert (await other.get("a")) == changed


async def test_a_change_of_nothing_writes_nothing(store: Any, counts: Collection[Count]) -> None:
    assert await counts.change("a", lambda count: None) is None
    stored = await counts.put("a", Count(n=1))
    for nothing in (lambda count: None, lambda count: count, lambda count: Count(n=1).at(count.revision)):
        found = await counts.change("a", nothing)
        assert found is not None
        assert found.revision == stored.revision
    with pytest.raises(ZeroDivisionError):
        await counts.change("a", lambda count: Count(n=1 // 0))
    assert await counts.get("a") == stored


async def test_a_document_is_deleted_at_its_revision_or_at_any(store: Any, counts: Collection[Count]) -> None:
    first = await counts.put("a", Count())
    stale = first.revision
    await counts.change("a", more)
    assert not await counts.delete("a", stale)
    assert await counts.names() == {"a"}
    assert await counts.delete("a")
    assert await counts.get("a") is None
    assert await counts.delete("a", stale), "it exists no more"
    assert await counts.delete("a")


async def test_a_damaged_document_is_reported_and_can_be_deleted(store: Any, counts: Collection[Count]) -> None:
    await counts.put("whole", Count())
    await store.documents.put("count", "damaged", b'{"n": "x"}', revision=None)
    with pytest.raises(DocumentDamaged):
        await counts.get("damaged")
    with pytest.raises(DocumentDamaged):
        await counts.change("damaged", more)
    found = await counts.all()
    assert isinstance(found["damaged"], DocumentDamaged)
    assert isinstance(found["whole"], Count)
    assert not await counts.delete_damaged("whole")
    assert not await counts.delete_damaged("neither")
    assert await counts.delete_damaged("damaged")
    assert await counts.names() == {"whole"}


NEWER = b'{"format": 2, "release": "9.9", "n": ["of", "another", "type"]}'


@for_each(
    "value",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"n": 1}',
        b'{"format": "1", "n": 1}',
        b'{"format": 0, "n": 1}',
        b'{"format": true, "n": 1}',
        b'{"format": 1.5, "n": 1}',
        b'{"format": 1, "n": "x"}',
        b'{"format": 1, "n": 1',
        b'{"format": 2, "n": 1',
    ],
)
async def test_a_document_without_a_known_format_or_type_is_damaged(sqlite_store: Any, value: bytes) -> None:
    name = f"value {value.hex()}"
    await sqlite_store.documents.put("count", name, value, revision=None)
    with pytest.raises(DocumentDamaged):
        await Collection(sqlite_store.documents, "count", Count).get(name)


async def test_a_newer_document_is_not_damaged_and_is_never_written_or_deleted(
    store: Any, counts: Collection[Count]
) -> None:
    revision = await store.documents.put("count", "a", NEWER, revision=None)
    for call in (counts.get("a"), counts.change("a", more)):
        with pytest.raises(
            DocumentNewer, match=r"'a' of count was written by release 9\.9; upgrade this server"
        ) as found:
            await call
        assert isinstance(found.value, ReleaseTooOld)
        assert not isinstance(found.value, StorageError), "it is not caught as damage"
    (newer,) = (await counts.all()).values()
    assert isinstance(newer, DocumentNewer)
    assert newer.revision == revision
    assert not await counts.delete_damaged("a")
    with pytest.raises(RevisionConflict):
        await counts.put("a", Count())
    assert [(each.revision, each.value) for each in await store.documents.all("count")] == [(revision, NEWER)]


class Part(StoredPart):
    text: str = ""


class Pair(NamedTuple):
    one: int
    other: int = 0


@dataclass(frozen=True, slots=True)
class Strict:
    one: int

    __pydantic_config__ = ConfigDict(extra="forbid")


class Nested(StoredModel):
    part: Part = Field(default_factory=Part)
    pairs: tuple[Pair, ...] = ()
    strict: Strict | None = None
    either: list[int] | Strict | None = None


async def test_fields_of_a_later_release_survive_a_change(store: Any) -> None:
    nested = Collection(store.documents, "nested", Nested)
    value = {"format": 1, "release": "9.9", "later": [1, {"a": None}], "part": {"text": "x", "later": True}}
    await store.documents.put("nested", "a", json.dumps(value).encode(), revision=None)
    await nested.change("a", lambda found: found and found.model_copy(update={"pairs": (Pair(1, 2),)}))
    (document,) = await store.documents.all("nested")
    rest = {"pairs": [[1, 2]], "strict": None, "either": None}
    assert json.loads(document.value) == {**value, "release": RELEASE, **rest}


@for_each("later", [{"pairs": [[1, 2, 3]]}, {"strict": {"one": 1, "later": 2}}, {"either": {"one": 1, "later": 2}}])
async def test_a_field_that_a_part_cannot_keep_makes_a_document_newer(sqlite_store: Any, later: dict[str, Any]) -> None:
    value = json.dumps({"format": 1, "release": "9.9", **later}).encode()
    (name,) = later
    await sqlite_store.documents.put("nested", name, value, revision=None)
    with pytest.raises(DocumentNewer, match=r"release 9\.9"):
        await Collection(sqlite_store.documents, "nested", Nested).get(name)


def _parts(kind: Any) -> Iterator[Any]:
    """The models and dataclasses in an annotation, with their parts."""
    for argument in get_args(kind):
        yield from _parts(argument)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
        for field in kind.model_fields.values():
            yield from _parts(field.annotation)
    elif isinstance(kind, type) and (is_dataclass(kind) or hasattr(kind, "_fields")):
        yield kind
        for each in get_type_hints(kind).values():
            yield from _parts(each)


def _kept(part: Any) -> str | None:
    """Return what a part does with an unknown field; a named tuple refuses it."""
    if issubclass(part, BaseModel):
        return part.model_config.get("extra")
    return "forbid" if hasattr(part, "_fields") else part.__pydantic_config__.get("extra")


def test_every_part_of_a_stored_model_keeps_unknown_fields_or_refuses_them() -> None:
    models = [each for each in stored_models() if each.__module__.startswith("manylabel_service.")]
    assert len(models) > 10
    parts = {part for model in models for part in _parts(model)}
    assert {part.__name__: _kept(part) for part in parts if _kept(part) not in ("allow", "forbid")} == {}
    assert {model.__name__ for model in models if _kept(model) != "allow"} == set()


async def test_lack_of_memory_is_not_damage(sqlite_store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Collection(sqlite_store.documents, "count", Count)
    await counts.put("a", Count())
    with monkeypatch.context() as patch:
        patch.setattr(Count, "model_validate_json", _no_memory)
        for call in (counts.get("a"), counts.all()):
            with pytest.raises(MemoryError):
                await call
    assert await counts.get("a")


def _no_memory(value: bytes) -> NoReturn:
    raise MemoryError


class Older:
    """Documents of a store that came back with older data."""

    def __init__(self, documents: Any) -> None:
        self._documents, self.shift = documents, 0

    def changes(self, kind: str) -> None:
        return

    async def revisions(self, kind: str) -> dict[str, int]:
        return {name: revision - self.shift for name, revision in (await self._documents.revisions(kind)).items()}

    async def all(self, kind: str, after: int = 0) -> list[Any]:
        found = [one._replace(revision=one.revision - self.shift) for one in await self._documents.all(kind)]
        return [one for one in found if one.revision > after or not after]


async def test_documents_of_a_store_restored_from_older_data_are_read_again(store: Any) -> None:
    counts = Collection(store.documents, "count", Count)
    for name in "abc":
        await counts.put(name, Count())
    documents: Any = Older(store.documents)
    follower = Collection(documents, "count", Count)

    async def changed(whole: bool = False) -> tuple[list[str], set[str] | None]:
        async with follower.changes(whole) as (values, names):
            return list(values), names

    assert await changed() == (["a", "b", "c"], {"a", "b", "c"})
    documents.shift = 1
    assert await changed() == ([], None)
    assert await changed(whole=True) == (["a", "b", "c"], {"a", "b", "c"})
    documents.shift = 0
    assert await changed() == (["c"], None), "the cursor went back too"


async def test_changes_whose_processing_failed_are_returned_again(store: Any, counts: Collection[Count]) -> None:
    for name in (names := [f"{n}" for n in range(2 * module.MAX_INLINE)]):
        await counts.put(name, Count())
    with pytest.raises(ZeroDivisionError):
        async with counts.changes() as (values, _):
            raise ZeroDivisionError
    async with counts.changes() as (values, there):
        assert (sorted(values), there) == (sorted(names), set(names))
    await counts.change("1", more)
    await counts.delete("2")
    async with counts.changes() as (values, there):
        assert ({name: count.n for name, count in intact(values).items()}, there) == ({"1": 1}, None)
    async with counts.changes(whole=True) as (values, there):
        assert (values, there) == ({}, {*names} - {"2"})


async def test_a_poll_reads_only_what_this_process_has_changed_if_no_other_can(
    sqlite_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Collection(sqlite_store.documents, "count", Count)
    read, documents_of = list[str](), sqlite_store.documents.all

    async def noted(kind: str, after: int = 0) -> Any:
        read.append(kind)
        return await documents_of(kind, after)

    monkeypatch.setattr(sqlite_store.documents, "all", noted)

    async def changed() -> list[str]:
        async with counts.changes() as (values, _):
            return list(values)

    assert [await changed() for _ in range(3)] == [[], [], []]
    await sqlite_store.documents.put("other", "a", b"{}", revision=None)
    assert await changed() == []
    assert read.count("count") == 1
    await counts.put("a", Count())
    assert [await changed() for _ in range(2)] == [["a"], []]
    await counts.delete("a")
    async with counts.changes(whole=True) as (_, names):
        assert names == set()
