"""`manylabel mcp`: tools for agents."""

import os
from typing import Annotated

import anyio
import click

from manylabel_clients.command.declaring import Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.options import KeyFile, Timeout, Url, address, connect
from manylabel_clients.http.client import AsyncClient
from manylabel_clients.http.transport.connections import DEFAULT_URL
from manylabel_clients.http.transport.credentials import KEY_VARIABLE


def mcp(
    model: Annotated[str | None, Option(help="Default model of tool calls.")] = None,
    http: Annotated[
        str | None, Option(metavar="HOST:PORT", help="Serve over HTTP, at /mcp, instead of standard input and output.")
    ] = None,
    teacher: Annotated[
        bool,
        Option(
            help="The agent is the teacher of models that promise parity: `classify` answers what a model is sure of, "
            "and asks the agent for the rest. Tools that show the model's answer are omitted."
        ),
    ] = False,
    url: Url = DEFAULT_URL,
    timeout: Timeout = None,
    api_key: KeyFile = None,
) -> None:
    """Serve tools for agents (Model Context Protocol), such as classify, teach and list_suggestions.

    On standard input and output, calls use the key of --api-key-file or MANYLABEL_API_KEY. Over HTTP, each caller sends
    its own key in the header Authorization. An agent can do what the key allows.

    Example: `manylabel mcp --model tags --api-key-file key.txt`
    """
    from manylabel_clients.integrations import mcp as tools

    if http is None:
        client = connect(AsyncClient, url, timeout, api_key)
        anyio.run(tools.server(tools.with_one_key(client), model, teacher=teacher).run_stdio_async)
        return
    if api_key is not None:
        raise Failure("--api-key-file cannot be given with --http: each caller sends a key in the header Authorization")
    import uvicorn  # installed with the SDK

    os.environ.pop(KEY_VARIABLE, None)
    host, port = address(http, "--http", "127.0.0.1:8765")
    callers = tools.with_keys_of_callers(
        lambda headers: connect(AsyncClient, url, timeout, None, headers=headers), needed=not tools.is_loopback(host)
    )
    served = tools.http_app(tools.server(callers, model, teacher=teacher), host)
    click.echo(f"tools at http://{http}/mcp", err=True)
    uvicorn.run(served, host=host, port=port, log_level="warning")
