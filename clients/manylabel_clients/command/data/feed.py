"""`manylabel feed`: learn a labelled file; can be interrupted and resumed."""

import uuid
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from manylabel_clients.command.data.checkpoints import DigestedRows, FeedCheckpoint, checkpoint_path
from manylabel_clients.command.data.files import PLAIN, File, LabelColumns, NamedRowOptions, ZeroBased, open_for
from manylabel_clients.command.data.reports import DryRun, report_of
from manylabel_clients.command.declaring import Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.options import PATIENT, AsJson, BatchSize, ModelName, remote
from manylabel_clients.command.output.measures import print_metrics
from manylabel_clients.command.output.reports import note_warnings, print_report
from manylabel_clients.command.output.text import print_as, print_json
from manylabel_clients.http.client import Client
from manylabel_clients.http.errors import ManyLabelError, NotFound
from manylabel_clients.http.resources.models import Model
from manylabel_clients.http.resources.stream import StreamSummary
from manylabel_clients.http.responses import TrainedStatus
from manylabel_clients.http.transport.batches import BATCH_SIZE

if TYPE_CHECKING:
    from manylabel_clients.river.feed import FeedResult
    from manylabel_clients.river.files import FileStream


@remote(retry=PATIENT)
def feed(
    client: Client,
    model: ModelName,
    file: File,
    labels: LabelColumns = None,
    zero_based: ZeroBased = False,
    table: NamedRowOptions = PLAIN,
    complete: Annotated[
        bool, Option(help="The file names all labels: every label that a row lacks is false, and is not sent.")
    ] = False,
    resume: Annotated[bool, Option(help="Resume where the last feed of this file into this model stopped.")] = False,
    batch_size: BatchSize = BATCH_SIZE,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Learn the rows of a labelled file in order, each once.

    Rows of CSV, TSV and JSON lines may be records: `manylabel feed packages packages.jsonl.gz --labels tags`. The text
    fields are those of the model.

    --dry-run shows what each column is read as, and learns nothing. The model must exist, because it has the text
    fields; without a model, use `manylabel train FILE --dry-run`.

    After an interruption, --resume continues exactly: no row is omitted or learnt twice. It also learns rows added to
    the file since. Checkpoints are in ~/.local/state/manylabel.
    """
    handle = client.model(model)
    if dry_run:
        try:
            report = report_of(open_for(handle, file, labels, zero_based, table, learns=True))
        except NotFound as error:
            error.add_note(f"the model has the text fields; without a model: manylabel train {file} --dry-run")
            raise
        print_as(as_json, report, print_report)
        return
    path = checkpoint_path(client.base_url, model, file)
    checkpoint = _resumed(path, file, handle) if resume else FeedCheckpoint(uuid.uuid4().hex, complete)
    stream = open_for(handle, file, labels, zero_based, table, learns=True)
    note_warnings(getattr(stream, "warnings", ()))
    # Before the first row: even if the first response is lost, a resumed feed must recognise its batch.
    checkpoint.save(path)
    result = _run(handle, stream, checkpoint, path, batch_size, progress=not as_json)
    if as_json:
        print_json(asdict(result))
    else:
        click.echo(f"{result.examples:,} rows fed; {model} has learnt {result.updates:,} examples")
        if left_out := getattr(stream, "n_unlabelled", 0):
            click.echo(f"{left_out:,} rows omitted: their labels are unknown; --empty none if an empty cell means none")
        print_metrics(result.metrics)


def _run(
    model: Model, stream: "FileStream", checkpoint: FeedCheckpoint, path: Path, batch_size: int, progress: bool
) -> "FeedResult":
    from manylabel_clients.river.feed import FeedInterrupted, feed

    rows = DigestedRows(stream.examples(), checkpoint, stream.n_samples)

    def note(offset: int, summary: StreamSummary) -> None:
        replace(checkpoint, offset=offset, digest=rows.digest, updates=summary.updates).save(path)

    try:
        return feed(
            rows,
            model,
            start=checkpoint.offset,
            batch_size=batch_size,
            feed_id=checkpoint.feed_id,
            complete=checkpoint.complete,
            progress=progress,
            on_batch=note,
        )
    except FeedInterrupted as error:
        raise _stopped(error.__cause__, error.offset) from error
    except KeyboardInterrupt:
        click.echo("stopped; continue with --resume", err=True)
        raise click.exceptions.Exit(130) from None


def _resumed(path: Path, file: Path, model: Model) -> FeedCheckpoint:
    """Return the checkpoint to resume from, if the model is still the same."""
    try:
        checkpoint = FeedCheckpoint.load(path)
    except FileNotFoundError:
        raise Failure(f"no feed of {file} into {model.name} was started here; omit --resume") from None
    status = model.status()
    if isinstance(status, TrainedStatus) or status.updates < checkpoint.updates:
        raise Failure(f"{model.name} is not the model that was fed (it has learnt fewer examples); omit --resume")
    return checkpoint


def _stopped(cause: BaseException | None, offset: int) -> Exception:
    """Return the error that stopped the feed, with the command to resume it."""
    if isinstance(cause, Failure):
        return cause
    error = cause if isinstance(cause, ManyLabelError) else Failure(str(cause))
    error.add_note(f"{offset:,} rows are learnt; continue with --resume")
    return error
