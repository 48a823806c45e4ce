"""Files for newcomers are up to date: CI of public hosts, the citation, issue forms, the list of pages."""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml
from docs._site.navigation import add_statuses_to_the_index, llms, sections

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INDEX = (ROOT / "docs/index.md").read_text()


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def test_the_public_ci_runs_the_same_commands_on_each_python() -> None:
    job = read(".github/workflows/ci.yml")["jobs"]["test"]
    assert [step["run"] for step in job["steps"] if "run" in step] == ["make ${{ matrix.command }}"]
    assert os.access(ROOT / ".ci/run", os.X_OK)
    commands = re.findall(r"^make (\S+)$", (ROOT / ".ci/run").read_text(), re.M)
    assert commands == ["check", "test", "test-all"]
    assert job["strategy"]["matrix"]["command"] == [*commands, "docs"]
    named = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", each) for each in PROJECT["classifiers"]]
    assert job["strategy"]["matrix"]["python"] == [found[1] for found in named if found]


def test_the_public_ci_runs_the_tests_for_other_processors() -> None:
    steps = read(".github/workflows/ci.yml")["jobs"]["processors"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["make test-processors"]


def test_the_public_ci_runs_the_browser_and_long_tests() -> None:
    browser, nightly = read(".github/workflows/ci.yml")["jobs"]["browser"], read(".github/workflows/nightly.yml")
    assert browser["env"]["MANYLABEL_TEST_BROWSER"] == "required"
    assert browser["steps"][-1]["run"] == "make test-browser"
    assert nightly["jobs"]["long"]["steps"][-1]["run"] == "make test-long"


def test_the_citation_and_the_typescript_package_have_this_version() -> None:
    package = json.loads((ROOT / "clients/typescript/package.json").read_text())
    assert (package["version"], package["license"]) == (PROJECT["version"], PROJECT["license"])
    citation = read("CITATION.cff")
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()


def test_the_issue_forms_are_valid() -> None:
    """GitHub shows forms with these fields only."""
    forms = [path for path in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")) if path.name != "config.yml"]
    assert forms
    for path in forms:
        form = yaml.safe_load(path.read_text())
        assert form.keys() == {"name", "description", "labels", "body"}, path.name
        fields = [field for field in form["body"] if field["type"] != "markdown"]
        assert all(field["type"] in ("textarea", "input") and field["attributes"]["label"] for field in fields)
        assert len({field["id"] for field in fields}) == len(fields)


def test_every_page_is_listed_once() -> None:
    listed = [page.path for pages in sections(INDEX).values() for page in pages]
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")} - {"index.md"}
    assert sorted(listed) == sorted(pages)


def test_llms_txt_is_up_to_date() -> None:
    assert (ROOT / "docs/llms.txt").read_text() == llms(INDEX), "run: python -m docs._site.navigation"


def test_statuses_of_errors_are_entries_of_the_index_of_the_site() -> None:
    for page in ("errors", "limits"):
        source = [(ROOT / f"docs/{page}.md").read_text()]
        add_statuses_to_the_index(None, page, source)
        assert {"413", "429"} <= set(source[0].partition("{index} ")[2].partition("\n")[0].split(", "))


def test_paths_and_targets_named_for_contributors_exist() -> None:
    page = (ROOT / "docs/CONTRIBUTING.md").read_text() + (ROOT / "docs/design.md").read_text()
    named = set(re.findall(r"(?:`|bin/pytest -n 0 )((?:benchmarks|clients|core|service|tests)/[\w./-]+)", page))
    assert len(named) > 100
    assert sorted(path for path in named if not (ROOT / path).exists()) == []
    targets = set(re.findall(r"(?:`|^)make ([\w-][\w./-]*)", page, re.M)) - {"targets"}
    made = set(
        re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text().replace("$(INSTALLED)", ".venv/installed"), re.M)
    )
    assert targets <= made
