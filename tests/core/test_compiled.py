"""Compiled functions kept on disk do not outlive the source that they were compiled from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numba.core.caching
import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile

import manylabel_core.compiled as compiling
from manylabel_core.kernels.filling import ORPHANED_SECONDS, discard_orphans

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


def write(file: Path, text: str) -> None:
    """Write a file as an installer does that keeps the times of an archive: a change does not show in them."""
    file.write_text(text)
    os.utime(file, ns=(WRITTEN_NS, WRITTEN_NS))


WRITTEN_NS = 10**18


def run(directory: Path) -> dict[str, int]:
    """Return the result of the outer function of each package, by a process that imports them all."""
    imports = [f"import {name}.{outer}outer as {name}" for name, (_, outer) in PACKAGES.items()]
    results = ", ".join(f'"{name}": {name}.outer(1)' for name in PACKAGES)
    script = "\n".join(["import json", *imports, f"print(json.dumps({{{results}}}))"])
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    # Python finds bytecode by size and time of the source.
    environment |= {"PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.usefixtures("programs")
def test_a_changed_helper_in_another_file_is_compiled_in(tmp_path: Path) -> None:
    helpers = {}
    for name, (inner, outer) in PACKAGES.items():
        for folder in ("", "folder", "folder/a", "folder/b"):
            (tmp_path / name / folder).mkdir()
            write(tmp_path / name / folder / "__init__.py", "")
        helpers[name] = tmp_path / name / inner.replace(".", "/") / "inner.py"
        write(helpers[name], INNER.format(added=1))
        caller = tmp_path / name / outer.replace(".", "/") / "outer.py"
        write(caller, OUTER.format(inner=f"{name}.{inner}inner"))
    assert run(tmp_path) == dict.fromkeys(PACKAGES, 2)
    compiled = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.nb[ic]")}
    assert run(tmp_path) == dict.fromkeys(PACKAGES, 2)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.nb[ic]")} == compiled, (
        "nothing is compiled again"
    )
    for helper in helpers.values():
        write(helper, INNER.format(added=9))
    assert run(tmp_path) == dict.fromkeys(PACKAGES, 10)


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
    module = load(file)
    assert discard_orphans([module]) == 0, "another process may be about to write an index that names them"

    old = code.stat().st_mtime - 2 * ORPHANED_SECONDS
    for each in (*codes, index, unfinished):
        os.utime(each, (old, old))
    assert discard_orphans([module]) == 3
    assert {*tmp_path.rglob("*.nb*")} == {code, index}
    before = code.stat().st_mtime
    np.testing.assert_array_equal(load(file).inner(example), example + 1)
    assert {*tmp_path.rglob("*.nbc")} == {code}, "the code that the index names is still used"
    assert code.stat().st_mtime == before
    index.unlink()
    assert discard_orphans([module]) == 1
    assert not list(tmp_path.rglob("*.nb*"))


def test_a_former_version_of_a_function_is_deleted_when_it_is_old(tmp_path: Path) -> None:
    file = tmp_path / "inner.py"
    file.write_text("\n\n\n" + INNER.format(added=1))
    load(file).inner(1)
    former = set(tmp_path.rglob("*.nb[ic]"))
    other_python = next(iter(tmp_path.rglob("*.nbi"))).with_name("inner.inner-8.py399.nbi")
    other_module = other_python.with_name("other.inner-8.py311.nbi")
    for each in (other_python, other_module):
        each.touch()
    for each in (*former, other_python, other_module):
        os.utime(each, (1, 1))
    assert discard_orphans([load(file)]) == 0, "it is in use"
    file.write_text(INNER.format(added=1))
    compiling._stamps.pop(str(file))
    now = load(file)
    now.inner(1)
    assert discard_orphans([now]) == len(former)
    assert other_python.exists()
    assert other_module.exists()


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [b"", b"cut", None, b"\x80\x05K\x07.", b"\x80\x63"])
def test_a_damaged_file_counts_as_missing(ending: str, damage: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "inner.py"
    file.write_text(INNER.format(added=1))
    load(file).inner(1)
    (stored,) = tmp_path.rglob(f"*.{ending}")
    stored.write_bytes(stored.read_bytes()[:-20] if damage is None else damage)
    assert load(file).inner(1) == 2
    before = {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*.nb[ic]")}
    assert load(file).inner(1) == 2
    assert {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*.nb[ic]")} == before, "it was replaced"


def test_a_function_without_a_place_for_its_cache_still_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(_: object) -> object:
        raise RuntimeError("cannot cache function: no locator available")

    file = tmp_path / "inner.py"
    file.write_text(INNER.format(added=1))
    monkeypatch.setattr(compiling, "KernelCache", nowhere)
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR"):
        inner = load(file).inner
    assert inner(2) == 3


@pytest.mark.parametrize("pattern", [None, "{index}.nbc"])
def test_an_unknown_numba_file_naming_disables_the_cache(
    pattern: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that compile at the same time could not be told apart: the code of one would be run by the other."""

    class Other(IndexDataCacheFile):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            if pattern is None:
                del self._data_name_pattern
            else:
                self._data_name_pattern = pattern

    file = tmp_path / "inner.py"
    file.write_text(INNER.format(added=1))
    monkeypatch.setattr(numba.core.caching, "IndexDataCacheFile", Other)
    with pytest.warns(RuntimeWarning, match="install a version of numba"):
        inner = load(file).inner
    assert inner(2) == 3
    assert not list(tmp_path.rglob("*.nb[ic]"))


def test_a_read_only_file_that_is_old_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "inner.py"
    file.write_text(INNER.format(added=1))
    module = load(file)
    module.inner(1)
    index = next(iter(tmp_path.rglob("*.nbi")))
    old = index.with_name(index.name.replace("-", "-9"))
    old.touch()
    os.utime(old, (1, 1))

    def read_only(*_: object, **__: object) -> None:
        raise OSError("Read-only file system")

    monkeypatch.setattr(Path, "unlink", read_only)
    assert discard_orphans([module]) == 0
    assert old.exists()
