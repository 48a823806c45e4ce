"""Connection of one process to the Redis server of a store, and the tasks to complete before closing."""

from manylabel_service.storage.background import BackgroundTasks
from manylabel_service.storage.gate import Gate
from manylabel_service.storage.redis.client.connection import Connection


class Engine:
    """Shared state of the parts of one store.

    Attributes
    ----------
    connection : connection, available once the store is open.
    gate : gate that every call passes.
    background : tasks that run to completion even if their callers are cancelled.
    """

    connection: Connection

    def __init__(self) -> None:
        self.gate = Gate()
        self.background = BackgroundTasks()


class Part:
    """Part of a store, which uses its engine; calls pass the gate."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.gate = engine.gate
