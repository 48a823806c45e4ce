"""Files of the web UI: types, versions, and forbidden contents."""

import re
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import pytest
from tests.support.cases import for_each

from manylabel_core.datasets.reading import EXTENSIONS
from manylabel_core.metrics.measures import MEASURES, REPORTED, WITH_HISTORY
from manylabel_core.metrics.prequential import GROUPS
from manylabel_service.access.grant import Scope
from manylabel_service.api.routers.datasets import Upload
from manylabel_service.hosting.events import Kind
from manylabel_service.ui import INDEX, Files
from manylabel_service.ui.files import MEDIA_TYPES, STATIC

FILES = Files.shipped()
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\('style'"
)
IMPORT = re.compile(r"""^import\b[^'";]*?['"]([^'"\n]+)['"];?$|\bimport\(['"`]([^'"`]+)""", re.MULTILINE)


@for_each("path", list(FILES))
def test_a_file_has_its_type(path: str) -> None:
    file = FILES.get(path)
    assert file is not None
    assert file.media_type.decode() == MEDIA_TYPES[Path(path).suffix]
    if path != INDEX:
        assert file.content == (STATIC / path).read_bytes()


def test_the_version_depends_on_the_release_and_every_byte() -> None:
    contents = {"index.html": b"ui/{version}/main.js", "main.js": b"1"}
    first, other = Files(contents), Files(contents | {"main.js": b"2"})
    assert first.version == Files(contents).version
    assert first.version.startswith(f"{version('manylabel')}-")
    assert len({first.version, other.version, Files(contents | {"more.js": b""}).version}) == 3
    index = first.get("index.html")
    assert index is not None
    assert index.content == f"ui/{first.version}/main.js".encode()


def test_a_file_without_a_known_type_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".hidden.bin").touch()
    assert list(Files.read(tmp_path)) == []
    (tmp_path / "data.bin").touch()
    with pytest.raises(ValueError, match=r"data\.bin of the page has a suffix without a media type"):
        Files.read(tmp_path)


@for_each("path", [path for path in FILES if path.endswith(".js")])
def test_a_module_makes_no_markup_and_imports_existing_files(path: str) -> None:
    text = (STATIC / path).read_text()
    assert not MARKUP.search(text)
    for module in map("".join, IMPORT.findall(text)):
        assert module.startswith("."), f"{module} is not a file of the page"
        assert (STATIC / path).parent.joinpath(module).resolve().is_relative_to(STATIC)
        if "${" not in module:
            assert (STATIC / path).parent.joinpath(module).is_file(), f"{path} imports {module}"


def test_the_index_has_no_inline_script_or_style() -> None:
    text = (STATIC / INDEX).read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\son\w+=", text) == []
    named = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert named
    for address in named:
        assert address.startswith("ui/{version}/"), "relative, so that a prefix is kept"
        assert (STATIC / address.removeprefix("ui/{version}/")).is_file()


def test_every_file_is_in_the_wheel() -> None:
    """Hatchling takes all files of a package but those that git ignores."""
    paths = [str(STATIC / path) for path in FILES]
    ignored = subprocess.run(["git", "check-ignore", *paths], capture_output=True, text=True, cwd=STATIC)
    assert ignored.stdout == ""


def test_the_page_of_a_model_shows_every_group_of_labels() -> None:
    found = re.search(r"const GROUPS = \{([^}]*)\}", (STATIC / "pages/model/seen.js").read_text())
    assert found is not None
    assert tuple(re.findall(r"(\w+): '", found[1])) == GROUPS


def test_the_page_of_a_model_shows_every_kind_of_event() -> None:
    live, feed = ((STATIC / "pages/model" / name).read_text() for name in ("live.js", "feed.js"))
    listed = re.search(r"const KINDS = \[([^]]*)\]", live)
    assert listed is not None
    assert {*re.findall(r"'(\w+)'", listed[1]), "update", "metrics", "dropped"} == set(get_args(Kind))
    assert set(get_args(Kind)) - {"update", "metrics"} <= set(re.findall(r"case '(\w+)'", feed))


@for_each(
    ("file", "names"),
    [
        ("pages/operations/key_fields.js", get_args(Scope)),
        ("pages/model/curves.js", WITH_HISTORY),
        ("pages/new_job/fields.js", [name for name in REPORTED if MEASURES[name].depth is None]),
    ],
    ids=["scopes", "measures of a stream", "measures of a job"],
)
def test_the_page_lists_all_scopes_and_measures(file: str, names: Sequence[str]) -> None:
    found = re.search(
        r"const (?:SCOPES|MEASURES) = [{[](.*?)(?:\.\.\.|\n[}\]];)", (STATIC / file).read_text(), re.DOTALL
    )
    assert found is not None
    listed = re.findall(r"(\w+): ['\[]" if ":" in found[1] else r"'(\w+)'", found[1])
    assert sorted(listed) == sorted(names)


def test_the_page_of_an_upload_knows_all_formats_and_parameters() -> None:
    text = (STATIC / "pages/dataset/reading.js").read_text()
    formats = re.search(r"const FORMATS = \{(.*?)\};", text, re.DOTALL)
    parameters = re.search(r"const PARAMETERS = \{(.*?)\n\};", text, re.DOTALL)
    kinds = re.search(r"const KINDS = \[(.*?)\]", text)
    assert formats is not None
    assert parameters is not None
    assert kinds is not None
    assert dict(re.findall(r"'(\.\w+)': '(\w+)'", formats[1])) == EXTENSIONS
    offered = re.findall(r"^  (\w+): '", parameters[1], re.MULTILINE)
    assert {*offered, "name", "format", "zero_based", "split"} == set(Upload.model_fields)
    assert set(re.findall(r"'(\w+)'", kinds[1])) < set(offered)
