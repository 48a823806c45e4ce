"""Following the documents of one kind: what others change, delete, and lose."""

from typing import Any

import pytest

from manylabel_service.storage import DocumentFollower


async def put(store: Any, name: str, value: bytes = b"{}", revision: int | None = None) -> int:
    revision_after: int = await store.documents.put("job", name, value, revision=revision)
    return revision_after


@pytest.fixture
async def follower(store: Any) -> DocumentFollower:
    return DocumentFollower(store.documents, "job")


async def names(follower: DocumentFollower, whole: bool = False) -> tuple[list[str], set[str] | None]:
    documents, there = await follower.poll(whole)
    return [document.name for document in documents], there


async def test_a_poll_returns_what_changed(store: Any, follower: DocumentFollower) -> None:
    revision = await put(store, "a")
    await put(store, "b")
    assert await names(follower) == (["a", "b"], {"a", "b"})
    assert await names(follower) == ([], None)
    await put(store, "a", revision=revision)
    assert await names(follower) == (["a"], None)
    assert await names(follower, whole=True) == ([], {"a", "b"}), "a whole poll reads nothing that has not changed"


async def test_a_whole_poll_finds_deletions(store: Any, follower: DocumentFollower) -> None:
    revision = await put(store, "a")
    await put(store, "b")
    await follower.poll()
    await store.documents.delete("job", "a", revision=revision)
    assert await names(follower) == ([], None)
    assert await names(follower, whole=True) == ([], {"b"})
    await put(store, "c")
    assert await names(follower) == (["c"], None), "the cursor is behind what comes"


async def test_all_documents_are_returned_again_after_a_restart(store: Any, follower: DocumentFollower) -> None:
    await put(store, "a")
    await follower.poll()
    follower.restart()
    assert await names(follower) == (["a"], {"a"})


class Older:
    """Documents of a store that came back with older data."""

    def __init__(self, documents: Any) -> None:
        self._documents, self.shift = documents, 0

    async def revisions(self, kind: str) -> dict[str, int]:
        return {name: revision - self.shift for name, revision in (await self._documents.revisions(kind)).items()}

    async def all(self, kind: str, after: int = 0) -> list[Any]:
        found = [one._replace(revision=one.revision - self.shift) for one in await self._documents.all(kind)]
        return [one for one in found if one.revision > after or not after]


async def test_a_store_that_came_back_with_older_data_is_read_again(store: Any) -> None:
    for name in "abc":
        await put(store, name)
    documents = Older(store.documents)
    follower = DocumentFollower(documents, "job")
    await follower.poll()
    documents.shift = 1
    assert await names(follower) == ([], None)
    assert await names(follower, whole=True) == (["a", "b", "c"], {"a", "b", "c"})
    documents.shift = 0
    assert await names(follower) == (["c"], None), "the cursor went back too"
