"""Keys as text, patterns of names, and permissions."""

import pytest
from tests.support.cases import for_each

from manylabel_service.access import key_text
from manylabel_service.access.grant import Access, Patterns, is_pattern
from manylabel_service.errors import ModelNotAllowed, ScopeMissing


def test_a_key_is_parsed() -> None:
    made = [key_text.make() for _ in range(100)]
    assert len({key.id for key in made}) == len({key.secret for key in made}) == 100
    for key in made:
        assert key_text.parse(str(key)) == key
        assert key.secret not in repr(key)


@for_each("change", [str.upper, lambda t: t[1:], lambda t: t + "\n", lambda t: t.replace("_", "-")])
def test_a_changed_key_is_not_parsed(change: object) -> None:
    assert callable(change)
    assert key_text.parse(change(str(key_text.make()))) is None


def test_a_secret_is_verified_by_its_hash() -> None:
    secret = key_text.make().secret
    digest = key_text.digest_of(secret)
    assert len(digest) == 32
    assert key_text.is_secret(secret, digest)
    assert not key_text.is_secret(secret[::-1], digest)
    assert not key_text.is_secret(secret, key_text.DIGEST_OF_NONE)
    assert not key_text.is_secret("", key_text.DIGEST_OF_NONE)


@for_each("pattern", ["tags", "t", "tags-*", "*", "t*", "tags.*", "a" * 64, "a" * 63 + "*"])
def test_valid_patterns(pattern: str) -> None:
    assert is_pattern(pattern)


@for_each("pattern", ["", "Tags", "tags-", "-tags*", "**", "t*s", "*s", "a" * 65, "tags *", "tags\n"])
def test_invalid_patterns(pattern: str) -> None:
    assert not is_pattern(pattern)


@for_each(
    ("given", "matching", "others"),
    [
        (["tags"], ["tags"], ["tag", "tags-1", ""]),
        (["tags-*"], ["tags-", "tags-1"], ["tags", "news"]),
        (["*"], ["tags", "news"], []),
        (["a", "b*"], ["a", "b", "bc"], ["ab", "c"]),
        ([], [], ["tags"]),
    ],
)
def test_patterns_match_names(given: list[str], matching: list[str], others: list[str]) -> None:
    assert all(map(Patterns(given).match, matching))
    assert not any(map(Patterns(given).match, others))


@pytest.mark.parametrize(
    ("given", "included", "others"),
    [
        (["tags"], ["tags"], ["tags*", "tag", "*"]),
        (["tags-*"], ["tags-*", "tags-en", "tags-en*"], ["tags*", "tags", "*"]),
        (["*"], ["*", "tags", "t*"], []),
    ],
)
def test_patterns_include_other_patterns(given: list[str], included: list[str], others: list[str]) -> None:
    assert all(map(Patterns(given).include, included))
    assert not any(map(Patterns(given).include, others))


def test_admin_includes_all_other_scopes() -> None:
    admin, reader = Access("a", ["admin"], ["*"]), Access("b", ["read"], ["tags"])
    for scope in ("predict", "learn", "read", "train", "export", "admin"):
        assert admin.allows(scope)
        assert reader.allows(scope) == (scope == "read")
    assert admin.covers(["admin"], ["*"])
    assert not reader.covers(["read", "learn"], ["tags"])
    with pytest.raises(ScopeMissing):
        reader.require(["read", "predict"], "tags")
    with pytest.raises(ModelNotAllowed):
        reader.require(["read"], "news")
    reader.require(["read"], "tags")


@for_each(
    ("patterns", "prefix", "within"),
    [
        (["*"], "", ["*"]),
        (["*", "a", "b-*"], "a", ["a*"]),
        (["b", "a-*", "a-1*", "a-1", "a"], "", ["a", "a-*", "b"]),
        (["a-*", "b-*"], "a-17", ["a-17*"]),
        (["a-17", "a-17-*", "a-2"], "a-17", ["a-17", "a-17-*"]),
        (["a"], "b", []),
        ([], "", []),
    ],
)
def test_patterns_within_a_prefix_match_each_name_once(patterns: list[str], prefix: str, within: list[str]) -> None:
    assert Patterns(patterns).within(prefix) == within
