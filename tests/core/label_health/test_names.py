"""Names that differ in spelling, in number or in a letter."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manylabel_core.label_health import names
from manylabel_core.label_health.names import one_slip, plain, similar_names, singular


def likeness(*both):
    return {pair.likeness for pair in similar_names(dict(enumerate(both)), range(len(both)))}


@pytest.mark.parametrize(
    "both",
    [
        ("Heavy Metal", "heavy-metal"),
        ("heavy_metal", " heavymetal"),
        ("caf\u00e9", "cafe\u0301"),
        ("Caf\u00e9", "cafe"),
        ("\uff37\uff29\uff24\uff25", "wide"),
        ("\uff76\uff9e", "\u30ac"),  # half-width ga in two characters
        ("Stra\u00dfe", "STRASSE"),
        ("\u0130zmir", "izmir"),
        ("soft\u00adhyphen", "softhyphen"),
        ("\u2764\ufe0f love", "\u2764 love"),
    ],
)
def test_the_same_name_in_another_spelling(both):
    assert likeness(*both) == {"spelling"}


@pytest.mark.parametrize(
    "both",
    [
        ("c", "c++"),
        ("c", "c#"),
        ("python2", "python3"),
        ("python 2", "python 3"),
        ("v1.5", "v15"),
        ("1-2", "12"),
        ("10\u00b2", "102"),
        ("\u00bd cup", "12 cup"),
        ("???", "!!!"),
        ("\U0001f600", "\U0001f63a"),
        ("cats \U0001f600", "cats"),
        ("\u0915\u093f", "\u0915\u093e"),  # Devanagari ki and ka
        ("lot", "dot"),  # too short for a slip
        ("class", "clas"),
        ("virus", "viru"),
        ("cats1", "cats2"),
    ],
)
def test_different_names(both):
    assert likeness(*both) <= ({"slip"} if both == ("virus", "viru") else set())


@pytest.mark.parametrize(
    ("both", "kind"),
    [
        (("news", "new"), "plural"),  # a plural needs evidence
        (("category", "categories"), "plural"),
        (("pets", "Pet"), "plural"),
        (("koira", "koirat"), "slip"),  # Finnish plural
        (("\u0131\u015f\u0131klar", "i\u015f\u0131klar"), "slip"),  # dotless i
        (("recieve", "receive"), "slip"),
        (("photo", "photoo"), "slip"),
        (("python", "pyton"), "slip"),
    ],
)
def test_a_difference_that_needs_evidence(both, kind):
    assert likeness(*both) == {kind}
    assert likeness(*reversed(both)) == {kind}


def test_all_spellings_are_paired_with_the_most_used_one():
    pairs = similar_names({0: "A b", 1: "a-b", 2: "ab", 3: "abs"}, [2, 0, 1, 3])
    assert {(pair.first, pair.second) for pair in pairs if pair.likeness == "spelling"} == {(0, 2), (1, 2)}


def test_names_that_one_letter_distinguishes(monkeypatch):
    monkeypatch.setattr(names, "MAX_NEAR", 3)
    labels = {n: "section" + letter for n, letter in enumerate("abcd")}
    assert similar_names(labels, range(4)) == []
    assert len(similar_names({n: labels[n] for n in range(3)}, range(3))) == 3


@given(st.text())
def test_a_plain_form_is_its_own(name):
    text = plain(name)
    assert plain(text) == text
    assert plain(unicodedata.normalize("NFC", name)) == plain(unicodedata.normalize("NFD", name)) == text


@given(st.text(), st.text())
def test_slips_are_mutual(one, other):
    assert one_slip(one, other) == one_slip(other, one)


@given(st.text("abcdefgh", min_size=6), st.data())
def test_a_letter_less_is_a_slip(name, data):
    at = data.draw(st.integers(0, len(name) - 1))
    assert one_slip(name, name[:at] + name[at + 1 :])
    assert likeness(name, name[:at] + name[at + 1 :]) & {"slip", "plural"}


def test_singular():
    assert [singular(each) for each in ("pets", "ladies", "bus", "glass", "gas", "c3s")] == [
        *("pet", "lady", "bus", "glass", "gas", "c3s"),
    ]
