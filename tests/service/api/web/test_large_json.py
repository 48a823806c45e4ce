"""Large bodies are parsed in chunks: the same values, the same errors, and other tasks run in between."""

import asyncio
import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from tests.support.cases import for_each

from manylabel_service.api.web import large_json
from manylabel_service.api.web.bodies import json_value
from manylabel_service.api.web.large_json import LARGE_BYTES, MAX_CONTAINERS, PIECE_BYTES, read_value
from manylabel_service.api.web.problems import Problem


def value(raw: bytes) -> Any:
    return asyncio.run(read_value(raw))


@cache
def examples(n: int, seed: int = 0) -> list[Any]:
    """Return examples whose strings look like the text between examples."""
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


@for_each(
    "document",
    [
        {"x": {f"f{i}": 0.5 for i in range(10_000)}},
        {"probabilities": True, "examples": examples(500)},
        {"examples": [{"x": {f"f{i}": {"a": i} for i in range(10_000)}}]},
        {"examples": [0.5] * 50_000},
        {"examples": [[{"a": 1}, {"b": 1}]] * 10_000},
        {"examples": {"a": examples(500)}},
        examples(500),
        {"examples": examples(500), "z": [{"a": 1}, {"b": 2}]},
        "}," * 100_000,
    ],
)
def test_a_large_body_has_the_value_of_a_small_one(document: Any) -> None:
    for separators in ((",", ":"), (" ,\n ", " :\t")):
        for ascii_only in (True, False):
            raw = json.dumps(document, separators=separators, ensure_ascii=ascii_only).encode()
            assert len(raw) >= LARGE_BYTES
            assert value(raw) == document


@for_each("at", [0.1, 0.5, 0.999])
@for_each("wrong", [b"{,", b"]", b"}", b'"', b"\x00", b"\xff", b'{"a": 1, "a": 2}, ', b"nul", b"[" * 300, b'{"a": 1} '])
def test_bad_json_gets_the_error_of_a_small_body(at: float, wrong: bytes) -> None:
    raw = json.dumps({"examples": examples(500)}).encode()
    between = raw.index(b'}, {"x"', int(at * len(raw) - 2_000)) + 3
    broken = raw[:between] + wrong + raw[between:]
    with pytest.raises(Problem) as expected:
        json_value(broken, "the body")
    with pytest.raises(Problem) as found:
        value(broken)
    if wrong == b"[" * 300:  # the parser counts the elements before it at that depth
        assert found.value.detail.rpartition(" ")[0] == expected.value.detail.rpartition(" ")[0]
    else:
        assert found.value.detail == expected.value.detail
    assert found.value.code == expected.value.code


@for_each("tail", [b", ]}", b', "examples": []}', b'], "examples": []}', b'], "a": 1, "a": 2}', b"]} {}", b"]", b"],}"])
def test_text_after_the_examples_is_checked(tail: bytes) -> None:
    raw = json.dumps({"examples": examples(500)}).encode()[:-2] + tail
    with pytest.raises(Problem, match="the body is not JSON"):
        value(raw)


@for_each(
    ("wrong", "words"),
    [
        (b'"\\ud83d"', "half an emoji"),
        (b'"\\ud83dA"', "half an emoji"),
        (b'"caf\xe9"', "bytes that are not UTF-8, such as Latin-1"),
    ],
)
def test_errors_of_text_name_the_cure_in_a_body_of_any_size(wrong: bytes, words: str) -> None:
    for raw in (b'{"x":%b}' % wrong, json.dumps({"examples": examples(500)}).encode()[:-2] + b"," + wrong + b"]}"):
        with pytest.raises(Problem, match=words):
            value(raw)


def test_a_byte_order_mark_is_skipped_and_utf_16_is_named() -> None:
    for document in ({"x": "é"}, {"examples": examples(500)}):
        text = json.dumps(document)
        assert value(text.encode("utf-8-sig")) == document
        for encoding in ("utf-16", "utf-16-be", "utf-16-le", "utf-32"):
            with pytest.raises(Problem, match="the body is not UTF-8, but seems to be UTF-16"):
                value(text.encode(encoding))


