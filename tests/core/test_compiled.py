"""Compiled functions kept on disk do not outlive the source that they were compiled from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile

import manylabel_core
import manylabel_core.compiled as compiling
from manylabel_core.compiled import ORPHANED_SECONDS, discard_orphans, discard_stale

INNER = """
from manylabel_core.compiled import compiled

@compiled
def inner(x):
    return x + {added}
"""
OUTER = """
from manylabel_core.compiled import compiled
from {inner} import inner

@compiled
def outer(x):
    return inner(x)
"""
PACKAGES = {
    "one_folder": ("", ""),
    "one_subfolder": ("folder.", "folder."),
    "two_subfolders": ("folder.a.", "folder.b."),
    "helper_in_the_root": ("", "folder.b."),
}
"""Folders of the helper and of its caller in each package."""


def write(file: Path, text: str, changed_ns: int) -> None:
    file.write_text(text)
    os.utime(file, ns=(changed_ns, changed_ns))


def run(directory: Path) -> dict[str, int]:
    """Return the result of the outer function of each package, by a process that imports them all."""
    imports = [f"import {name}.{outer}outer as {name}" for name, (_, outer) in PACKAGES.items()]
    results = ", ".join(f'"{name}": {name}.outer(1)' for name in PACKAGES)
    script = "\n".join(["import json", *imports, f"print(json.dumps({{{results}}}))"])
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment["PYTHONPATH"] = str(directory)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.usefixtures("programs")
def test_a_changed_helper_in_another_file_is_compiled_in(tmp_path: Path) -> None:
    now, helpers = Path(__file__).stat().st_mtime_ns, {}
    for name, (inner, outer) in PACKAGES.items():
        for folder in ("", "folder", "folder/a", "folder/b"):
            (tmp_path / name / folder).mkdir()
            write(tmp_path / name / folder / "__init__.py", "", now)
        helpers[name] = tmp_path / name / inner.replace(".", "/") / "inner.py"
        write(helpers[name], INNER.format(added=1), now)
        caller = tmp_path / name / outer.replace(".", "/") / "outer.py"
        write(caller, OUTER.format(inner=f"{name}.{inner}inner"), now)
    assert run(tmp_path) == dict.fromkeys(PACKAGES, 2)
    compiled = {name: list((tmp_path / name).rglob("*.nb[ic]")) for name in PACKAGES}
    assert all(compiled.values()), "compiled functions are kept on disk"
    kept = {name: discard_stale(tmp_path / name) for name in PACKAGES}
    assert kept == dict.fromkeys(PACKAGES, 0), "compiled functions that are newer than their sources are kept"

    for name, files in compiled.items():
        newer = max(file.stat().st_mtime_ns for file in files) + 1
        write(helpers[name], INNER.format(added=10), newer)
    discarded = {name: discard_stale(tmp_path / name) for name in PACKAGES}
    assert discarded == {name: len(files) for name, files in compiled.items()}
    assert run(tmp_path) == dict.fromkeys(PACKAGES, 11)


def load(file: Path) -> Any:
    """The file as a module of its own, as another process has it."""
    spec = spec_from_file_location("loaded", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_processes_that_compile_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one has read the index before the first one wrote it, and is done before the first one's code is."""
    file = tmp_path / "inner.py"
    file.write_text(INNER.format(added=1))
    examples = {"first": np.array([1.5], dtype=np.float32), "second": np.array([2.5, 3.5])}
    unwritten: list[tuple[Any, ...]] = []
    with monkeypatch.context() as patch:
        patch.setattr(IndexDataCacheFile, "_load_index", lambda _: {})
        patch.setattr(IndexDataCacheFile, "_save_data", lambda *save: unwritten.append(save))
        for process, example in examples.items():
            patch.setattr(compiling, "_process", process)
            load(file).inner(example)
    assert unwritten
    for files, name, data in reversed(unwritten):
        files._save_data(name, data)
    later = load(file)
    for example in examples.values():
        np.testing.assert_array_equal(later.inner(example), example + 1)


