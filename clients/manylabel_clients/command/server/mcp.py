"""`manylabel mcp`: tools for agents."""

import os
from typing import Annotated

import anyio
import click

from manylabel_clients.command.declaring import Commands, Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.options import REMOTE, connect_async, key_file
from manylabel_clients.http.transport.credentials import KEY_VARIABLE


def register(app: Commands) -> None:
    """Add the command."""
    app.add(mcp, common=REMOTE)


def mcp(
    model: Annotated[str | None, Option("--model", help="Default model of tool calls.")] = None,
    http: Annotated[
        str | None,
        Option("--http", metavar="HOST:PORT", help="Serve over HTTP, at /mcp, instead of standard input and output."),
    ] = None,
) -> None:
    """Serve tools for agents (Model Context Protocol): classify, teach, explain, list_labels, review_next.

    On standard input and output, calls use the key of --api-key-file or MANYLABEL_API_KEY. Over HTTP, each caller sends
    its own key in the header Authorization. An agent can do what the key allows.

    Example: `manylabel mcp --model tags --api-key-file key.txt`
    """
    from manylabel_clients.integrations import mcp as tools

    if http is None:
        client = connect_async()
        anyio.run(tools.server(tools.with_one_key(client), model).run_stdio_async)
        return
    if key_file() is not None:
        raise Failure("--api-key-file cannot be given with --http: each caller sends a key in the header Authorization")
    os.environ.pop(KEY_VARIABLE, None)
    host, port = _address(http)
    connect = tools.with_keys_of_callers(connect_async, needed=not tools.is_loopback(host))
    server = tools.server(connect, model)
    click.echo(f"tools at http://{http}/mcp", err=True)
    server.run("streamable-http", host=host, port=port, stateless_http=True, json_response=True)


def _address(text: str) -> tuple[str, int]:
    host, found, port = text.rpartition(":")
    if not found or not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 2**16):
        raise click.BadParameter(f"must be HOST:PORT, such as 127.0.0.1:8765, not {text!r}", param_hint="--http")
    return host.strip("[]"), int(port)
