"""Admission of an update before it is queued: its idempotency key, its examples, and the limits of the model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from manylabel_service.errors import (
    InvalidExample,
    KeyInFlight,
    KeyReused,
    LimitExceeded,
    QueueFull,
    ServiceError,
    check_limit,
)
from manylabel_service.hosting.kernels import GATE
from manylabel_service.idempotency import FORGOTTEN, IdempotencyKey
from manylabel_service.online.state.controls import Control
from manylabel_service.online.state.dry_run import DryRun, SizeDelta, grown, grown_columns
from manylabel_service.online.state.idempotency_window import IdempotencyWindow
from manylabel_service.online.state.log_entries import Update, encode_example, encode_head
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome
from manylabel_service.online.state.tiers import tiers_of_control, tiers_of_examples, tiers_of_growth
from manylabel_service.online.updates.update_queue import RETRY_SECONDS, Pending, UpdateQueue
from manylabel_service.settings import Settings
from manylabel_service.slices import in_slices


class InFlightKeys:
    """Idempotency keys of the pending requests to one model."""

    def __init__(self) -> None:
        self._keys: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def stored_answer(self, key: IdempotencyKey, window: IdempotencyWindow) -> UpdateOutcome | None:
        """Return the response stored for the key; None if this is the first request with the key. Raises KeyInFlight or
        KeyReused."""
        if key.key in self._keys:
            raise KeyInFlight(key.key)
        seen = window.find(key.key)
        if seen is None:
            return None
        digest, answer = seen
        if digest not in (FORGOTTEN, key.digest):
            raise KeyReused(key.key)
        return answer

    @contextmanager
    def hold(self, key: IdempotencyKey | None) -> Iterator[None]:
        """Mark a request with the key as in progress within the context."""
        if key is None:
            yield
            return
        self._keys.add(key.key)
        try:
            yield
        finally:
            self._keys.discard(key.key)


UNWEIGHED = SizeDelta(examples=256, values=65_536, distinct=65_536)
"""Number of examples, and of values, after which the size of a model without new columns is checked again. If as many
more examples might exceed the limit, each update checks the size."""


class Admission:
    """Check and encoding of updates of one model.

    These limits are a policy of this server, not part of the model: entries admitted by other servers are learnt.
    `DryRun` checks the limits of the model.
    """

    def __init__(self, model_name: str, settings: Settings) -> None:
        self._name = model_name
        self._settings = settings
        self._unweighed = SizeDelta()
        self._may_fill = True

    async def admit(
        self, update: Update, model: OnlineModel, queue: UpdateQueue, *, each: bool = False
    ) -> Pending[Update]:
        """Check and encode an update, in slices; with `each`, examples are rejected separately.

        Raises
        ------
        InvalidExample, LimitExceeded
            Without `each`. LimitExceeded also with `each`, if several examples together might exceed the maximum bytes.
        QueueFull
            The update alone would fit, but perhaps not after the queued updates.
        NotCompiled
        """
        try:
            admitted = await self._tried(update, model, each)
            self._check_size(model, admitted.growth)
        except LimitExceeded:
            if not each:
                raise
            alone = len(update.examples) == 1
            admitted = await self._tried(update, model, each, lambda growth: self._check_size(model, growth, alone))
            if admitted.change.examples:
                self._check_size(model, admitted.growth)
        if admitted.change.examples:
            self._check_room(model, admitted.growth, queue.growth)
            if GATE.closed:
                GATE.require(tiers_of_examples(example.x for example in admitted.change.examples))
                GATE.require(tiers_of_growth(model, admitted.growth.plus(queue.growth)))
        return admitted

    async def _tried(
        self, update: Update, model: OnlineModel, each: bool, check: Callable[[SizeDelta], None] | None = None
    ) -> Pending[Update]:
        dry_run, parts, refused = DryRun(model), bytearray(), dict[int, ServiceError]()
        async for index, example in in_slices(enumerate(update.examples)):
            try:
                dry_run.add(example, check)
            except (InvalidExample, LimitExceeded) as error:
                if not each:
                    raise
                refused[index] = error.with_traceback(None)
            else:
                parts += encode_example(example)
        left = update.without(refused) if refused else update
        payload = b"" if refused and not left.examples else encode_head(left) + bytes(parts)
        return Pending(left, payload, dry_run.checked, refused)

    def _check_size(self, model: OnlineModel, growth: SizeDelta, with_bytes: bool = True) -> None:
        for what, size, limit in self._sizes(model, growth, with_bytes and self._must_weigh(growth)):
            if size > limit:
                raise LimitExceeded(f"{what} of model {self._name!r}", size, limit)

    def check_control(self, model: OnlineModel, entry: Control) -> None:
        """Raise LimitExceeded if a control entry would make the model too large, InvalidField if the entry is invalid,
        or NotCompiled."""
        GATE.require(tiers_of_control(entry))
        if (declared := entry.declared(model)) is None:
            return
        growth = SizeDelta(labels=len(model.labels.unknown(declared.labels)))
        self._check_size(model, growth)
        GATE.require(tiers_of_growth(model, growth))
        _, n_labels = grown_columns(model, growth)
        nbytes = model.nbytes_after(model.features.n_columns, n_labels, 0, 0) + declared.n_bytes
        check_limit(f"bytes of model {self._name!r}", nbytes, self._settings.max_model_bytes)

    def _check_room(self, model: OnlineModel, growth: SizeDelta, waiting: SizeDelta) -> None:
        self._unweighed = self._unweighed.plus(growth)
        if self._must_weigh(growth):
            together = growth.plus(waiting)
            self._may_fill = self._nbytes(model, together.plus(UNWEIGHED)) > self._settings.max_model_bytes
            for what, size, limit in self._sizes(model, together, self._may_fill):
                if size > limit:
                    raise QueueFull(self._name, f"growth to {limit:,} {what}", RETRY_SECONDS)
            self._unweighed = SizeDelta()

    def _sizes(self, model: OnlineModel, growth: SizeDelta, with_bytes: bool) -> Iterator[tuple[str, int, int]]:
        n_features, n_labels = grown(model, growth)
        yield "features", n_features, self._settings.max_features
        yield "labels", n_labels, self._settings.max_labels
        if with_bytes:
            yield "bytes", self._nbytes(model, growth), self._settings.max_model_bytes

    def _nbytes(self, model: OnlineModel, growth: SizeDelta) -> int:
        """Return the maximum bytes of a model after it has grown."""
        n_columns, n_labels = grown_columns(model, growth)
        learnt = growth.examples, growth.values, growth.distinct
        nbytes = model.nbytes_after(n_columns + growth.vectors, n_labels, *learnt)
        return nbytes + model.learner.pipeline.nbytes_of_vectors(growth.vectors, n_columns, n_labels)

    def _must_weigh(self, growth: SizeDelta) -> bool:
        """Return whether to measure the model: it may become too large, it gains columns, or it was measured long
        ago."""
        since = self._unweighed
        grows = growth.columns > 0 or growth.labels > 0 or growth.vectors > 0
        return self._may_fill or grows or since.examples >= UNWEIGHED.examples or since.values >= UNWEIGHED.values
