"""`manylabel health` against a real server, and the call of the client."""

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from manylabel_clients import Client, Model

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


@pytest.fixture
def grown(client: Client, name: str) -> Model:
    """Return a model with two labels in two spellings, and a child of a label; a search has found these."""
    model = client.create_model(name)
    chance = random.Random(1)
    animals = ["big-cat", "Big cat", "poodle", "poodle", "dog", "horse", "HORSE", "horse"]
    for animal in chance.choices(animals, k=160):
        model.update({animal.lower(): 1.0, "all": 1.0}, ["poodle", "dog"] if animal == "poodle" else [animal])
    model.search_doubts().wait()
    return model


def names(model: Model) -> set[str]:
    return {each.label for each in model.labels().labels if not each.retired}


def test_suggestions_are_applied_dismissed_and_undone_by_typing(
    manylabel: Command, client: Client, grown: Model
) -> None:
    name = grown.name
    done = manylabel("health", name, "--apply", stdin="x\ny\nd\nn\n").checked()
    assert "the names differ only in spelling" in done.out
    assert "put poodle under dog: nearly all examples with the one also have the other" in done.out
    applied = re.search(rf"applied: merge (.+) into (.+) \(undo: manylabel undo {name} (\S+)\)", done.out)
    assert applied is not None
    assert applied[1] not in names(grown)
    assert "dismissed: merge" in done.out
    (left,) = grown.health().suggestions
    assert left.kind == "parent", "an answer of n leaves it"
    told = manylabel("undo", name, applied[3]).checked().out
    assert told.startswith("undone")
    assert applied[1] in names(grown)
    refused = manylabel("undo", name, applied[3])
    assert (refused.status, refused.out) == (1, "")
    for typed in ("q\n", ""):
        manylabel("health", name, "--apply", stdin=typed)
        assert applied[1] in names(grown)


def test_scripts_apply_and_dismiss_suggestions_about_a_label(manylabel: Command, client: Client, grown: Model) -> None:
    name = grown.name
    one = json.loads(manylabel("health", name, "--apply", "--label", "dog", "--yes", "--json").checked().out)
    assert one == {"kind": "parent", "label": "poodle", "other": "dog", "done": "applied", "position": one["position"]}
    assert grown.status().parents == {"poodle": "dog"}  # type: ignore[union-attr]
    assert (
        "dismissed: merge HORSE into horse" in manylabel("health", name, "--dismiss", "--label", "horse").checked().out
    )
    assert [each.into for each in grown.health().suggestions if each.kind == "name"] != ["horse"]
    for options in (("--apply", "--yes"), ("--dismiss",)):
        again = manylabel("health", name, *options, "--label", "dog")
        assert (again.status, again.out) == (1, "")
        assert "none of these suggestions " in again.err
    assert manylabel("health", name, "--label", "dog").checked().out.startswith("0 suggestions")
    applied = manylabel("health", name, "--apply", "--kind", "name", "--yes").checked().out
    assert applied.count("applied: ") == 1
    assert names(grown) == {"poodle", "dog", "horse", "HORSE", applied.split(" into ")[1].split(" (undo")[0]}


def test_a_dry_run_prints_metrics_without_and_with_the_change(manylabel: Command, client: Client, grown: Model) -> None:
    name = grown.name
    shown = manylabel("health", name, "--dry-run", "--label", "horse").checked()
    assert "merge HORSE into horse: " in shown.out
    assert "of 160 examples would have other labels" in shown.out
    assert all(f"F1 of {label}" in shown.out for label in ("HORSE", "horse"))
    assert "F1 if either name counts" in shown.out
    found = json.loads(manylabel("health", name, "--dry-run", "--label", "horse", "--json").checked().out)
    assert found["before"]["labels"].keys() == {"HORSE", "horse"}
    assert found["after"]["micro_f1"] > found["before"]["micro_f1"]
    assert {"HORSE", "horse"} <= names(grown)
    assert manylabel("health", name, "--dry-run", "--label", "unknown").status == 1


@pytest.mark.parametrize(
    "options",
    [("--apply", "--yes"), ("--dismiss",), ("--apply", "--json", "--label", "a"), ("--apply", "--dry-run")],
    ids=" ".join,
)
def test_unsafe_options_are_wrong_usage(manylabel: Command, options: tuple[str, ...]) -> None:
    assert manylabel("health", "any", *options).status == 2
