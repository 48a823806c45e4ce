"""Learning of the messages of a batch, as streams: the key of a stream is a partition, the number of a line an
offset."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from manylabel_clients.http.errors import ApiError
from manylabel_clients.http.resources.models import Model
from manylabel_clients.integrations.kafka.messages import Lesson, Refusal

WORKERS = 8
"""Maximum number of simultaneous requests."""
MAX_GAP = 1_000
"""Maximum number of offsets without an example in one request; each is an empty line."""
MAX_LINES = 10_000
"""Maximum number of lines of one request."""
_MAX_NAME = 100
"""Maximum characters of a name in a key; a longer name is hashed."""
OF_MODEL = {"model_not_found", "model_not_allowed", "model_is_trained", "model_follows", "model_damaged"}
"""Codes of errors that concern the model, not one example."""
_OF_EXAMPLE = {400, 413, 422}
"""Statuses of errors that concern one example."""


class Learnt(NamedTuple):
    """Numbers of messages of a batch by their results."""

    learnt: int = 0
    replayed: int = 0
    """Messages that an earlier attempt had learnt."""
    refused: int = 0

    def plus(self, learnt: int, replayed: int = 0, refused: int = 0) -> "Learnt":
        """Return the sums of both counts."""
        return Learnt(self.learnt + learnt, self.replayed + replayed, self.refused + refused)


class StreamKey:
    """Keys of the streams of partitions: a model does not learn a line again under the same key.

    Parameters
    ----------
    name : name of the topic, or another unique name.
    topic_id : id of the topic, so that a later topic of the same name, whose offsets begin again, has other keys.
    """

    def __init__(self, name: str, topic_id: str = "") -> None:
        short = name if re.fullmatch(f"[!-~]{{1,{_MAX_NAME}}}", name) else hashlib.sha256(name.encode()).hexdigest()
        self._prefix = f"kafka/{short}/{topic_id}"

    def of(self, partition: int) -> str:
        """Return the key of a partition."""
        return f"{self._prefix}/{partition}"


def learn_batch(
    lessons: Iterable[Lesson],
    model: Callable[[str], Model],
    key: StreamKey,
    refuse: Callable[[Sequence[Refusal]], None],
) -> Learnt:
    """Learn examples; the examples of one model and partition are learnt in the order of their offsets.

    Parameters
    ----------
    lessons : the examples.
    model : returns a model by its name.
    key : keys of the streams.
    refuse : stores refused messages, or raises an exception, which ends the batch. It is called in several threads,
        before any later message of the same model and partition is learnt. So after a crash, the server refuses the
        message again: it recognises messages up to the last one that it has learnt.

    Raises
    ------
    ManyLabelError
        If the server has an error that concerns neither an example nor a model. Some of the examples may be learnt.
    """
    parts: dict[tuple[str, int], list[Lesson]] = {}
    for lesson in lessons:
        parts.setdefault((lesson.model, lesson.message.partition), []).append(lesson)

    def learn(part: tuple[str, int]) -> Learnt:
        return _learn_part(model(part[0]), key.of(part[1]), parts[part], refuse)

    if len(parts) < 2:
        results = [learn(part) for part in parts]
    else:
        with ThreadPoolExecutor(WORKERS) as pool:
            results = list(pool.map(learn, parts))
    return Learnt(*map(sum, zip(Learnt(), *results, strict=True)))


def _learn_part(
    model: Model, key: str, lessons: Sequence[Lesson], refuse: Callable[[Sequence[Refusal]], None]
) -> Learnt:
    total, rest = Learnt(), list(lessons)
    while rest:
        run, rest = _run(rest)
        first = _line(run[0])
        try:
            for summary in model.learn(_lines(run), key=key, first=first, batch_size=MAX_LINES):
                total, first = total.plus(summary.learnt, summary.replayed), summary.next
        except ApiError as error:
            refused = _refused(error, run)
            code, end = error.code, _line(refused[0])
            refuse([Refusal(lesson.message, code, error.detail, model.name) for lesson in refused])
            total = total.plus(sum(first <= _line(lesson) < end for lesson in run), refused=len(refused))
            rest = [*(lesson for lesson in run if _line(lesson) > _line(refused[-1])), *rest]
    return total


def _run(lessons: list[Lesson]) -> tuple[list[Lesson], list[Lesson]]:
    """Return the lessons before the first large gap between offsets, and the lessons after it."""
    offsets = [lesson.message.offset for lesson in lessons]
    end = next((at for at in range(1, len(lessons)) if offsets[at] - offsets[at - 1] > MAX_GAP), len(lessons))
    return lessons[:end], lessons[end:]


def _lines(lessons: Sequence[Lesson]) -> Iterator[bytes | None]:
    """Yield the examples, and None for each offset between them without an example."""
    number = _line(lessons[0])
    for lesson in lessons:
        while number < _line(lesson):
            yield None
            number += 1
        yield lesson.example
        number += 1


def _line(lesson: Lesson) -> int:
    """Return the number of the line of a message: lines count from 1, offsets from 0."""
    return lesson.message.offset + 1


def _refused(error: ApiError, run: Sequence[Lesson]) -> Sequence[Lesson]:
    """Return the lessons that an error concerns: one lesson, or all remaining lessons if it concerns the model.

    Raises the error if it concerns neither.
    """
    left = [lesson for lesson in run if _line(lesson) > error.done]
    if left and error.code in OF_MODEL:
        return left
    of_example = error.status in _OF_EXAMPLE or error.code == "limit_exceeded"
    if of_example and error.code and left and _line(left[0]) == error.done + 1:
        return left[:1]
    raise error
