"""`manylabel webhooks`: events that a server posts to other servers."""

import os
from typing import Annotated

import click

from manylabel_clients.command.declaring import Argument, Option, command, group
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.options import AsJson, Yes, confirm, remote
from manylabel_clients.command.output.tables import listing, print_facts
from manylabel_clients.command.output.text import print_json, short_time
from manylabel_clients.http.client import Client
from manylabel_clients.http.responses import EVENTS, Webhook

SECRET_VARIABLE = "MANYLABEL_WEBHOOK_SECRET"

WebhookId = Annotated[str, Argument(metavar="ID", help="Id of the webhook; `manylabel webhooks` lists them.")]


def _outcome(error: str | None, status: int | None) -> str:
    if error is None:
        return "delivered"
    return error if status is None else f"status {status}"


def _state(webhook: Webhook) -> str:
    return webhook.state if webhook.reason is None else f"{webhook.state} ({webhook.reason})"


_print_all = listing(
    {
        "webhook": "id",
        "address": "url",
        "events": "events",
        "models": "models",
        "state": _state,
        "waiting": "waiting",
        "delivered": "delivered",
    },
    words=5,
    empty="no webhooks",
)
_print_deliveries = listing(
    {
        "time": lambda each: short_time(each.time),
        "type": "type",
        "event": "event",
        "attempt": "attempt",
        "outcome": lambda each: _outcome(each.error, each.status),
        "ms": "milliseconds",
    },
    words=3,
)


def _print(webhook: Webhook) -> None:
    facts = {"webhook": webhook.id, "address": webhook.url, "events": webhook.events, "models": webhook.models}
    counts = {name: getattr(webhook, name) for name in ("waiting", "dropped", "delivered")}
    print_facts({**facts, "state": _state(webhook), "created": webhook.created_at, **counts})
    if webhook.deliveries:
        click.echo()
        _print_deliveries(webhook.deliveries)


@remote(_print_all)
def list_webhooks(client: Client) -> list[Webhook]:
    """List the webhooks for models that your key allows."""
    return client.webhooks.list()


@remote()
def create(
    client: Client,
    address: Annotated[
        str, Argument(metavar="ADDRESS", help="Address of the receiver, which webhook_urls must allow.")
    ],
    event: Annotated[list[str], Option(metavar="EVENT", help=f"{', '.join(EVENTS)}. Repeatable.")],
    model: Annotated[
        list[str] | None,
        Option(metavar="PATTERN", help="Model, or a prefix of names followed by *. Repeatable. Default: all."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a webhook: the server posts events to an address.

    Prints the secret that signs the events, which will not be shown again. To choose the secret, set
    MANYLABEL_WEBHOOK_SECRET.

    Example: `manylabel webhooks create https://hooks.example.org/tags --event drift --event label --model 'tags-*'`
    """
    secret = os.environ.get(SECRET_VARIABLE)
    made = client.webhooks.create(address, events=event, models=model or ["*"], secret=secret)
    if as_json:
        return print_json(made)
    click.echo(f"created the webhook {made.id}; store its secret now; it is shown only once:", err=True)
    return click.echo(made.secret)


@remote(_print)
def show(client: Client, id: WebhookId) -> Webhook:
    """Show a webhook with its latest deliveries, but never its secret."""
    return client.webhooks.get(id)


@remote()
def send_test(client: Client, id: WebhookId, as_json: AsJson = False) -> None:
    """Send a test event; exit status 1 if the receiver did not accept it."""
    delivery = client.webhooks.test(id)
    if as_json:
        print_json(delivery)
    elif delivery.error is None:
        click.echo(f"delivered: status {delivery.status}, {delivery.milliseconds} ms")
    if delivery.error is not None:
        raise Failure(f"not delivered: {_outcome(delivery.error, delivery.status)}")


@remote()
def enable(client: Client, id: WebhookId) -> None:
    """Enable a disabled webhook; its queued events are sent first."""
    client.webhooks.enable(id)
    click.echo(f"enabled {id}")


@remote()
def delete(client: Client, id: WebhookId, yes: Yes = False) -> None:
    """Delete a webhook with its queued events."""
    confirm(f"Delete {id}?", yes)
    client.webhooks.delete(id)
    click.echo(f"deleted {id}")


webhooks = group(
    "webhooks",
    list_webhooks,
    command(list_webhooks, "list"),
    create,
    show,
    enable,
    delete,
    command(send_test, "test"),
    help="Create, list, test and delete webhooks: events that the server posts to other servers; without a command, "
    "list them.",
)
