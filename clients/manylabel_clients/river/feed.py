"""Feeds: streams of examples sent to a model of a server, which can be interrupted and resumed."""

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from manylabel_clients.http.errors import ApiError, ManyLabelError
from manylabel_clients.http.resources.examples import Example, Labels
from manylabel_clients.http.resources.models import Model
from manylabel_clients.http.resources.stream import StreamSummary
from manylabel_clients.http.responses import Metrics, TrainedStatus
from manylabel_clients.http.transport.batches import BATCH_SIZE
from manylabel_clients.progress import ProgressBar, counted
from manylabel_clients.river.encoding import named_truths, named_values
from manylabel_clients.river.files.stream import FileStream
from manylabel_core.rows import MAX_EXAMPLE_WEIGHT


@dataclass(frozen=True, slots=True)
class FeedResult:
    """Result of a feed."""

    examples: int
    """Rows fed by this call."""
    next_offset: int
    """Number of the row after the last one fed: `start` of a later feed."""
    feed_id: str
    """Name of the feed."""
    position: str
    """Log position of the model. Opaque."""
    updates: int
    """Total number of examples learnt by the model."""
    metrics: Metrics
    """Prequential metrics of the examples."""


class FeedInterrupted(Exception):
    """A feed stopped. The ``__cause__`` is the reason; `feed` with the same `feed_id` and `start=offset` resumes it.

    Attributes
    ----------
    offset : int
        Number of the first row that is not known to be learnt. If a response was lost, its batch may have been learnt.
    feed_id : str
        Name of the feed.
    """

    def __init__(self, cause: Exception, offset: int, feed_id: str) -> None:
        where = f"row {offset}: " if isinstance(cause, ApiError) else ""
        super().__init__(f"{where}{cause}; to continue: feed(..., start={offset}, feed_id={feed_id!r})")
        self.offset = offset
        self.feed_id = feed_id


def feed(
    stream: Iterable[tuple[Any, ...]],
    model: Model,
    *,
    start: int = 0,
    batch_size: int = BATCH_SIZE,
    feed_id: str | None = None,
    complete: bool = False,
    progress: bool = False,
    on_batch: Callable[[int, StreamSummary], object] | None = None,
) -> FeedResult:
    """Learn a stream with a model of a server, in order, each row once.

    The rows are sent by `Model.learn`, in batches, under the key `feed_id`. The server stores the number of the last
    row learnt under a key, and does not learn rows up to it again. So an interrupted feed (network, killed server,
    invalid row, Ctrl-C) can be resumed exactly. The stream must return the same rows, and `feed_id` must be the same.

    Parameters
    ----------
    stream : iterable of (x, y), (x, y, weight) or (x, y, weight, source, ref)
        A river dataset, a `FileStream`, or any iterable. `x` is a dict of features (numbers or bools), or another input
        of `Model.update`. `y` is a dict of labels and bools (other labels are unknown), or a list or set of all
        relevant labels (other labels are irrelevant).
    model : Model
        Model of the server, from `Client.model`.
    start : int
        Rows of the stream to skip.
    batch_size : int
        Rows in one request.
    feed_id : str, optional
        Name of this feed, unique for the model: 1 to 200 visible ASCII characters. Default: a random one.
    complete : bool
        Whether each dict `y` has all labels. Then only the true labels are sent, which is shorter; the model does not
        learn the names of labels that are never true.
    progress : bool
        Whether to show a progress bar on standard error, up to the `n_samples` of the stream if known.
    on_batch : callable, optional
        Called after each batch with the offset of the next batch and the server's receipt.

    Raises
    ------
    FeedInterrupted
        The feed stopped; its ``__cause__`` is the reason.
    ValueError
        `start`, `batch_size` or `feed_id` is invalid.

    Examples
    --------
    >>> from manylabel_clients import Client
    >>> from river import datasets
    >>> client = Client(url)
    >>> model = client.create_model("proteins", algorithm="falt")
    >>> result = feed(datasets.Yeast(), model)
    >>> print(result.examples, f"{result.metrics.cumulative.micro_f1:.3f}")
    2417 0.651
    >>> client.close()
    """
    feed_id = uuid.uuid4().hex if feed_id is None else feed_id
    if start < 0 or batch_size < 1:
        raise ValueError(f"start must be at least 0 and batch_size at least 1, not {start} and {batch_size}")
    if not re.fullmatch(r"[!-~]{1,200}", feed_id):
        raise ValueError(f"feed_id must be 1 to 200 visible ASCII characters, not {feed_id!r}")
    offset = start
    try:
        with _bar(stream, start, progress) as advance:
            rows = stream.examples() if isinstance(stream, FileStream) else stream
            examples = _examples(rows, start, complete)
            for summary in model.learn(examples, key=feed_id, first=start + 1, batch_size=batch_size):
                advance(summary.next - 1 - offset)
                offset = summary.next - 1
                if on_batch is not None:
                    on_batch(offset, summary)
        status = model.status()
        if isinstance(status, TrainedStatus):
            raise TypeError(f"model {model.name!r} is trained by jobs and learns nothing from a stream")
    except Exception as error:
        offset = error.done if isinstance(error, ManyLabelError) and error.done > offset else offset
        raise FeedInterrupted(error, offset, feed_id) from error
    except KeyboardInterrupt as error:
        error.add_note(f"to continue: feed(..., start={offset}, feed_id={feed_id!r})")
        raise
    return FeedResult(offset - start, offset, feed_id, status.position, status.updates, status.metrics)


def _examples(stream: Iterable[Any], start: int, complete: bool) -> Iterator[Example]:
    rows = iter(stream)
    skipped = sum(1 for _ in islice(rows, start))
    if skipped < start:
        raise ValueError(f"start is {start}, but the stream ends after {skipped} rows")
    for number, row in enumerate(rows, start):
        try:
            yield _example(row, complete)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"row {number}: {error}") from error


def _example(row: Any, complete: bool) -> Example:
    if not 2 <= len(row) <= 5:
        raise ValueError(f"a row must be (x, y), optionally followed by weight, source and ref, not {len(row)} values")
    x, y, *weight = row
    if (
        weight
        and weight[0] is not None
        and not (isinstance(weight[0], int | float) and 0.0 < weight[0] <= MAX_EXAMPLE_WEIGHT)
    ):
        raise ValueError(f"a weight must be a number above 0 and at most {MAX_EXAMPLE_WEIGHT:g}, not {weight[0]!r}")
    return (named_values(x) if isinstance(x, Mapping) else x), _labels(y, complete), *weight


def _labels(y: Any, complete: bool) -> Labels:
    if not isinstance(y, Mapping):
        return y  # type: ignore[no-any-return]  # the client checks it
    truth = named_truths(y)
    return [label for label, relevant in truth.items() if relevant] if complete else truth


@contextmanager
def _bar(stream: Any, start: int, wanted: bool) -> Iterator[Callable[[int], object]]:
    """Yield a function that receives the number of learnt rows."""
    if not wanted:
        yield lambda rows: None
        return
    n_samples, done = getattr(stream, "n_samples", None), start
    with ProgressBar(stays=True) as bar:

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            share, count = counted(done, n_samples)
            bar.draw(share, f"{count} rows fed")

        yield advance
