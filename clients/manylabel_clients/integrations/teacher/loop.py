"""The loop: predict, ask the teacher if the prediction says so, and submit the teacher's labels."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NamedTuple, overload

from manylabel_clients.http.errors import Conflict, Expired, ManyLabelError
from manylabel_clients.http.resources.examples import Features
from manylabel_clients.http.resources.models import AsyncModel, Model
from manylabel_clients.http.responses import Prediction
from manylabel_clients.http.transport.retry import Retry

RETRY = Retry(attempts=4, base_seconds=0.5, cap_seconds=20.0, patience_seconds=120.0)
"""Default retry rule of a teacher."""
BATCH_SIZE, WORKERS = 32, 8
"""Default number of examples predicted at a time, and default number of simultaneous calls of the teacher."""


class TeacherBusy(Exception):
    """The teacher is busy, for example because of a rate limit. Raise this error from `call` to set the wait."""

    def __init__(self, message: str = "the teacher is busy", retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class TeacherRefuses(Exception):
    """The teacher will never answer this example, for example because of a content filter. It is not asked again."""


class TeacherFailed(ManyLabelError):
    """The teacher did not answer an example in all attempts, and nothing was learnt.

    If the example was an audit, it counts as wrong when the stored prediction expires.
    """


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to an example."""

    labels: list[str] | None
    """Labels of the teacher if it was called, otherwise labels of the model; None if the teacher failed."""
    asked: bool
    """Whether the teacher was asked."""
    prediction: Prediction
    """The model's prediction."""
    error: TeacherFailed | None = None
    """Error of the teacher; None if it did not fail."""


@dataclass(frozen=True, slots=True)
class _Rules:
    """Rules that both loops share.

    Attributes
    ----------
    vocabulary : labels that the teacher may use; None for any.
    keep : which predictions the server stores.
    """

    source: str
    retry: Retry
    vocabulary: frozenset[str] | None
    sleep: Callable[[float], Any] = field(repr=False)
    keep: Literal[True, "asked"] = True

    def labels(self, found: Any) -> list[str]:
        """Return the teacher's labels without duplicates. Raises ValueError or TypeError for other values."""
        if isinstance(found, (str, bytes)) or not isinstance(found, Collection):
            raise TypeError(f"a teacher returns a list of labels, not {type(found).__name__}")
        labels = sorted(found) if isinstance(found, (set, frozenset)) else list(found)
        for label in labels:
            if not isinstance(label, str) or not label:
                raise TypeError(f"a teacher's label is a string that is not empty, not {label!r}")
            if self.vocabulary is not None and label not in self.vocabulary:
                raise ValueError(f"the teacher's label {label!r} is not one of the {len(self.vocabulary):,} known ones")
        return list(dict.fromkeys(labels))

    def wait_seconds(self, failures: int, error: Exception, began: float) -> float:
        """Return the seconds until the next attempt; raises TeacherFailed after the last one."""
        if isinstance(error, ManyLabelError):
            raise error
        asked = error.retry_after_seconds if isinstance(error, TeacherBusy) else None
        seconds = None
        if not isinstance(error, TeacherRefuses):
            seconds = self.retry.wait_seconds(failures, asked, time.monotonic() - began)
        if seconds is None:
            what = "refuses to answer" if isinstance(error, TeacherRefuses) else f"failed {failures} times"
            raise TeacherFailed(f"the teacher {what}: {str(error) or type(error).__name__}") from error
        return seconds


def _asked(prediction: Prediction) -> bool:
    if prediction.ask is None:
        raise ValueError("the model promises no parity: set it, for example by set_promise(None, parity=0.95)")
    return prediction.ask


def _id(prediction: Prediction) -> str:
    assert prediction.id is not None
    return prediction.id


