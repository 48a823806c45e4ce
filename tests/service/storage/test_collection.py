"""Documents of one kind as models: compare-and-set, retries, damage and changes."""

from typing import Any

import pytest

from manylabel_service.errors import DocumentDamaged, RevisionConflict
from manylabel_service.storage import Collection, StoredModel
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
    assert {name: count and count.n for name, count in (await counts.all()).items()} == {"a": 2}
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
    assert found["damaged"] is None
    assert found["whole"] is not None
    assert not await counts.delete_damaged("whole")
    assert not await counts.delete_damaged("neither")
    assert await counts.delete_damaged("damaged")
    assert await counts.names() == {"whole"}


class Older:
    """Documents of a store that came back with older data."""

    def __init__(self, documents: Any) -> None:
        self._documents, self.shift = documents, 0

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
        assert ({name: count and count.n for name, count in values.items()}, there) == ({"1": 1}, None)
    async with counts.changes(whole=True) as (values, there):
        assert (values, there) == ({}, {*names} - {"2"})
