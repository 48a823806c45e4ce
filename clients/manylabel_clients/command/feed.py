"""`manylabel feed`: a labelled file into a model, so that it can be interrupted and gone on with."""

import uuid
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manylabel_clients.command.bookmarks import Bookmark, DigestedRows, bookmark_path
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.files import File, LabelColumns, ZeroBased, open_file
from manylabel_clients.command.options import DEFAULT_URL, PATIENT, AsJson, BatchSize, ModelName, Url, connect
from manylabel_clients.command.output import print_json, print_metrics
from manylabel_clients.http.errors import ManyLabelError
from manylabel_clients.http.model import Model
from manylabel_clients.http.types import TrainedStatus, Updated

if TYPE_CHECKING:
    from manylabel_clients.river.feed import FeedResult
    from manylabel_clients.river.files import FileStream


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(feed)


def feed(
    model: ModelName,
    file: File,
    labels: LabelColumns = None,
    zero_based: ZeroBased = False,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete",
            help="The labels of the file are all there are: those not true are false, and need not be sent.",
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on where the last feed of this file into this model stopped."),
    ] = False,
    batch_size: BatchSize = 64,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Learn a labelled file, in its order, each row once.

    However it is interrupted, --resume goes on exactly: no row is left out, none learnt twice. It also learns what
    was added to the file since. (What was done is noted under ~/.local/state/manylabel.)
    """
    path = bookmark_path(url, model, file)
    with connect(url, PATIENT) as client:
        handle = client.model(model)
        mark = _found(path, file, handle) if resume else Bookmark(uuid.uuid4().hex, batch_size, complete)
        # Before the first row: if even the first answer is lost, its batch still has to be known again.
        mark.save(path)
        result = _run(handle, open_file(file, labels, zero_based), mark, path, progress=not as_json)
    if as_json:
        print_json(asdict(result))
    else:
        typer.echo(f"{result.examples:,} rows fed; {model} has learnt {result.updates:,} examples")
        print_metrics(result.metrics)


def _run(model: Model, stream: "FileStream", mark: Bookmark, path: Path, progress: bool) -> "FeedResult":
    from manylabel_clients.river.feed import FeedInterrupted, feed

    rows = DigestedRows(stream, mark)

    def note(offset: int, receipt: Updated) -> None:
        replace(mark, offset=offset, digest=rows.digest, updates=receipt.updates).save(path)

    try:
        return feed(
            rows,
            model,
            start=mark.offset,
            batch_size=mark.batch_size,
            feed_id=mark.feed_id,
            complete=mark.complete,
            progress=progress,
            on_batch=note,
        )
    except FeedInterrupted as error:
        raise _stopped(error.__cause__, error.offset) from error
    except KeyboardInterrupt:
        typer.echo("stopped; --resume goes on", err=True)
        raise typer.Exit(130) from None


def _found(path: Path, file: Path, model: Model) -> Bookmark:
    """Where to go on, if the model is still the same."""
    try:
        mark = Bookmark.load(path)
    except FileNotFoundError:
        raise Failure(f"no feed of {file} into {model.name} was begun here; leave out --resume") from None
    status = model.status()
    if isinstance(status, TrainedStatus) or status.updates < mark.updates:
        raise Failure(f"{model.name} is not the model that was fed (it has learnt less); leave out --resume")
    return mark


def _stopped(cause: BaseException | None, offset: int) -> Exception:
    """What stopped the feed, with how to go on."""
    if isinstance(cause, Failure):
        return cause
    error = cause if isinstance(cause, ManyLabelError) else Failure(str(cause))
    error.add_note(f"{offset:,} rows are learnt, --resume goes on (examples in the message count from there)")
    return error
