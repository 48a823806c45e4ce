"""Connection of one process to the Redis of a store, and the work that closing it waits for."""

from manylabel_service.storage.background import BackgroundTasks
from manylabel_service.storage.gate import Gate
from manylabel_service.storage.redis.client.connection import Connection


class Engine:
    """Shared state of the parts of one store.

    Attributes
    ----------
    connection : there once the store is open.
    gate : passed by every call.
    background : what must come to its end, also where the caller gives up.
    """

    connection: Connection

    def __init__(self) -> None:
        self.gate = Gate()
        self.background = BackgroundTasks()


class Part:
    """A part of a store works on the engine of the store, and its calls pass the gate."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.gate = engine.gate