@pytest.mark.usefixtures("programs")
def test_a_forked_process_has_files_of_its_own(tmp_path: Path) -> None:
    """It would otherwise write to those of its parent and siblings."""
    file = tmp_path / "inner.py"
    file.write_text(INNER.format(added=1))
    inner = load(file).inner
    pid = os.fork()
    if not pid:
        inner(np.array([1.5], dtype=np.float32))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    (forked,) = tmp_path.rglob("*.nbc")
    inner(np.array([2.5, 3.5]))
    own = set(tmp_path.rglob("*.nbc")) - {forked}
    assert own, "it kept what it compiled"
    assert not {name.name.split(".")[-3] for name in own} & {forked.name.split(".")[-3]}


def test_compiled_code_that_no_index_names_is_deleted_when_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that read the index before the others wrote it leave code that no later process finds."""
    file = tmp_path / "inner.py"
    file.write_text(INNER.format(added=1))
    example, own = np.array([1.5, 2.5]), set[Path]()
    with monkeypatch.context() as patch:
        patch.setattr(IndexDataCacheFile, "_load_index", lambda _: {})
        for process in ("first", "second", "third"):
            patch.setattr(compiling, "_process", process)
            load(file).inner(example)
            own = set(tmp_path.rglob("*.third.*.nbc"))
    codes, (index,) = set(tmp_path.rglob("*.nbc")), tmp_path.rglob("*.nbi")
    (code,), orphans = own, codes - own
    unfinished = index.with_name(index.name + ".tmp.0123456789abcdef")
    unfinished.touch()
    assert len(orphans) == 2
    assert discard_orphans(tmp_path) == 0, "another process may be about to write an index that names them"

    old = code.stat().st_mtime - 2 * ORPHANED_SECONDS
    for each in (*codes, index, unfinished):
        os.utime(each, (old, old))
    assert discard_orphans(tmp_path) == 3
    assert {*tmp_path.rglob("*.nb*")} == {code, index}
    before = code.stat().st_mtime
    np.testing.assert_array_equal(load(file).inner(example), example + 1)
    assert {*tmp_path.rglob("*.nbc")} == {code}, "the code that the index names is still used"
    assert code.stat().st_mtime == before
    index.unlink()
    assert discard_orphans(tmp_path) == 1
    assert not list(tmp_path.rglob("*.nb*"))


def test_no_stale_function_of_this_package_is_on_disk() -> None:
    """Importing the package has thrown them away."""
    assert discard_stale(Path(manylabel_core.__file__).parent) == 0


def test_a_package_without_compiled_functions(tmp_path: Path) -> None:
    assert discard_stale(tmp_path) == 0


def test_a_function_without_a_place_for_its_cache_still_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(**options: object) -> object:
        if options:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(compiling, "_compile", nowhere)
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR"):
        assert compiling.compiled(len)("abc") == 3


@pytest.mark.parametrize("files", [SimpleNamespace(), SimpleNamespace(_data_name_pattern="{index}.nbc")])
def test_an_unknown_numba_file_naming_disables_the_cache(
    files: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that compile at the same time could not be told apart: the code of one would be run by the other."""

    def other(**options: object) -> object:
        kept = SimpleNamespace(_cache=SimpleNamespace(_cache_file=files))
        return lambda function: kept if options else function

    monkeypatch.setattr(compiling, "_compile", other)
    with pytest.warns(RuntimeWarning):
        assert compiling.compiled(len)("abc") == 3


def test_a_stale_function_that_cannot_be_deleted_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "__pycache__").mkdir()
    index = tmp_path / "__pycache__" / "a.nbi"
    index.touch()
    os.utime(index, (1, 1))
    (tmp_path / "a.py").write_text("\n@compiled\n")

    def read_only(*_: object, **__: object) -> None:
        raise OSError("Read-only file system")

    monkeypatch.setattr(Path, "unlink", read_only)
    assert discard_stale(tmp_path) == 1
