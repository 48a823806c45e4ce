"""The loop over the batches of a topic: read, learn, then commit."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Protocol

from manylabel_clients.http.resources.models import Model
from manylabel_clients.integrations.kafka.learning import OF_MODEL, StreamKey, learn_batch
from manylabel_clients.integrations.kafka.messages import Lesson, Message, MessageReader, Refusal, Unlabelled

POLL_SECONDS = 1.0
"""Maximum seconds to wait for a message, and so until a request to stop is noticed."""


class Stopped(Exception):
    """The loop was asked to stop while it waited for the server."""


class NotLearnt(Exception):
    """A message cannot be learnt and there is no topic for dead letters, or the only model refuses all messages."""

    def __init__(self, refusal: Refusal) -> None:
        message = refusal.message
        super().__init__(f"partition {message.partition}, offset {message.offset}: {refusal.detail} ({refusal.code})")


class Source(Protocol):
    """Topic that one consumer reads."""

    @property
    def has_ended(self) -> bool:
        """Return whether all messages were read."""

    def read(self, most: int, seconds: float) -> Sequence[Message]:
        """Return the next messages; an empty list if none arrives in time."""

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit the offset of the next message of each partition."""


class Consumer:
    """Consumer of a topic that learns each message exactly once.

    A batch is committed when the models have learnt it. Messages that were not committed are read again, by this
    consumer or another one. The models recognise learnt messages by their offsets.

    Parameters
    ----------
    source : the topic.
    reader : reader of messages.
    model : returns a model by its name.
    key : keys of the streams.
    dead_letters : stores messages that cannot be learnt; None if such a message stops the consumer.
    batch_size : maximum number of messages between two commits.
    """

    def __init__(
        self,
        source: Source,
        reader: MessageReader,
        model: Callable[[str], Model],
        key: StreamKey,
        dead_letters: Callable[[Sequence[Refusal]], None] | None,
        batch_size: int,
    ) -> None:
        self._source, self._reader, self._model, self._key = source, reader, model, key
        self._dead_letters, self._batch_size = dead_letters, batch_size
        self.counts = Counter[str](learnt=0, replayed=0, unlabelled=0, refused=0)
        """Numbers of messages: learnt, replayed (learnt before), unlabelled, refused."""

    def run(self, stop: Event, once: bool, on_batch: Callable[[], object]) -> None:
        """Consume until `stop` is set, or, with `once`, to the end of the topic; call `on_batch` after each poll.

        Raises
        ------
        NotLearnt
            A message cannot be learnt and there is no topic for dead letters, or the only model refuses all messages.
            All earlier messages are learnt.
        ManyLabelError
            The server has an error.
        KafkaFailed
            The broker has an error.
        Stopped
            A callback of the client has stopped the loop. The batch is not committed.
        """
        while not stop.is_set():
            if messages := self._source.read(self._batch_size, POLL_SECONDS):
                self._learn(messages)
            on_batch()
            if once and self._source.has_ended:
                return

    def _learn(self, messages: Sequence[Message]) -> None:
        read = [self._reader.read(message) for message in messages]
        refusals = [one for one in read if isinstance(one, Refusal)]
        if refusals and self._dead_letters is None:
            first = {one.message.partition: one for one in reversed(refusals)}
            read = [one for one in read if not _is_after(one.message, first)]
        found = learn_batch((one for one in read if isinstance(one, Lesson)), self._model, self._key, self._refuse)
        if refusals and self._dead_letters is not None:
            self._dead_letters(refusals)
        if read:
            self._source.commit({one.message.partition: one.message.offset + 1 for one in read})
        if refusals and self._dead_letters is None:
            raise NotLearnt(refusals[0])
        unlabelled = sum(isinstance(one, Unlabelled) for one in read)
        self.counts.update(learnt=found.learnt, replayed=found.replayed, unlabelled=unlabelled)
        self.counts["refused"] += found.refused + len(refusals)

    def _refuse(self, refusals: Sequence[Refusal]) -> None:
        if self._dead_letters is None or (self._reader.model is not None and refusals[0].code in OF_MODEL):
            raise NotLearnt(refusals[0])
        self._dead_letters(refusals)


def _is_after(message: Message, first: Mapping[int, Refusal]) -> bool:
    refusal = first.get(message.partition)
    return refusal is not None and message.offset >= refusal.message.offset