SHAPES = {
    "numbers": b"[" + b"1," * 2**20 + b"1]",
    "names": b"{" + b",".join(b'"%06d":1' % i for i in range(2**17)) + b"}",
    "objects": b'{"a":[' + b",".join([b'{"x":{"a":[1,{"b":"%s"}]}}' % (b"c" * 50)] * 2**14) + b"]}",
    "rows": b'{"a":{"b":[' + b",".join([b"[" + b"1," * 50 + b"1]"] * 2**13) + b"]}}",
    "strings": b"[" + b",".join([rb'"},\"\\"'] * 2**17) + b"]",
    "depth": b"[" + b",".join([b"[" * 50 + b"1," * 2**9 + b"1" + b"]" * 50] * 2**8) + b"]",
}


@for_each("shape", SHAPES)
def test_other_tasks_run_between_chunks(shape: str) -> None:
    raw = SHAPES[shape]

    async def turns_of_others() -> tuple[int, Any]:
        reading = asyncio.create_task(read_value(raw))
        turns = 0
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
        return turns, reading.result()

    turns, found = asyncio.run(turns_of_others())
    assert turns > len(raw) / PIECE_BYTES / 2
    assert found == json.loads(raw)


@for_each("unit", [b"[]", b"{}", b'{"":0}', b"[" * 100 + b"]" * 100, b'{"":' * 100 + b"0" + b"}" * 100])
def test_the_number_of_lists_and_objects_is_limited(unit: bytes) -> None:
    with pytest.raises(Problem) as refused:
        value(b"[" + b",".join([unit] * (2**21 // len(unit))) + b"]")
    assert refused.value.code == "body_too_large"
    assert "no setting changes this limit" in refused.value.detail


def test_lists_and_objects_up_to_the_limit_are_read() -> None:
    raw = b"[" + b",".join([b"[]"] * (MAX_CONTAINERS - 1)) + b"]"
    assert value(raw) == [[]] * (MAX_CONTAINERS - 1)


def text(rng: random.Random, depth: int = 0) -> str:
    """Return random JSON with spaces, escapes, and strings that look like the text between values."""
    kind = rng.randrange(7 if depth < 6 else 3)
    space = rng.choice(["", "", " ", "\n", "\t "])
    if kind < 3:
        strings = ['"},{"', r'"\"],["', r'"\\"', '"Ä,"', '""', f'"{"," * rng.randrange(200)}"']
        return space + rng.choice([*strings, "0.5", "-1e3", "null", "true"]) + space
    items = [text(rng, depth + 1) for _ in range(rng.randrange(12 if depth < 3 else 4))]
    if kind < 5:
        return f"{space}[{space}{','.join(items)}]"
    fields = (f'{space}"k{i}"{space}:{item}' for i, item in enumerate(items))
    return f"{space}{{{','.join(fields)}{space}}}"


def outcome(parse: Callable[[bytes], Any], raw: bytes) -> Any:
    """Return the parsed value, or the code of the problem."""
    try:
        return parse(raw)
    except Problem as problem:
        return problem.code


@pytest.mark.parametrize("seed", range(20))
def test_chunks_of_any_size_give_the_same_outcome(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(large_json, "LARGE_BYTES", 0)
    monkeypatch.setattr(large_json, "PIECE_BYTES", rng.choice([1, 7, 100, 1_000]))
    raw = text(rng).encode()
    assert value(raw) == json_value(raw, "the body")
    for _ in range(20):
        at = rng.randrange(len(raw) + 1)
        wrong = rng.choice([b",", b"]", b"}", b"[", b"{", b":", b'"', b"\\", b"1", b""])
        broken = raw[:at] + wrong + raw[at + rng.randrange(3) :]
        assert outcome(value, broken) == outcome(lambda text: json_value(text, "the body"), broken)
