"""`manylabel snapshots` and `rollback` against a real server."""

import json
from collections.abc import Callable
from typing import Any

from manylabel_clients import Client

Command = Callable[..., Any]


def test_snapshots_are_taken_listed_and_rolled_back_to(manylabel: Command, client: Client, name: str) -> None:
    model = client.create_model(name)
    model.update({"a": 1.0}, ["x"])
    position = json.loads(manylabel("snapshots", name, "--take", "--json").checked().out)["position"]
    model.update_many([({"a": 1.0}, ["y"])] * 4)
    listed = manylabel("snapshots", name)
    assert (listed.status, position in listed.out) == (0, True)
    back = manylabel("rollback", name, position, "--yes")
    assert (back.status, back.out) == (0, f"{name} is back at {position}: 1 examples learnt\n")
    assert model.status().updates == 1
