"""`manylabel forget` and `verify`."""

import json
from collections.abc import Callable
from typing import Any

from manylabel_clients import Client

Command = Callable[..., Any]


def test_examples_are_forgotten_and_the_receipt_is_shown(manylabel: Command, client: Client, name: str) -> None:
    model = client.create_model(name)
    model.update_many([({"a": 1}, ["p"]), ({"b": 1}, ["q"], None, None, "customer-1"), ({"c": 1}, ["r"])])
    done = manylabel("forget", name, "--ref", "customer-1", "--yes").checked()
    assert "1 example of 1 entry" in done.out
    assert [len(entry["examples"]) for entry in model.log()] == [2]
    assert model.status().updates == 2
    (receipt,) = model.receipts()
    assert receipt.id in done.out
    position = model.log()[0]["position"]
    shown = json.loads(manylabel("forget", name, "--position", position, "--yes", "--json").out)
    assert (shown["status"], shown["examples"], model.status().updates) == ("done", 2, 0)
    assert "has no such example" in manylabel("forget", name, "--ref", "nobody", "--yes").out


def test_a_history_is_verified(manylabel: Command, client: Client, name: str) -> None:
    model = client.create_model(name)
    model.update({"a": 1}, ["p"])
    done = manylabel("verify", name).checked()
    assert f"of {name} compared: equal to the replayed history" in done.out
    assert json.loads(manylabel("verify", name, "--json").out)["equal"]


def test_forget_needs_either_references_or_positions(manylabel: Command, client: Client, name: str) -> None:
    client.create_model(name)
    assert manylabel("forget", name, "--yes").status == 2
    assert manylabel("forget", name, "--ref", "a", "--position", "1", "--yes").status == 2
    missing = manylabel("forget", name, "--position", "77", "--yes")
    assert missing.status == 1
    assert "no entry at position 77" in missing.err
