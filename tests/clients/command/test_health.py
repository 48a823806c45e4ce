"""`manylabel health` against a real server, and the call of the client."""

import json
from collections.abc import Callable
from typing import Any

from manylabel_clients import Client

Command = Callable[..., Any]


def test_suggestions_are_listed(manylabel: Command, client: Client, name: str) -> None:
    model = client.create_model(name)
    for n in range(24):
        model.update({"a": 1.0}, ["Big cat" if n % 3 else "big-cat"])
    told = manylabel("health", name).checked().out
    assert "without a search" in told
    assert all(word in told for word in ("spelling", "Big cat", "big-cat", "8 / 16"))
    told = manylabel("health", name, "--search").checked().out
    assert "24 examples" in told
    assert [each["label"] for each in json.loads(manylabel("health", name, "--json").checked().out)["suggestions"]] == [
        "big-cat"
    ]
    assert model.health("pause").suggestions == []
    assert manylabel("health", name, "--kind", "retire").status == 2

    (suggestion,) = model.health().suggestions
    assert model.dismiss(suggestion).updates == 24
    assert model.health().suggestions == []
    assert "0 suggestions" in manylabel("health", name).checked().out
