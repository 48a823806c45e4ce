"""Agent that teaches, classifies, explains and reviews through `manylabel mcp`, over standard input and output."""

import argparse
import asyncio
import json
import os
from typing import Any

from benchmarks.http import servers
from benchmarks.integrations.typed import MANYLABEL, server

MODEL = {"name": "animals", "algorithm": "falt", "text": {"fields": ["text"]}}
FOX, DOG = {"text": "a quick fox runs"}, {"text": "a lazy dog sleeps"}
CALLS: list[tuple[str, dict[str, Any]]] = [
    *[("teach", {"record": FOX, "labels": ["fox", "wild"]}), ("teach", {"record": DOG, "labels": ["dog"]})] * 3,
    ("classify", {"record": {"text": "the fox runs away"}, "top": 2, "probabilities": True, "keep": True}),
    ("explain", {"record": FOX, "features": 2}),
    ("list_labels", {"limit": 2}),
    ("review_next", {"limit": 1}),
    ("classify", {"record": {"text": [["nested"]]}}),
    ("teach", {"record": FOX, "labels": ["fox", "fox"]}),
]


def run(args: argparse.Namespace) -> None:
    """Print the calls of an agent, and the results."""
    with server(args.port) as (url, _):
        servers.post(args.port, "/v1/models", json.dumps(MODEL).encode())
        asyncio.run(_ask(url))


async def _ask(url: str) -> None:
    from mcp import Client, StdioServerParameters

    print("$ manylabel mcp --model animals")
    program, *arguments = MANYLABEL
    environment = {**os.environ, "MANYLABEL_URL": url}
    parameters = StdioServerParameters(command=program, args=[*arguments, "mcp", "--model", "animals"], env=environment)
    async with Client(parameters) as agent:
        listed = sorted(tool.name for tool in (await agent.list_tools()).tools)
        print(f"tools: {', '.join(listed)}")
        for tool, asked in CALLS:
            result = await agent.call_tool(tool, asked)
            print(f"{tool} {json.dumps(asked)}")
            found = result.content[0].text if result.is_error else json.dumps(result.structured_content)
            print(f"  {'error: ' if result.is_error else ''}{found}", flush=True)