class Taught:
    """A model with its teacher; call it with an example to get its labels.

    The labels are the model's if it is sure, otherwise the teacher's, which the model learns at once.
    """

    def __init__(self, model: Model, call: Callable[[Any], Collection[str]], rules: _Rules) -> None:
        self._model, self._call, self._rules = model, call, rules

    def __call__(self, x: Features) -> list[str]:
        """Return the labels of an example.

        Raises
        ------
        TeacherFailed
            If the teacher was asked and did not answer in all attempts.
        ManyLabelError
            As `Model.predict` and `Model.label`.
        ValueError
            If the model promises no parity.
        """
        prediction = self._model.predict(x, keep=self._rules.keep)
        if not _asked(prediction):
            return prediction.labels
        labels = self._ask(x)
        self._learn(prediction, labels)
        return labels

    def many(self, xs: Iterable[Features], *, workers: int = WORKERS, batch_size: int = BATCH_SIZE) -> Iterator[Answer]:
        """Yield the answers to examples, in their order; a failing teacher does not end the iteration.

        Parameters
        ----------
        xs : iterable
            Examples, read as answers are consumed.
        workers : int
            Maximum number of threads that call the teacher at the same time.
        batch_size : int
            Number of examples that are predicted before the teacher's answers are learnt.
        """
        rest = iter(xs)
        with ThreadPoolExecutor(workers, "teacher") as pool:
            while chunk := list(islice(rest, batch_size)):
                predictions = self._model.predict_many(chunk, batch_size=batch_size, keep=self._rules.keep)
                calls = [
                    pool.submit(self._ask, x) if _asked(one) else None
                    for x, one in zip(chunk, predictions, strict=True)
                ]
                for prediction, call in zip(predictions, calls, strict=True):
                    yield self._answer(prediction, call)

    def _answer(self, prediction: Prediction, call: Future[list[str]] | None) -> Answer:
        if call is None:
            return Answer(prediction.labels, False, prediction)
        try:
            labels = call.result()
        except TeacherFailed as error:
            return Answer(None, True, prediction, error)
        self._learn(prediction, labels)
        return Answer(labels, True, prediction)

    def _ask(self, x: Features) -> list[str]:
        return _ask(self._call, x, self._rules)

    def _learn(self, prediction: Prediction, labels: list[str]) -> None:
        with _already_answered():
            self._model.label(_id(prediction), labels, source=self._rules.source)


class AsyncTaught:
    """Like `Taught`, for an `AsyncModel` and a coroutine function as the teacher."""

    def __init__(self, model: AsyncModel, call: Callable[[Any], Awaitable[Collection[str]]], rules: _Rules) -> None:
        self._model, self._call, self._rules = model, call, rules

    async def __call__(self, x: Features) -> list[str]:
        """Return the labels of an example; raises like `Taught`."""
        prediction = await self._model.predict(x, keep=self._rules.keep)
        if not _asked(prediction):
            return prediction.labels
        labels = await self._ask(x)
        await self._learn(prediction, labels)
        return labels

    async def many(
        self,
        xs: Iterable[Features] | AsyncIterable[Features],
        *,
        workers: int = WORKERS,
        batch_size: int = BATCH_SIZE,
    ) -> AsyncIterator[Answer]:
        """Yield the answers to examples, in their order, like `Taught.many`; `workers` is the number of simultaneous
        calls."""
        import asyncio  # imported here, because the synchronous client needs no event loop

        turns = asyncio.Semaphore(workers)

        async def ask(x: Features) -> list[str]:
            async with turns:
                return await self._ask(x)

        async for chunk in _chunks(xs, batch_size):
            predictions = await self._model.predict_many(chunk, batch_size=batch_size, keep=self._rules.keep)
            asked = [_asked(one) for one in predictions]
            calls = [ask(x) for x, needed in zip(chunk, asked, strict=True) if needed]
            told = iter(await asyncio.gather(*calls, return_exceptions=True))
            for prediction, needed in zip(predictions, asked, strict=True):
                if not needed:
                    yield Answer(prediction.labels, False, prediction)
                elif isinstance(found := next(told), TeacherFailed):
                    yield Answer(None, True, prediction, found)
                elif isinstance(found, BaseException):
                    raise found
                else:
                    await self._learn(prediction, found)
                    yield Answer(found, True, prediction)

    async def _ask(self, x: Features) -> list[str]:
        failures, began = 0, time.monotonic()
        while True:
            try:
                return self._rules.labels(await self._call(x))
            except Exception as error:
                failures += 1
                seconds = self._rules.wait_seconds(failures, error, began)
            await self._rules.sleep(seconds)

    async def _learn(self, prediction: Prediction, labels: list[str]) -> None:
        with _already_answered():
            await self._model.label(_id(prediction), labels, source=self._rules.source)


class SelfAgreement(NamedTuple):
    """Agreement of a teacher with itself, when it labels each example twice."""

    examples: int
    """Number of examples that the teacher labelled twice."""
    failed: int
    """Number of examples that the teacher did not label twice."""
    exact: float | None
    """Share of equal label sets; None without examples."""
    f1: float | None
    """Mean F1 between the two label sets of an example."""

    @property
    def ceiling(self) -> tuple[float, float] | None:
        """Highest parity that makes sense, for exact sets and for F1: about the square root of the agreement."""
        return None if self.exact is None or self.f1 is None else (self.exact**0.5, self.f1**0.5)


