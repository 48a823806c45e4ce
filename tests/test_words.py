"""The texts of the project contain no phrase that the style sheet bans (docs/CONTRIBUTING.md)."""

import ast
import functools
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXTS = ("docs", "README.md", "CHANGELOG.md", "core", "service", "clients", "examples", "deploy")
SUFFIXES = (".md", ".py", ".js", ".ts", ".html", ".yml", ".toml")
PHRASES = re.compile(
    r"\b(whoever|for want of|so (many|long|much)|anew|in good order|mend(s|ed)?|shall|gone on with"
    r"|what (becomes|became|comes|came) of|let go|at hand|of late|in place of|all the same|nobody|somebody)\b",
    re.IGNORECASE,
)
UNIDIOMATIC = re.compile(
    r"\b[Ww]hat is no (?!longer|more)|\b[Tt]here (is|are|was|were) none\b|\b(that|if it|if they) (is|are) none\b"
    r"|\bin its place\b|(?<!the writes) of (its|their) own\b|\bfor ever\b|\bunder way\b|\bleft out\b|\bby hand\b"
    r"|\b[Ll]ikewise\b|\b(is|are|was|were|be) asked for\b|\bone after the other\b|\bkept predictions?\b"
    r"|\b(data sets?|meta data)\b|\banswer(s|ed)?( with)? [2345]\d\d\b"
)
"""Phrases with a plainer form: "is missing", "separate", "forever", "omitted", "manually", "in turn"."""
CLAUSE = re.compile(r'(^|[.!?] |"""|^    +|(?<!#)# )(What|Who|Whoever|Of|As|That) [a-z]')
"""A sentence, or an indented description, that begins with a clause or a bare genitive instead of its subject."""
NATURAL = re.compile(r"As (built|for|long as|soon as|shown|described|in)\b")
"""Openings of an adverbial clause, which the pattern cannot tell from a clause that is used as a subject."""

NO_NOUN = re.compile(
    r"(How|Most|Where|Why|What|This|These|That|Those|It|They|There|Its|Likewise|The same|So|Of|Between|From|In|After"
    r"|Before|Until|With|Without|No)\b"
)
"""Beginnings of descriptions of constants and fields that do not name the thing, as in "Between two polls."."""


@pytest.mark.parametrize("pattern", [PHRASES, UNIDIOMATIC, CLAUSE], ids=["phrases", "unidiomatic", "clauses"])
def test_no_banned_phrase(pattern: re.Pattern[str]) -> None:
    found = [
        f"{place}: {line.strip()}"
        for place, line in lines()
        for hit in pattern.finditer(line)
        if not NATURAL.match(hit[0].lstrip('.!?" #') + line[hit.end() :])
    ]
    assert found == []


def test_docstrings_of_tests_begin_with_their_subject() -> None:
    found = [f"{place}: {line.strip()}" for place, line in lines("tests") if CLAUSE.match(line.strip())]
    assert [each for each in found if '"""' in each and not NATURAL.search(each)] == []


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (PHRASES, "It waits so long."),
        (PHRASES, "Whoever asks"),
        (UNIDIOMATIC, "Return the key; None if there is none."),
        (UNIDIOMATIC, "A model with a log of its own."),
        (CLAUSE, '"""What it does."""'),
        (CLAUSE, "Of a row."),
        (CLAUSE, "    What it does."),
    ],
)
def test_a_banned_phrase_is_found(pattern: re.Pattern[str], line: str) -> None:
    assert pattern.search(line)


def test_constants_and_fields_are_described_by_noun_phrases() -> None:
    described = list(descriptions())
    assert len(described) > 1000
    assert [f"{place}: {text}" for place, text in described if NO_NOUN.match(text)] == []


def descriptions() -> Iterator[tuple[str, str]]:
    """Yield the place and the description of each constant and each field of a class."""
    for path in sorted(path for folder in ("core", "service", "clients") for path in (ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            body = node.body if isinstance(node, ast.Module | ast.ClassDef) else []
            for assigned, below in pairwise(body):
                match assigned, below:
                    case ast.Assign() | ast.AnnAssign(), ast.Expr(ast.Constant(str(text))):
                        yield f"{name}:{below.lineno}", " ".join(text.split())


@functools.cache
def lines(*folders: str) -> list[tuple[str, str]]:
    """Return the place and the text of each line of the texts, or of some folders."""
    listed = subprocess.run(
        ["git", "ls-files", *(folders or TEXTS)], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [
        (f"{name}:{number}", line)
        for name in listed.splitlines()
        if name.endswith(SUFFIXES)
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
    ]
