"""Vocabulary: columns in order of first appearance, and the way to arrays and back."""

import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from manylabel_core.vocabulary import Vocabulary

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)  # all of Unicode but surrogates


@given(st.lists(st.lists(NAMES, max_size=8)))
def test_columns_follow_first_appearance(batches: list[list[str]]) -> None:
    vocabulary, order = Vocabulary(), []
    for batch in batches:
        order += [name for name in dict.fromkeys(batch) if name not in order]
        assert vocabulary.add(batch) == [order.index(name) for name in batch]
        assert vocabulary.names == tuple(order)
    assert len(vocabulary) == len(order)
    assert vocabulary.lookup(order) == [vocabulary.get(name) for name in order] == list(range(len(order)))


@given(st.lists(NAMES), NAMES)
def test_lookup_adds_nothing(names: list[str], name: str) -> None:
    vocabulary = Vocabulary(names)
    expected = vocabulary.names.index(name) if name in names else None
    assert vocabulary.get(name) == expected
    assert vocabulary.lookup([name, name]) == [-1 if expected is None else expected] * 2
    assert (name in vocabulary) == (name in names)
    assert vocabulary.unknown([name, *names, name]) == ([] if name in names else [name, name])
    assert vocabulary.names == tuple(dict.fromkeys(names))


@given(st.lists(NAMES), st.lists(NAMES))
def test_arrays_give_the_vocabulary_back(names: list[str], later: list[str]) -> None:
    vocabulary = Vocabulary(names)
    again = Vocabulary.from_state(vocabulary.state())
    assert again == vocabulary
    assert again.add(later) == vocabulary.add(later)
    assert again.names == vocabulary.names


@for_each("names", [[], [""], ["", "\0", "\0\0"], ["é", "e\u0301", "日本", "👩‍🔬", "a b"]])
def test_arrays_of_unusual_names(names: list[str]) -> None:
    arrays = Vocabulary(names).state()
    assert arrays["bytes"].tobytes() == "".join(names).encode()
    assert arrays["offsets"].tolist() == [len("".join(names[:i]).encode()) for i in range(len(names) + 1)]
    assert Vocabulary.from_state(arrays).names == tuple(names)


@for_each("batch", [["new", "\ud800"], ["new", None], ["new", 7], [b"new", "x"]])
def test_a_bad_name_adds_nothing(batch: list[str]) -> None:
    vocabulary = Vocabulary(["old"])
    with pytest.raises((ValueError, TypeError), match="a name must be"):
        vocabulary.add(batch)
    assert vocabulary.names == ("old",)


def _arrays(data: bytes, offsets: list[int]) -> dict[str, np.ndarray]:
    return {"bytes": np.frombuffer(data, dtype=np.uint8), "offsets": np.array(offsets, dtype=np.int64)}


@for_each(
    ("arrays", "field"),
    [
        (_arrays(b"ab", []), "offsets"),
        (_arrays(b"ab", [1, 2]), "offsets"),
        (_arrays(b"ab", [0, 1]), "offsets"),
        (_arrays(b"ab", [0, 3]), "offsets"),
        (_arrays(b"ab", [0, 2, 1, 2]), "offsets"),
        (_arrays(b"aa", [0, 1, 2]), "bytes"),
        (_arrays(b"", [0, 0, 0]), "bytes"),
        (_arrays("é".encode(), [0, 1, 2]), "bytes"),
        (_arrays(b"\xff", [0, 1]), "bytes"),
        (_arrays(b"\xed\xa0\x80", [0, 3]), "bytes"),
        ({"bytes": np.zeros(2, np.uint8)}, "offsets"),
        ({"bytes": np.zeros(2, np.int8), "offsets": np.array([0, 2])}, "bytes"),
        ({"bytes": np.zeros((1, 2), np.uint8), "offsets": np.array([0, 1])}, "bytes"),
        ({"bytes": np.zeros(2, np.uint8), "offsets": np.array([0.0, 2.0])}, "offsets"),
    ],
)
def test_bad_arrays_are_refused(arrays: dict[str, np.ndarray], field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        Vocabulary.from_state(arrays)


def test_nbytes_is_near_the_memory_taken() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        vocabulary = Vocabulary(f"word={i}" for i in range(20_000))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.8 * taken < vocabulary.nbytes < 1.2 * taken


def test_equality() -> None:
    assert Vocabulary(["a", "b"]) == Vocabulary(["a", "b", "a"])
    assert Vocabulary(["a", "b"]) != Vocabulary(["b", "a"])
    assert Vocabulary(["a"]) != ("a",)


def test_a_name_can_be_changed() -> None:
    names = Vocabulary(["a", "bb", "c"])
    assert names.names == ("a", "bb", "c")
    assert names.rename("bb", "dddd") == 1
    assert names.names == ("a", "dddd", "c")
    assert names.lookup(["bb", "dddd"]) == [-1, 1]
    assert names.nbytes == Vocabulary(["a", "dddd", "c"]).nbytes + sys.getsizeof(names.names) - sys.getsizeof(())
    for name, new in (("x", "y"), ("a", "c"), ("a", "\ud800")):
        with pytest.raises(ValueError):  # noqa: PT011  (several messages)
            names.rename(name, new)
    assert names.names == ("a", "dddd", "c")