def self_agreement(
    call: Callable[[Any], Collection[str]],
    xs: Iterable[Any],
    *,
    workers: int = WORKERS,
    retry: Retry = RETRY,
    labels: Collection[str] | None = None,
    sleep: Callable[[float], Any] | None = None,
) -> SelfAgreement:
    """Call a teacher twice for each example. `with_teacher` and `Taught.many` describe the parameters."""
    rules = _Rules("", retry, None if labels is None else frozenset(labels), sleep or time.sleep)
    failed, exact, f1 = 0, list[bool](), list[float]()
    with ThreadPoolExecutor(workers, "teacher") as pool:
        pairs = [[pool.submit(_ask, call, x, rules) for _ in range(2)] for x in xs]
        for pair in pairs:
            try:
                first, second = (set(one.result()) for one in pair)
            except TeacherFailed:
                failed += 1
                continue
            size = len(first) + len(second)
            exact.append(first == second)
            f1.append(2 * len(first & second) / size if size else 1.0)
    n = len(exact)
    return SelfAgreement(n, failed, sum(exact) / n if n else None, sum(f1) / n if n else None)


@overload
def with_teacher(
    model: Model,
    call: Callable[[Any], Collection[str]],
    *,
    source: str = ...,
    retry: Retry = ...,
    labels: Collection[str] | None = ...,
    keep: Literal[True, "asked"] = ...,
    sleep: Callable[[float], Any] | None = ...,
) -> Taught: ...
@overload
def with_teacher(
    model: AsyncModel,
    call: Callable[[Any], Awaitable[Collection[str]]],
    *,
    source: str = ...,
    retry: Retry = ...,
    labels: Collection[str] | None = ...,
    keep: Literal[True, "asked"] = ...,
    sleep: Callable[[float], Any] | None = ...,
) -> AsyncTaught: ...
def with_teacher(
    model: Model | AsyncModel,
    call: Callable[[Any], Any],
    *,
    source: str = "machine",
    retry: Retry = RETRY,
    labels: Collection[str] | None = None,
    keep: Literal[True, "asked"] = True,
    sleep: Callable[[float], Any] | None = None,
) -> Taught | AsyncTaught:
    """Return a function that labels an example with the model if it is sure, else with the teacher, and has the model
    learn the teacher's labels.

    The server decides for which examples to ask the teacher, so that in the long run the model's answers agree with the
    teacher as promised. Do not show the model's answer to the teacher: audits would find no errors.

    Parameters
    ----------
    model : Model or AsyncModel
        Model that promises parity.
    call : callable
        The teacher, a function that returns the labels of an example; a coroutine function for an `AsyncModel`. After
        an exception it is called again; after `TeacherBusy` this takes longer, after `TeacherRefuses` it is not called
        again. A `ManyLabelError` ends the loop. A call must have its own timeout that raises an exception.
    source : str
        Source of the teacher's labels, as in the promise (`of`).
    retry : Retry
        Attempts for one example, and waits between them.
    labels : collection of str, optional
        Labels that the teacher may use; an answer with another label counts as failed. Default: any label; new labels
        are learnt.
    keep : True or "asked"
        Whether the server stores the model's answers too, so that people can correct them by the id of the prediction;
        with "asked", it stores only those that people should check.
    sleep : callable, optional
        Waits for a number of seconds; for tests.

    Returns
    -------
    Taught or AsyncTaught
        Called with an example, it returns the labels; `many` answers many examples.
    """
    vocabulary = None if labels is None else frozenset(labels)
    if isinstance(model, AsyncModel):
        from asyncio import sleep as sleep_in_loop

        return AsyncTaught(model, call, _Rules(source, retry, vocabulary, sleep or sleep_in_loop, keep))
    return Taught(model, call, _Rules(source, retry, vocabulary, sleep or time.sleep, keep))


def _ask(call: Callable[[Any], Collection[str]], x: Any, rules: _Rules) -> list[str]:
    """Return the teacher's labels of an example; raises TeacherFailed."""
    failures, began = 0, time.monotonic()
    while True:
        try:
            return rules.labels(call(x))
        except Exception as error:  # a teacher may raise anything
            failures += 1
            seconds = rules.wait_seconds(failures, error, began)
        rules.sleep(seconds)


async def _chunks(xs: Iterable[Features] | AsyncIterable[Features], size: int) -> AsyncIterator[list[Features]]:
    chunk = list[Features]()
    if isinstance(xs, AsyncIterable):
        async for x in xs:
            chunk.append(x)
            if len(chunk) == size:
                yield chunk
                chunk = []
    else:
        rest = iter(xs)
        while len(chunk := list(islice(rest, size))) == size:
            yield chunk
    if chunk:
        yield chunk


@contextmanager
def _already_answered() -> Iterator[None]:
    """Ignore the error that an earlier attempt has labelled the prediction, or that it has expired: nothing is left to
    learn."""
    try:
        yield
    except Conflict as error:
        if error.code != "prediction_labelled":
            raise
    except Expired:
        pass
