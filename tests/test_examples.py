"""The worked examples run against a server and print the output in their docstrings."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.label_studio import TOKEN, StandIn, label_studio
from tests.support.redis_server import RedisServer
from tests.support.worked_examples import EXAMPLES, SHOWN, assert_shown, run_example

NEEDS = {"label_studio_round_trip.py": "label_studio", "topic_exactly_once.py": "redis"}
"""Further arguments of some examples, after the address of the server."""


@pytest.fixture(scope="module")
def studio() -> Iterator[StandIn]:
    with label_studio() as studio:
        yield studio


@pytest.fixture(scope="module")
def address(module_server_process: Callable[..., Any]) -> str:
    return str(module_server_process().start().url)


@pytest.fixture
def arguments(request: pytest.FixtureRequest, studio: StandIn) -> list[str]:
    """Start the further services of an example; return the arguments with their addresses."""
    match NEEDS.get(request.param):
        case "redis":
            redis: RedisServer = request.getfixturevalue("redis_server")
            return [redis.url]
        case "label_studio":
            return ["--label-studio", studio.url, "--token", TOKEN]
        case _:
            return []


def test_every_example_shows_its_output() -> None:
    assert all(SHOWN.values())


@pytest.mark.parametrize(("name", "arguments"), [(name, name) for name in EXAMPLES], indirect=["arguments"], ids=str)
def test_an_example_prints_its_shown_output(name: str, arguments: list[str], address: str) -> None:
    assert_shown(name, run_example(name, address, *arguments))
