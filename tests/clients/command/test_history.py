"""`manylabel log`, `rollback --at` and `models fork` against a real server."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from manylabel_clients import Client, Expired, NotFound

Command = Callable[..., Any]


def test_read_go_back_and_fork(manylabel: Command, client: Client, name: str) -> None:
    model = client.create_model(name)
    for i in range(5):
        model.update({"a": float(i)}, ["x" if i % 2 else "y"])
    told = manylabel("log", name)
    assert told.status == 0, told.err
    lines = [json.loads(line) for line in told.out.splitlines()]
    assert [line["examples"] for line in lines] == [
        [{"x": {"a": float(i)}, "y": ["x" if i % 2 else "y"]}] for i in range(5)
    ]
    second, moment = lines[1]["position"], lines[3]["time"]
    some = manylabel("log", name, "--from", second, "--to", lines[2]["position"])
    assert [json.loads(line) for line in some.out.splitlines()] == lines[2:3]
    assert client.model(name).log(limit=2) == lines[:2]

    forked = manylabel("models", "fork", f"{name[:50]}-fork", name, "--at", second)
    assert (forked.status, forked.out) == (0, f"created {name[:50]}-fork, as {name} was\n")
    fork = client.model(f"{name[:50]}-fork")
    assert fork.status().updates == 2
    fork.delete()

    back = manylabel("rollback", name, "--at", moment, "--yes")
    assert back.status == 0, back.err
    last = [line["position"] for line in lines if line["time"] <= moment][-1]
    assert back.out.startswith(f"{name} is back at {last}: ")
    assert (
        manylabel("rollback", name, "--at", second, "--yes").out == f"{name} is back at {second}: 2 examples learnt\n"
    )
    for wrong in (("rollback", name), ("rollback", name, "x", "--at", second)):
        assert manylabel(*wrong, "--yes").status == 2


def test_what_is_not_there_over_the_client(client: Client, name: str) -> None:
    model = client.create_model(name)
    model.update({"a": 1.0}, ["x"])
    with pytest.raises(NotFound, match="no entry at position"):
        model.log("999999")
    with pytest.raises(Expired, match="begins after position"):
        model.rollback("1999-01-01T00:00:00Z")
    with pytest.raises(NotFound):
        client.fork_model(f"{name[:50]}-fork", name, "999999")
