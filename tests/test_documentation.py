"""README and docs are true: every code block runs, and every setting and every call is documented."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import takewhile
from pathlib import Path
from string import ascii_lowercase
from textwrap import dedent
from typing import Any, NamedTuple

import pytest
from docs._site import response_types, settings_reference
from pydantic import BaseModel, ValidationError
from tests.support.label_studio import LOST, TASK

from manylabel_service.app import create_app
from manylabel_service.limits import Limits
from manylabel_service.online.spec.params import PARAMS
from manylabel_service.settings import Settings
from manylabel_service.storage import open_store

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ADDRESS = "http://127.0.0.1:8000"
KNOWN = {"python", "sh", "json", "toml", "text"}
"""Languages of blocks; `text` is not code."""


class Block(NamedTuple):
    page: Path
    language: str
    about: str
    code: str


def blocks() -> Iterator[Block]:
    for page in PAGES:
        found = re.findall(r"^( *)```(\w*) ?([^\n]*)\n(.*?)^\1```$", page.read_text(), re.DOTALL | re.MULTILINE)
        for _, language, about, code in found:
            yield Block(page, language, about, dedent(code))


def of(language: str) -> dict[Path, list[str]]:
    """The blocks of a language by page."""
    found: dict[Path, list[str]] = {}
    for block in blocks():
        if block.language == language:
            found.setdefault(block.page, []).append(block.code)
    return found


@pytest.fixture(scope="module")
def address(module_server_process: Callable[..., Any]) -> str:
    return str(module_server_process().start().url)


def test_every_block_has_a_known_language() -> None:
    assert {block.language for block in blocks()} <= KNOWN


@pytest.mark.parametrize("page", of("python"), ids=lambda page: page.name)
def test_python_blocks_run(page: Path, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page are one program. Lines ``# -> ...`` show the output of the print before them."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": page.stem}
    for number, code in enumerate(of("python")[page]):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code.replace(ADDRESS, address), f"{page.name} block {number}", "exec"), namespace)
        expected = re.findall(r"^# -> (.*)$", code, re.MULTILINE)
        assert printed.getvalue().splitlines()[: len(expected)] == expected


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl, which is not installed")
@pytest.mark.parametrize("page", of("sh"), ids=lambda page: page.name)
def test_shell_blocks_succeed(page: Path, address: str, tmp_path: Path) -> None:
    """Every line succeeds, and curl gets no error."""
    if page.name == "label-studio.md":
        (tmp_path / "export.json").write_text(
            json.dumps([{**TASK, "data": {"text": "It barks."}, "annotations": [LOST]}])
        )
    script = "\n".join(of("sh")[page]).replace(ADDRESS, address).replace("curl ", "curl --fail-with-body ")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace(".venv/bin/", "")],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "MANYLABEL_URL": address},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The operations by path and method, as OpenAPI describes them."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("openapi"))
    described: dict[str, Any] = create_app(settings, open_store(settings)).openapi()["paths"]
    return described


@pytest.mark.parametrize("block", [b for b in blocks() if b.language == "json"], ids=lambda b: b.about)
def test_json_blocks_fit_their_schema(block: Block, paths: dict[str, Any]) -> None:
    """Each names its schema in its first line: ``[part of] request POST /path`` or ``response STATUS POST /path``."""
    found = re.fullmatch(r"(part of )?(request|response (\d+)) ([A-Z]+) (/\S+)", block.about)
    assert found, f"{block.page.name}: {block.about!r}"
    part, _, status, method, path = found.groups()
    operation = paths[path][method.lower()]
    contents = (operation["responses"][status] if status else operation["requestBody"])["content"]
    (content,) = (each for media_type, each in contents.items() if "json" in media_type)
    problems = [differences(name, block.code, bool(part)) for name in schemas_of(content["schema"])]
    assert [] in problems, problems


def schemas_of(schema: dict[str, Any]) -> list[str]:
    """Return the names of the alternative schemas."""
    return [one["$ref"].rpartition("/")[2] for one in schema.get("anyOf", [schema]) if "$ref" in one]


def differences(name: str, code: str, part: bool) -> list[Any]:
    """Return the differences of a document from a named schema; a part of a document may leave out fields."""
    (model,) = {cls for cls in subclasses(BaseModel) if cls.__name__ == name and "manylabel_service" in cls.__module__}
    try:
        model.model_validate_json(code, strict=True, extra="forbid")
    except ValidationError as error:
        return [one for one in error.errors() if not (part and one["type"] == "missing" and len(one["loc"]) == 1)]
    return []


def subclasses(cls: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from subclasses(sub)


def test_the_settings_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "settings.md").read_text() == settings_reference.page(), "run: make settings-docs"


def test_the_response_types_of_the_client_are_up_to_date() -> None:
    module = ROOT / "clients" / "manylabel_clients" / "http" / "responses.py"
    assert module.read_text() == response_types.module(), "run: make response-types"


def test_the_limits_page_has_the_defaults_of_the_settings() -> None:
    rows = re.findall(r"^\| ([^|]*) \| ([^|]*) \| (`[^|]*) \|", (ROOT / "docs" / "limits.md").read_text(), re.MULTILINE)
    assert len(rows) > 20
    wrong = {
        (limit, name): default
        for limit, default, settings in rows
        for name in re.findall("`(.*?)`", settings)
        if settings_reference.default_of(name) not in default and (limit, name) not in DERIVED
    }
    assert wrong == {}


def test_the_limits_page_has_the_constants() -> None:
    rows = dict(re.findall(r"^\| ([^|]*) \| ([^|]*) \|", (ROOT / "docs" / "limits.md").read_text(), re.MULTILINE))
    assert {field.name for field in fields(Limits)} == {*ROWS, *ELSEWHERE}
    wrong = {name: row for name, row in ROWS.items() if settings_reference.default_of(name) not in rows[row]}
    assert wrong == {}


ROWS = {
    "header_timeout_seconds": "time to receive headers",
    "body_timeout_seconds": "time to receive a body",
    "idle_timeout_seconds": "idle stream, upload or download",
    "max_buffered_bytes": "buffered request bodies, total",
    "max_batch_examples": "examples per request",
    "max_response_scores": "scores per response",
    "max_response_bytes": "bytes of the predictions in a response, estimated for `predict-update`",
    "max_contributions": "contributions per response",
    "max_record_depth": "nested objects of a record",
    "max_record_fields": "fields of a record; numbers of an example; labels of an example",
    "max_queue_examples": "examples in the update queue per model",
    "max_stored_prediction_bytes": "bytes of stored predictions per model",
    "max_ranked_predictions": "stored predictions ranked by uncertainty",
    "max_versions": "versions of a trained model",
    "max_datasets": "datasets",
    "max_keys": "keys, including expired ones, of all callers",
    "max_webhooks": "webhooks",
    "max_queued_jobs": "queued and running jobs, on all servers",
}
"""Rows of docs/limits.md by the constant of the service."""

ELSEWHERE = {
    "shutdown_timeout_seconds", "load_timeout_seconds", "evict_idle_seconds", "position_wait_seconds", "job_niceness",
    "job_max_attempts", "job_checkpoint_work",
}  # fmt: skip
"""Constants that limit no client."""


DERIVED = {
    (limit, name)
    for limit, names in {
        "tokens of a record": ("max_record_characters",),
        "bytes on disk of concurrent uploads": ("max_dataset_bytes", "max_model_bytes"),
    }.items()
    for name in names
}
"""Rows of docs/limits.md whose limit follows from a setting without being its value."""


def test_the_events_of_the_monitoring_page_are_logged() -> None:
    watching = (ROOT / "docs/monitoring.md").read_text().partition("| `event` |")[2].partition("\n## ")[0]
    named = {
        event for row in re.findall(r"^\| (`[^|]*) \|", watching, re.MULTILINE) for event in re.findall("`(.*?)`", row)
    }
    source = "".join(path.read_text() for path in (ROOT / "service").rglob("*.py"))
    logged = set(re.findall(r'log\.(?:info|warning|error|exception)\(\s*"(\w+)"', source))
    assert named
    assert named - logged == set()


CALLS = ("http", "label-studio", "open-inference", "annif")
"""The pages about calls."""


def test_documented_calls_exist(paths: dict[str, Any]) -> None:
    pages = "\n".join((ROOT / "docs" / f"{name}.md").read_text() for name in CALLS)
    sections = re.findall(r"^##+ `([A-Z]+ /\S*)`$", pages, re.MULTILINE)
    assert len(sections) > 20
    assert {call.replace("{m}", "{name}") for call in sections} - {call for call, _ in operations(paths)} == set()


def operations(paths: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in paths.items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def codes(operation: dict[str, Any]) -> set[str]:
    """The error codes that OpenAPI names for a call."""
    return {
        code for answer in operation["responses"].values() for code in re.findall("`(\\w+)`", answer["description"])
    }


def test_every_error_code_has_a_remedy(paths: dict[str, Any]) -> None:
    table = (ROOT / "docs" / "errors.md").read_text().partition("| status | code | what to do |")[2]
    explained = {code for row in table.splitlines() for code in re.findall(r"`(\w+)`", "".join(row.split("|")[2:3]))}
    assert {code for _, operation in operations(paths) for code in codes(operation)} - explained == set()


def test_the_table_of_calls_names_their_scopes(paths: dict[str, Any]) -> None:
    table = (ROOT / "docs" / "http.md").read_text().partition("| call | purpose | scope |")[2].partition("\n\n")[0]
    rows = [row.split("|") for row in table.splitlines()[2:]]
    listed = {
        call.replace("{m}", "{name}"): set(re.findall(r"`(\w+)`", scopes))
        for _, calls, _, scopes, _ in rows
        for call in re.findall(r"`([A-Z]+ /[^`]*)`", calls)
    }
    described = {
        call: set(re.findall(r"`(\w+)`", "".join(re.findall(r"^Needs .*$", operation["description"], re.MULTILINE))))
        for call, operation in operations(paths)
        if not call.split()[1].startswith(("/v2", "/annif", "/v1/label-studio"))
    }
    assert listed == {"GET /": set(), **described}


def test_the_learners_page_has_every_learner() -> None:
    page = (ROOT / "docs" / "learners.md").read_text()
    listed = [name for cell in first_cells(page.split("| learner | model |")[1]) for name in cell]
    assert sorted(listed) == sorted(PARAMS)


def first_cells(table: str) -> Iterator[list[str]]:
    """Return the names in the first cell of each row of a table at the beginning of a text."""
    for row in takewhile(lambda line: line.startswith("|"), table.partition("|---")[2].splitlines()[1:]):
        yield re.findall(r"`([^`]+)`", row.split("|")[1])


def test_links_lead_to_files_and_headings() -> None:
    for page in PAGES:
        for target, heading in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)", page.read_text()):
            path = page.parent / target if target else page
            assert path.exists(), f"{page.name} -> {target}"
            assert not heading or heading in anchors(path), f"{page.name} -> {target}#{heading}"


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_equations_are_numbered_in_order_and_references_exist() -> None:
    page = (ROOT / "docs" / "mathematics.md").read_text()
    numbers = re.findall(r"  \((\d+[a-z]?)\)$", page, re.MULTILINE)
    plain = [int(number) for number in numbers if number.isdigit()]
    assert plain == list(range(1, len(plain) + 1))
    assert numbers == sorted(numbers, key=lambda number: (int(number.rstrip(ascii_lowercase)), number)), (
        "10, 10a, 10b, 11"
    )
    code = [path.read_text() for folder in ("core", "service", "clients") for path in (ROOT / folder).rglob("*.py")]
    reference = r"Eqs?\. ((?:\(\d+[a-z]?\)|,|and|to|\s)*?) of\s+docs/mathematics\.md"
    references = [said for text in code for said in re.findall(reference, text)]
    assert references
    assert {number for said in references for number in re.findall(r"\d+[a-z]?", said)} <= set(numbers)


def test_paths_named_by_the_design_page_exist() -> None:
    page = (ROOT / "docs" / "design.md").read_text()
    named = set(re.findall(r"`((?:benchmarks|clients|core|deploy|docs|service|tests)/[\w./-]+)`", page))
    assert len(named) > 20
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_curl_commands_run_with_an_old_curl() -> None:
    new = [line for page in PAGES for line in page.read_text().splitlines() if "curl " in line and " --json" in line]
    assert new == [], "--json came with curl 7.82"
