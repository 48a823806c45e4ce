"""`manylabel update` and `label`: labelled examples, and labels of stored predictions."""

import uuid
from collections.abc import Callable, Iterable
from typing import Annotated

import click

from manylabel_clients.command.data.files import PLAIN, LabelColumns, NamedRowOptions, as_learnt
from manylabel_clients.command.declaring import Argument, Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.inputs import Item, chunks, placed, read_items, read_truths
from manylabel_clients.command.models.label_next import ORDER, LabelLoop
from manylabel_clients.command.options import PATIENT, AsJson, BatchSize, Input, ModelName, remote
from manylabel_clients.command.output.text import count_of, print_as
from manylabel_clients.http.client import Client
from manylabel_clients.http.errors import ManyLabelError
from manylabel_clients.http.responses import Updated

Key = Annotated[
    str | None, Option(help="Idempotency key: the same command with the same key and input is learnt once.")
]


@remote(retry=PATIENT)
def update(
    client: Client,
    model: ModelName,
    source: Input = "-",
    labels: LabelColumns = None,
    table: NamedRowOptions = PLAIN,
    batch_size: BatchSize = 64,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Learn examples with their true labels. An example may have a "weight" and a "ref".

    Example: `manylabel update tags '{"x": {"word=cat": 1}, "y": ["pets"]}'`
    """
    handle = client.model(model)
    items = read_items(source, True, labels, as_learnt(handle, source, labels, table, learns=True))
    learnt, receipt = _send(handle.update_many, items, batch_size, key or uuid.uuid4().hex)
    print_as(as_json, receipt, lambda receipt: _print(model, learnt, "example", receipt))


@remote(retry=PATIENT)
def label(
    client: Client,
    model: ModelName,
    source: Annotated[
        str | None, Argument(metavar="[INPUT]", help="Ids and labels: JSON, a file, or - for standard input.")
    ] = None,
    batch_size: BatchSize = 64,
    key: Key = None,
    order: Annotated[str, Option(help="Without INPUT: order, uncertainty, newest or review.")] = ORDER,
    send_every: Annotated[
        int,
        Option(
            min=1, max=100, help="Without INPUT, labels sent per request. The queue is sorted again after each request."
        ),
    ] = 10,
    as_json: AsJson = False,
) -> None:
    """Label stored predictions (`manylabel predict --keep-record`), in the terminal or from INPUT.

    Without INPUT it shows them in turn, most uncertain first, with the predicted labels, and asks for the true labels.
    Enter accepts, s skips, u goes back, and q sends the labels and quits. With INPUT it submits the labels in it, by
    the ids of the predictions.

    An online model learns them; they only update the metrics of a trained model.

    Example: `manylabel label tags '{"id": "01KAHZY4T00000000000000000", "y": ["pets"]}'`
    """
    if source is None:
        return LabelLoop(client.model(model), order, send_every).run()
    send = client.model(model).label_many
    told, receipt = _send(send, read_truths(source), batch_size, key or uuid.uuid4().hex)
    return print_as(as_json, receipt, lambda receipt: _print(model, told, "stored prediction", receipt))


def _send(send: Callable[..., Updated], items: Iterable[Item], batch_size: int, key: str) -> tuple[int, Updated]:
    learnt = 0
    receipt = None
    try:
        for chunk in chunks(items, batch_size):
            with placed(chunk):
                examples = [item.labelled for item in chunk]
                receipt = send(examples, batch_size=batch_size, key=f"{key}-{learnt}")
            learnt += len(chunk)
    except (Failure, ManyLabelError) as error:
        if learnt:
            error.add_note(f"{learnt:,} examples before were learnt; --key {key} learns only the others")
        raise
    if receipt is None:
        raise Failure("there are no examples in the input")
    return learnt, receipt


def _print(model: str, learnt: int, what: str, receipt: Updated) -> None:
    done, how = ("learnt", "learnt") if what == "example" else ("labelled", "labels of")
    before = f" (had been {done} before)" if receipt.replayed else ""
    click.echo(
        f"{count_of(learnt, what)} {done}{before}; {model} has {how} {receipt.updates:,} (position {receipt.position})"
    )
