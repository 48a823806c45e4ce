"""`manylabel forget` and `verify`: forget examples permanently, and verify a history."""

import time
from typing import Annotated

import click

from manylabel_clients.command.declaring import Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.options import PATIENT, AsJson, ModelName, Yes, confirm, remote
from manylabel_clients.command.output.text import count_of, print_as
from manylabel_clients.http.client import Client
from manylabel_clients.http.responses import ForgetReceipt, Verification

POLL_SECONDS = 0.5


def _print_receipt(receipt: ForgetReceipt) -> None:
    if not receipt.examples:
        click.echo(f"{receipt.model} has no such example in its history, which begins at position {receipt.since}")
        return
    click.echo(
        f"{receipt.model} has forgotten {count_of(receipt.examples, 'example')} "
        f"of {count_of(receipt.entries, 'entry', 'entries')} "
        f"(receipt {receipt.id}, position {receipt.position})"
    )
    if receipt.since != "0":
        click.echo(f"examples learnt before position {receipt.since} are not in the history, and stay in the weights")
    if receipt.archive == "pending":
        click.echo(f"the archive has these examples until its next pass; receipt {receipt.id} says when it is purged")
    for title, lines in (("not deleted", receipt.kept), ("out of reach", receipt.beyond_reach)):
        for line in lines:
            click.echo(f"{title}: {line}")


@remote(_print_receipt, PATIENT)
def forget(
    client: Client,
    model: ModelName,
    ref: Annotated[
        list[str] | None,
        Option(metavar="REF", help="Reference of the examples to forget, of a person or a record. Repeatable."),
    ] = None,
    position: Annotated[
        list[str] | None,
        Option(
            metavar="POSITION",
            help="Instead of --ref: position of an entry of the log, whose examples are all forgotten. Repeatable.",
        ),
    ] = None,
    yes: Yes = False,
) -> ForgetReceipt:
    """Forget examples: remove them from the history, and compute the model again without them.

    The model serves meanwhile. The command waits for the receipt, and prints it.

    Example: `manylabel forget tags --ref customer-4711`
    """
    if bool(ref) == bool(position):
        raise click.BadParameter("give either --ref or --position", param_hint="--ref")
    which = f"with {', '.join(ref)}" if ref else f"at position {', '.join(position or ())}"
    confirm(f"Forget all examples of {model} {which}, permanently?", yes)
    handle = client.model(model)
    receipt = handle.forget(refs=ref or None, positions=position or None)
    while receipt.status == "running":
        time.sleep(POLL_SECONDS)
        receipt = handle.receipt(receipt.id)
    if receipt.status == "failed":
        raise Failure(f"no example was forgotten: {receipt.error}")
    return receipt


@remote(retry=PATIENT)
def verify(client: Client, model: ModelName, as_json: AsJson = False) -> None:
    """Replay the history of a model, and compare each stored state with the replayed one, bit for bit.

    Exits with 1 if one differs.

    Example: `manylabel verify tags`
    """
    found = client.model(model).verify()
    print_as(as_json, found, lambda found: _print_verification(model, found))
    if not found.equal:
        raise click.exceptions.Exit(1)


def _print_verification(model: str, found: Verification) -> None:
    if found.equal:
        states = count_of(found.states, "state")
        click.echo(f"{states} of {model} compared: equal to the replayed history up to position {found.position}")
    else:
        click.echo(f"the state of {model} at position {found.differs_at} differs from the replayed history")
