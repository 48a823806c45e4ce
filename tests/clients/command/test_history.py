"""`manylabel log`, `rollback`, `models fork`, `snapshots`, `forget` and `verify` against a real server."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from manylabel_clients import Client, Conflict

Command = Callable[..., Any]


def test_the_log_is_read_rolled_back_and_forked(manylabel: Command, client: Client, name: str) -> None:
    model = client.create_model(name)
    for i in range(5):
        model.update({"a": float(i)}, ["x" if i % 2 else "y"])
    told = manylabel("log", name).checked()
    lines = [json.loads(line) for line in told.out.splitlines()]
    assert [line["examples"] for line in lines] == [
        [{"x": {"a": float(i)}, "y": ["x" if i % 2 else "y"]}] for i in range(5)
    ]
    second, moment = lines[1]["position"], lines[3]["time"]
    some = manylabel("log", name, "--from", second, "--to", lines[2]["position"])
    assert [json.loads(line) for line in some.out.splitlines()] == lines[2:3]
    assert client.model(name).log(limit=2) == lines[:2]

    forked = manylabel("models", "fork", f"{name[:50]}-fork", name, "--at", second)
    assert (forked.status, forked.out) == (0, f"created {name[:50]}-fork from the state of {name}\n")
    fork = client.model(f"{name[:50]}-fork")
    assert fork.status().updates == 2
    fork.delete()

    back = manylabel("rollback", name, "--at", moment, "--yes").checked()
    last = [line["position"] for line in lines if line["time"] <= moment][-1]
    assert back.out.startswith(f"{name} is back at {last}: ")
    assert (
        manylabel("rollback", name, "--at", second, "--yes").out == f"{name} is back at {second}: 2 examples learnt\n"
    )
    for wrong in (("rollback", name), ("rollback", name, "x", "--at", second)):
        assert manylabel(*wrong, "--yes").status == 2


def test_a_log_is_replayed_with_other_parameters(manylabel: Command, client: Client, name: str) -> None:
    model = client.create_model(name)
    for i in range(20):
        model.update({"a": float(i % 3), "b": float(i % 5)}, ["x" if i % 3 else "y"])
    options = ("replay", name, "--algorithm", "salt", "--param", "eta=0.5,1", "--param", "optimise=macro_f1")
    told = manylabel(*options).checked()
    for title in ("eta=0.5", "eta=1", "micro-F1"):
        assert title in told.out
    assert [each.name for each in client.models() if each.name.startswith(name[:48])] == [name]

    told = manylabel(*options, "--keep", "--json").checked()
    found = [json.loads(line) for line in told.out.splitlines()]
    assert [each["params"].get("eta") for each in found[1:]] == [0.5, 1]
    followers = [each for each in client.models() if getattr(each, "follow", None)]
    assert [each.follow["model"] for each in followers if getattr(each, "follow", None)] == [name, name]
    assert client.model(followers[0].name).metrics().cumulative.examples == 20
    model.delete(followers=True)
    assert name not in [each.name for each in client.models()]
    many = ("--param", "eta=1,2,3", "--param", "passes=1,2,3")
    assert manylabel("replay", name, *many).status == 2


def test_a_follower_is_created_and_promoted(manylabel: Command, client: Client, name: str) -> None:
    model = client.create_model(name)
    model.update({"a": 1.0}, ["x"])
    other = f"{name[:50]}-f"
    told = manylabel("models", "create", other, "--algorithm", "salt", "--follow", name)
    assert (told.status, told.out) == (0, f"created {other}, which follows {name}\n")
    assert client.model(other).status().updates == 1
    assert f"{name}, from position 0" in manylabel("models", "show", other).out
    told = manylabel("models", "promote", other)
    assert (told.status, told.out) == (0, f"{other} leads now, as {name}, with salt: 1 examples learnt\n")
    assert model.status().algorithm == "salt"
    assert manylabel("models", "promote", name).status == 1
    with pytest.raises(Conflict):
        model.delete()
    assert manylabel("models", "create", f"{other}g", "--from", "now").status == 2
    assert manylabel("models", "delete", name, "--followers", "--yes").status == 0


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
    asked = manylabel("forget", name, "--position", position)
    assert f"Forget all examples of {name} at position {position}, permanently?" in asked.out + asked.err
    assert model.status().updates == 2
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
