"""What tests of every package do with a store."""

from tests.support.waiting import eventually_async

from manylabel_service.errors import StorageUnavailable
from manylabel_service.storage import Store


async def until_answers(store: Store) -> None:
    """Wait until a store that was away answers again."""

    async def answers() -> bool:
        await store.models.all()
        return True

    await eventually_async(answers, ignore=StorageUnavailable)
