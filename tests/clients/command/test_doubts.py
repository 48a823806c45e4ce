"""`manylabel doubts` against a real server, and the calls of the client."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from manylabel_clients import Client, NotFound

Command = Callable[..., Any]


def test_doubts_are_searched_and_listed(manylabel: Command, client: Client, name: str) -> None:
    model = client.create_model(name)
    for n in range(30):
        animal = ("cat", "dog", "fish")[n % 3]
        model.update({animal: 1.0, f"w{n % 4}": 1.0}, [animal])
    at = model.update({"dog": 1.0}, []).position
    with pytest.raises(NotFound):
        model.doubts()
    assert manylabel("doubts", name).status == 1

    told = manylabel("doubts", name, "--search", "--top", "1").checked()
    assert f"{at}/0" in told.out
    assert "dog" in told.out
    listed = json.loads(manylabel("doubts", name, "--json").checked().out)
    first = listed["doubts"][0]
    assert (first["position"], first["label"], first["for"][0]["feature"]) == (at, "dog", "dog")
    assert manylabel("doubts", name, "--kind", "other").status == 2

    assert model.correct(at, {"dog": True}).updates == 32
    assert (at, "dog") not in [(doubt.position, doubt.label) for doubt in model.doubts().doubts]
    done = model.search_doubts(label="dog").wait()
    assert (done.state, done.trainer, done.result) == ("succeeded", "doubts", None)


@pytest.mark.parametrize(
    ("typed", "updates", "checked"),
    [
        ("y\n", 32, 1),
        ("n\n", 31, 1),
        ("x\ny\n", 32, 1),
        ("s\n", 31, 0),
        ("q\n", 31, 0),
        ("u\n", 31, 0),
    ],
    ids=["corrected", "confirmed", "no answer", "skipped", "quit", "nothing before"],
)
def test_doubts_are_checked_by_typing(
    manylabel: Command, client: Client, name: str, typed: str, updates: int, checked: int
) -> None:
    model = client.create_model(name)
    for n in range(30):
        animal = ("cat", "dog", "fish")[n % 3]
        model.update({animal: 1.0, f"w{n % 4}": 1.0}, [animal])
    model.update({"dog": 1.0}, [], ref="photo\x1b 7")
    model.search_doubts().wait()
    assert manylabel("doubts", name, "--correct", "--json").status == 2
    done = manylabel("doubts", name, "--correct", "--top", "1", stdin=typed).checked()
    assert "example:  photo  7" in done.out
    assert "label:    dog, which was not given" in done.out
    assert done.out.endswith(f"{checked} checked\n")
    status = model.status()
    assert status.updates == updates
    left = [(doubt.ref, doubt.label) for doubt in model.doubts(top=1).doubts]
    assert (("photo\x1b 7", "dog") in left) == (not checked)
