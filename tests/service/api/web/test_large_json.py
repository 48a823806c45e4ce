"""Large bodies in pieces: the same values, the same refusals, and others get in between."""

import asyncio
import gc
import json
import random
import time
from typing import Any

import pytest

from manylabel_service.api.web.bodies import json_value
from manylabel_service.api.web.large_json import PIECE_BYTES, read_value
from manylabel_service.api.web.problems import Problem
from manylabel_service.api.web.turns import LARGE_BYTES


def value(raw: bytes) -> Any:
    return asyncio.run(read_value(raw))


def examples(n: int, seed: int = 0) -> list[Any]:
    """Examples whose strings look like what is between examples."""
    rng = random.Random(seed)
    names = ["a", "}, {", "},", '"},', "]}", "\\", '\\"},{"', "Ä", "\U0001f600", "},{" * 50]
    return [
        {
            "x": {f"{rng.choice(names)}{i}": rng.random() for i in range(rng.randrange(30))},
            "y": [rng.choice(names) for _ in range(rng.randrange(5))],
            "deep": [{"a": [{}, {"b": 1}]}, {}, [[{"c": None}, 1]]],
        }
        for _ in range(n)
    ]


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n ", " :\t")])
@pytest.mark.parametrize("more", [{}, {"probabilities": True, "z": [{"a": 1}, {"b": 2}]}])
def test_values_are_the_same(separators: tuple[str, str], more: dict[str, Any]) -> None:
    for ascii_only in (True, False):
        document = {"examples": examples(500), **more}
        raw = json.dumps(document, separators=separators, ensure_ascii=ascii_only).encode()
        assert len(raw) > 2 * PIECE_BYTES
        assert value(raw) == document == json_value(raw, "the body")


@pytest.mark.parametrize(
    "document",
    [
        {"x": {f"f{i}": 0.5 for i in range(10_000)}},
        {"probabilities": True, "examples": examples(500)},
        {"examples": [{"x": {f"f{i}": {"a": i} for i in range(10_000)}}]},
        {"examples": [0.5] * 50_000},
        {"examples": [[{"a": 1}, {"b": 1}]] * 10_000},
        {"examples": {"a": examples(500)}},
        examples(500),
        "}," * 100_000,
    ],
)
def test_other_bodies_are_read_too(document: Any) -> None:
    raw = json.dumps(document).encode()
    assert len(raw) >= LARGE_BYTES
    assert value(raw) == document


@pytest.mark.parametrize("at", [0.1, 0.5, 0.999])
@pytest.mark.parametrize(
    "wrong", [b"{,", b"]", b"}", b'"', b"\x00", b"\xff", b'{"a": 1, "a": 2}, ', b"nul", b"[" * 300, b'{"a": 1} ']
)
def test_what_is_no_json_is_told_as_of_a_small_body(at: float, wrong: bytes) -> None:
    raw = json.dumps({"examples": examples(500)}).encode()
    between = raw.index(b'}, {"x"', int(at * len(raw) - 2_000)) + 3
    broken = raw[:between] + wrong + raw[between:]
    with pytest.raises(Problem) as expected:
        json_value(broken, "the body")
    with pytest.raises(Problem) as found:
        value(broken)
    assert (found.value.code, found.value.detail) == (expected.value.code, expected.value.detail)


@pytest.mark.parametrize(
    "tail", [b", ]}", b', "examples": []}', b'], "examples": []}', b'], "a": 1, "a": 2}', b"]} {}", b"]", b"],}"]
)
def test_what_follows_the_examples_is_looked_at(tail: bytes) -> None:
    raw = json.dumps({"examples": examples(500)}).encode()[:-2] + tail
    with pytest.raises(Problem, match="the body is not JSON"):
        value(raw)


def test_others_get_in_between() -> None:
    raw = json.dumps({"examples": [{"x": {f"f{i}": 0.5 for i in range(50)}}] * 10_000}).encode()

    async def longest_wait() -> float:
        reading = asyncio.create_task(read_value(raw))
        longest = 0.0
        while not reading.done():
            begun = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - begun)
        return longest

    begun = time.thread_time()
    json_value(raw, "the body")
    whole = time.thread_time() - begun
    gc.disable()  # it would walk all that earlier tests have left
    try:
        assert asyncio.run(longest_wait()) < whole / 10
    finally:
        gc.enable()
