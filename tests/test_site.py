"""The generated parts of the site: references and navigation. `make docs` builds it."""

import re

import pytest
from docs._site import http_reference, navigation, python_reference
from docs._site.description import description
from docs._site.self_contained import loaded_from_elsewhere


def test_the_http_reference_has_every_call_and_every_schema() -> None:
    document = description()
    calls, schemas = http_reference.calls(document), http_reference.schemas(document)
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    placed = re.findall(r"^\(call-(\w+)\)=$", calls, re.M)
    assert sorted(placed) == sorted(each["operationId"] for each in operations)
    targets = set(re.findall(r"^\((schema-\w+)\)=$", schemas, re.M))
    assert len(targets) == len(document["components"]["schemas"])
    assert set(re.findall(r"\]\(#([\w-]+)\)", calls + schemas)) <= targets
    assert "[the HTTP reference](../http.md#post-v1modelsmpredict)" in calls
    assert "[the HTTP reference](../open-inference.md#post-v2modelsminfer)" in calls


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "#/components/schemas/Job"}, "[Job](#schema-job)"),
        ({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}, "integer, at least 1 or null"),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 3}, "list of string, at most 3 of them"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "object of number"),
        ({"type": "string", "pattern": "a|b"}, r"string, matches `a\|b`"),
        ({"enum": ["a", 1]}, '`"a"`, `1`'),
        ({}, "anything"),
    ],
)
def test_types_are_described_in_words(schema: dict[str, object], words: str) -> None:
    assert http_reference.type_of(schema) == words


def test_every_exported_name_is_described_once() -> None:
    pages = [python_reference.reference(modules) for modules in python_reference.PAGES.values()]
    described = [name for page in pages for name in re.findall(r"^### `(\w+)`$", page, re.M)]
    assert {"Client", "FALT", "M3L", "read_dataset", "micro_f1", "Settings", "create_app"} <= set(described)
    assert described.count("M3L") == 1
    assert ".. autoclass:: manylabel_core.FALT" in pages[1]


def test_docstrings_keep_their_mathematics() -> None:
    lines = [
        "The norm |x| of `|y|` and coef_:",
        "",
        "    sum_l |w_l|",
        "",
        "Parameters",
        "----------",
        "coef_ : n_in_,",
        "    * all",
    ]
    python_reference.to_restructured_text(None, "class", "M", None, None, lines)
    assert lines[0] == r"The norm \|x\| of `|y|` and coef\_:"
    assert lines[1:5] == ["", "::", "", "    sum_l |w_l|"]
    assert lines[-2:] == [r"coef_ : n_in\_,", r"    \* all"]


def test_names_that_share_a_line_are_described_separately() -> None:
    lines = ["Attributes", "----------", "a_, b_ : int", "    Both.", "c_ : bool"]
    python_reference.to_restructured_text(None, "class", "M", None, None, lines)
    assert lines[2:] == ["a_ : int", "    Both.", "b_ : int", "    Both.", "c_ : bool"]


def test_the_index_gives_the_order_of_the_pages() -> None:
    source = ["# T\n\nAbout\nit.\n\n## A\n\n- [One](one.md): the\n  first\n- [Two](in/two.md): second\n"]
    assert navigation.llms(source[0]) == (
        "# T\n\n> About it.\n\n## A\n\n- [One](one.md): the first\n- [Two](in/two.md): second\n"
    )
    navigation.add_navigation(None, "index", source)
    assert source[0].endswith(":caption: A\n\none\nin/two\n```\n")


def test_links_out_of_the_docs_are_rewritten() -> None:
    source = ["[log](../../CHANGELOG.md) [all](../../benchmarks) [file](../../pyproject.toml)"]
    navigation.correct_links_out_of_docs(None, "reference/core", source)
    assert source == ["[log](../changes.md) all (`benchmarks`) [file](../../pyproject.toml)"]


def test_resources_from_other_hosts_are_found() -> None:
    followed = '<a href="https://example.org">x</a><script src="_static/a.js"></script><link rel="canonical" href="https://e.org">'
    assert loaded_from_elsewhere(followed) == []
    assert len(loaded_from_elsewhere('<script defer src="https://cdn.example.org/a.js"></script>')) == 1
    assert len(loaded_from_elsewhere('<link rel="stylesheet" href="//cdn.example.org/a.css">')) == 1
    assert len(loaded_from_elsewhere("@import url('https://fonts.example.org/a');")) == 1
