"""Stored webhook: the definition, written by clients, and the state, written by the deliverer."""

from __future__ import annotations

import base64
import secrets
from hashlib import blake2b
from typing import Any, Literal, get_args

import pydantic_core
from pydantic import Field, PrivateAttr

from manylabel_service.access.grant import Patterns
from manylabel_service.clock import now_ms, rfc3339
from manylabel_service.storage import START, ModelMeta, StoredModel, StoredPart

DEFINITIONS = "webhooks"
STATES = "webhook-states"
"""Kinds of the documents of webhooks; both documents of a webhook are named by its id."""

Kind = Literal["drift", "label", "parity", "job", "promoted", "review"]
"""Types of events that a webhook can select. `dropped` and `test` are always sent."""
KINDS = get_args(Kind)
OF_LOG = frozenset({"drift", "label", "parity"})
"""Types of events that follow from the log of an online model."""

MAX_QUEUED = 1_000
"""Maximum number of queued events per webhook; later ones are counted and dropped."""
MAX_QUEUED_BYTES = 2**18
"""Maximum bytes of queued events per webhook."""
MAX_NAMED = 20
"""Maximum number of labels, alarms or predictions listed in one event."""
MAX_DELIVERIES = 50
"""Number of the latest delivery attempts in the log of a webhook."""

SECRET_PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    """Return a random secret in the format of Standard Webhooks."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


class Webhook(StoredModel):
    """Definition of a webhook.

    Attributes
    ----------
    positions, since_unix_ms : initial values for `DeliveryState`; only later events are sent.
    generation : number incremented each time the webhook is enabled.
    """

    id: str
    url: str = Field(repr=False)
    secret: str = Field(repr=False)
    events: list[Kind]
    models: list[str]
    created_unix_ms: int
    positions: dict[str, str] = Field(default_factory=dict)
    since_unix_ms: int = 0
    generation: int = 0

    _patterns: Patterns | None = PrivateAttr(default=None)

    def wants(self, kind: str, model: str) -> bool:
        """Return whether events of a type about a model are sent."""
        if self._patterns is None:
            self._patterns = Patterns(self.models)
        return kind in self.events and self._patterns.match(model)

    @property
    def wants_log(self) -> bool:
        """True if the webhook needs events that follow from logs."""
        return not OF_LOG.isdisjoint(self.events)


class Message(StoredPart):
    """Event waiting for delivery, with the body that each attempt sends."""

    id: str
    type: str
    body: str


class Delivery(StoredPart):
    """Attempt to deliver an event, with the status of the response, or the error code."""

    event: str
    type: str
    unix_ms: int
    attempt: int
    milliseconds: int
    status: int | None
    error: str | None


class Disabled(StoredPart):
    """Reason why a webhook is disabled, valid for one generation of its definition."""

    generation: int
    reason: str
    unix_ms: int


class DeliveryState(StoredModel):
    """State of a webhook: its cursor in each source, and the waiting events.

    Attributes
    ----------
    positions : log positions by incarnation of the model; if there are many models, only those that have changed
        recently.
    since_unix_ms : time, by the clock of the store, up to which the logs of other models were seen.
    looked_unix_ms : time up to which models that are not in memory were examined.
    jobs, versions : highest revisions of these documents.
    predictions_unix_ms : time up to which stored predictions were examined.
    dropped : number of events that were dropped because the queue was full, and that the receiver does not know of yet.
    failures : number of failed attempts to deliver the first event; `failing_since_unix_ms` is the time of the first
        one.
    """

    positions: dict[str, str]
    jobs: int
    versions: int
    predictions_unix_ms: int
    since_unix_ms: int = 0
    looked_unix_ms: int = 0
    queue: list[Message] = Field(default_factory=list)
    dropped: int = 0
    delivered: int = 0
    failures: int = 0
    failing_since_unix_ms: int | None = None
    disabled: Disabled | None = None
    deliveries: list[Delivery] = Field(default_factory=list)

    _changes: int = PrivateAttr(default=0)

    @property
    def changes(self) -> int:
        """Number of changes so far, except changes of cursors."""
        return self._changes

    @classmethod
    def new(cls, webhook: Webhook, revision: int) -> DeliveryState:
        """Return the initial state of a webhook, which ignores events before the revision of its definition."""
        return cls(
            positions=dict(webhook.positions),
            jobs=revision,
            versions=revision,
            predictions_unix_ms=webhook.created_unix_ms,
            since_unix_ms=webhook.since_unix_ms,
            looked_unix_ms=webhook.created_unix_ms,
        )

    def reason(self, webhook: Webhook) -> str | None:
        """Return why the webhook is disabled; None if it is active."""
        return self.disabled.reason if self.disabled and self.disabled.generation == webhook.generation else None

    def position(self, record: ModelMeta) -> str:
        """Return the position up to which the log of a model was seen.

        If `positions` does not have it, `Sources` finds it by `since_unix_ms`; `START` if this is 0.
        """
        return self.positions.get(str(record.incarnation), START)

    def add(self, message: Message) -> None:
        """Queue an event, or count it as dropped; the receiver later gets the number of dropped events."""
        self._changes += 1
        if self.dropped and self._has_room(MAX_QUEUED // 2):
            dropped, self.dropped = self.dropped, 0
            self.queue.append(message_of("dropped", {"count": dropped}, secrets.token_hex(8)))
        if self._has_room(MAX_QUEUED):
            self.queue.append(message)
        else:
            self.dropped += 1

    def _has_room(self, most: int) -> bool:
        return len(self.queue) < most and sum(len(each.body) for each in self.queue) < MAX_QUEUED_BYTES

    def note(self, delivery: Delivery) -> None:
        """Add an attempt to the log; a success removes the event from the queue."""
        self._changes += 1
        self.deliveries = [*self.deliveries, delivery][-MAX_DELIVERIES:]
        if delivery.error is None:
            self.queue = [each for each in self.queue if each.id != delivery.event]
            self.delivered, self.failures, self.failing_since_unix_ms = self.delivered + 1, 0, None
        else:
            self.failures += 1
            self.failing_since_unix_ms = self.failing_since_unix_ms or delivery.unix_ms

    def disable(self, disabled: Disabled) -> None:
        """Send nothing until the webhook is enabled; then the count of attempts starts again at 1."""
        self._changes += 1
        self.disabled, self.failures, self.failing_since_unix_ms = disabled, 0, None


def message_of(type: str, data: dict[str, Any], *identity: object) -> Message:
    """Return an event of a type; equal identities give equal ids, so that a receiver can detect a repetition."""
    digest = blake2b(repr((type, *identity)).encode(), digest_size=16, person=b"webhooks").hexdigest()
    body = {"type": type, "timestamp": rfc3339(now_ms()), "data": data}
    return Message(id=f"evt_{digest}", type=type, body=pydantic_core.to_json(body, inf_nan_mode="null").decode())
