"""Names that differ only in case, spaces or Unicode form."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from manylabel_core import Vocabulary
from manylabel_core.alike import AlikeNames, spelling


@for_each("other", ["sport", " Sport", "SPORT ", "Sport\u00a0", "\ufeffSport", "Spo\u00adrt", "sPoRt\t"])
def test_these_are_alike(other: str) -> None:
    assert spelling(other) == spelling("Sport")


@for_each(
    "one, other",
    [
        ("Heavy  Metal", "heavy\u00a0metal"),
        ("cafe\u0301", "CAF\u00c9"),
        ("Stra\u00dfe", "STRASSE"),
        ("\u0345\u0301a", "\u0301\u0345a"),
    ],
)
def test_so_are_these(one: str, other: str) -> None:
    assert spelling(one) == spelling(other)


@for_each(
    "one, other", [("C", "C++"), ("10\u00b2", "102"), ("heavymetal", "heavy metal"), ("e", "\u00e9"), ("a-b", "a b")]
)
def test_these_are_not_alike(one: str, other: str) -> None:
    assert spelling(one) != spelling(other)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=8))
def test_forms_of_a_name_are_alike(name: str) -> None:
    common = spelling(name)
    assert common == spelling(common) == spelling(unicodedata.normalize("NFD", name)) == spelling(f" {name}  ")


def test_groups_grow_with_the_vocabulary() -> None:
    names, alike = Vocabulary(["a", "b"]), AlikeNames()
    alike.read(names)
    assert alike.groups() == []
    names.add(["A", "c", "a "])
    alike.read(names)
    alike.read(names)
    assert alike.groups() == [["a", "A", "a "]]
    assert [alike.earlier(name) for name in ("a", "A", "a ", "b", "B")] == [None, "a", "a", None, None]
    assert (alike.groups({"a"}), alike.groups({"a", "A"})) == ([["A", "a "]], [])
    assert (alike.earlier("a ", {"a"}), alike.earlier("a ", {"a", "A"})) == ("A", None)
