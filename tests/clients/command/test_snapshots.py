"""`manylabel snapshots` and `rollback` against a real server."""

import json
from collections.abc import Callable
from typing import Any

from manylabel_clients import Client

Command = Callable[..., Any]


def test_snapshots_are_taken_listed_rolled_back_to_and_deleted(manylabel: Command, client: Client, name: str) -> None:
    model = client.create_model(name)
    model.update({"a": 1.0}, ["x"])
    taken = manylabel("snapshots", name, "--take", "--name", "before-cleanup", "--note", "by hand", "--json").checked()
    snapshot = json.loads(taken.out)
    assert (snapshot["name"], snapshot["note"], snapshot["manual"]) == ("before-cleanup", "by hand", True)
    model.update_many([({"a": 1.0}, ["y"])] * 4)
    listed = manylabel("snapshots", name)
    assert listed.status == 0
    for fact in ("before-cleanup", "until deleted", "by hand"):
        assert fact in listed.out
    back = manylabel("rollback", name, "before-cleanup", "--yes")
    assert (back.status, back.out) == (0, f"{name} is back at {snapshot['position']}: 1 examples learnt\n")
    assert model.status().updates == 1
    model.update({"a": 1.0}, ["x"])
    assert manylabel("rollback", name, snapshot["position"], "--yes").status == 0, "by its position as well"
    assert manylabel("snapshots", name, "--delete", "before-cleanup").status == 0
    gone = manylabel("snapshots", name, "--delete", "before-cleanup")
    assert (gone.status, "has no snapshot" in gone.err) == (1, True)
    assert manylabel("snapshots", name, "--name", "x").status == 2
