"""`manylabel compare`: two models on a labelled file, and on the stream that both have learnt."""

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manylabel_clients import Client

Command = Callable[..., Any]


def rows(n: int, seed: int) -> list[tuple[dict[str, float], list[str]]]:
    rng = random.Random(seed)
    found = []
    for _ in range(n):
        a, b = rng.uniform(-1, 1), rng.uniform(-1, 1)
        found.append(({"a": a, "b": b}, [name for name, value in (("p", a), ("q", b)) if value > 0]))
    return found


@pytest.fixture
def both(client: Client) -> Any:
    """A model that has learnt from both features, and one that has seen the first only."""
    names = ("whole", "half")
    for name in names:
        client.create_model(name, algorithm="falt", window=100)
    stream = rows(600, 1)
    client.model("whole").update_many(stream)
    client.model("half").update_many([({"a": x["a"]}, y) for x, y in stream])
    yield names
    for name in names:
        client.model(name).delete()


def test_models_are_compared_on_a_file(manylabel: Command, both: tuple[str, str], tmp_path: Path) -> None:
    whole, half = both
    file = tmp_path / "test.csv"
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["a", "b", "p", "q"])
        writer.writerows([x["a"], x["b"], int("p" in y), int("q" in y)] for x, y in rows(200, 2))
    told = json.loads(manylabel("compare", half, whole, "--data", str(file), "--labels", "2", "--json").out)
    assert (told["first"], told["second"], told["examples"]) == (half, whole, 200)
    micro = told["metrics"]["micro_f1"]
    assert micro["difference"] == micro["second"] - micro["first"]
    assert 0 < micro["low"] < micro["difference"] < micro["high"]
    same = json.loads(manylabel("compare", whole, whole, "--data", str(file), "--labels", "2", "--json").out)
    assert all(one["low"] == one["high"] == 0 for one in same["metrics"].values())
    assert "95 % interval" in manylabel("compare", half, whole, "--data", str(file), "--labels", "2").out


def test_models_are_compared_on_their_stream(manylabel: Command, both: tuple[str, str]) -> None:
    whole, half = both
    told = json.loads(manylabel("compare", half, whole, "--json").out)
    micro = told["metrics"]["micro_f1"]
    assert told["examples"] == 600
    assert 0 < micro["low"] < micro["difference"] < micro["high"]
    refused = manylabel("compare", f"{whole}@1", half)
    assert (refused.status, "--data" in refused.err) == (1, True)
    assert manylabel("compare", f"{whole}@one", half).status == 1
