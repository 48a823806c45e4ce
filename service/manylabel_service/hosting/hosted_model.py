"""What a model in this process can do, whatever kind it is: one that learns online, or a trained one."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from manylabel_service.errors import ServiceError
from manylabel_service.hosting.events import Events
from manylabel_service.hosting.predictions import Predicted
from manylabel_service.storage import ModelRecord

ErrorFactory = Callable[[], ServiceError]
"""Makes an error for each request: one that is raised again and again keeps every traceback."""


class HostedModel(Protocol):
    """One model in this process.

    Attributes
    ----------
    record : the model in the store.
    used_at : time.monotonic() when it was last asked for.
    failed : whether its state cannot be trusted, or had.
    """

    record: ModelRecord
    used_at: float
    failed: bool

    @property
    def events(self) -> Events:
        """What happens to the model."""

    @property
    def position(self) -> str:
        """Of the last entry of its log that is known here."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes."""

    @property
    def weighed_at(self) -> str:
        """The position of what is weighed: `nbytes` is the same as long as this is."""

    @property
    def n_labels(self) -> int:
        """Labels that a prediction has scores for."""

    @property
    def following(self) -> bool:
        """Whether it wants to know what others do."""

    @property
    def busy(self) -> bool:
        """Whether it is reading the log anyway."""

    @property
    def evictable(self) -> bool:
        """Whether nobody here waits for it or watches it."""

    def status(self) -> dict[str, Any]:
        """What GET /v1/models/{m} answers; raises NotReady if there is nothing to speak of."""

    def gauges(self) -> dict[str, float]:
        """What GET /metrics shows of it; raises as `status`."""

    async def predict(
        self, xs: Sequence[Any], at_least: str | None = None, *, probabilities: bool = False
    ) -> Predicted:
        """Predict examples, in the form that its kind takes; raises NoProbabilities if it has none to answer."""

    async def confirm(self) -> ServiceError | None:
        """Hear what others have done to the model by now; what kept it from that, if anything."""

    def look(self) -> None:
        """Read what others have added to the log."""

    async def restore(self) -> None:
        """Come to the present state, and answer from then on."""

    async def cover(self) -> bool:
        """Have the store hold all that is needed to come back; whether it does."""

    def evict(self, successor: Callable[[], Awaitable[Any]]) -> None:
        """Leave the memory; requests that have it in hand are passed on to its successor, of the same kind or not."""

    def fail(self, reason: ErrorFactory) -> None:
        """Answer every request with such an error from now on, because the state cannot be trusted."""

    def stop_learning(self) -> None:
        """Take no more changes."""

    async def stop(self) -> None:
        """Finish what waits, and end."""

    async def drop(self) -> None:
        """End without a trace: the model has been deleted."""
