"""Compiled functions that come with the package: nothing is compiled, and the bits are those of this machine's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import eventually

import manylabel_core
from manylabel_core.compiled import TARGETS

pytestmark = pytest.mark.usefixtures("programs")

PACKAGE = Path(manylabel_core.__file__).parent
FUNCTIONS = ("_elementary.", "_kalman.")
"""Few, since they are compiled for each target; the second ones call the first ones."""

SCRIPT = """
import json, sys
import numpy as np
from numba.core import event
import manylabel_core.compiled as compiling
from manylabel_core.kernels import TIERS, count, load, why_not_shipped
from manylabel_core.kernels.listing import kernels

target, readonly = sys.argv[1:]
if target != "own":
    compiling._runnable_targets = lambda: (target,)
if readonly == "readonly":
    compiling._Files._locator_classes = (compiling._Nowhere,)
compiled = []
class Listener(event.Listener):
    def on_start(self, event): pass
    def on_end(self, event): compiled.append(event.data["dispatcher"].py_func.__name__)
counts = count(TIERS)
event.register("numba:compile", Listener())
rng = np.random.default_rng(0)
results = []
for kernel in kernels():
    function = kernel.dispatcher
    function.compile(kernel.types)
    if all(str(each) == "float64" for each in kernel.types):
        for _ in range(200):
            result = function(*rng.normal(scale=5.0, size=len(kernel.types)))
            results.append(np.asarray(result, dtype=float).tobytes().hex())
print(json.dumps({"counts": counts, "compiled": compiled, "results": results, "why": why_not_shipped()}))
"""


def run(copy: Path, cache: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, *(arguments or ("-c", SCRIPT, "own", ""))]
    environment = os.environ | {"PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout or "{}")
    return found


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with few of its functions, compiled into it."""
    copy = tmp_path_factory.mktemp("shipped")
    own = copy / PACKAGE.name
    shutil.copytree(PACKAGE, own, ignore=shutil.ignore_patterns("__pycache__", "shipped"))
    listed = own / "kernels" / "kernels.txt"
    kept = [line for line in listed.read_text().splitlines() if line.split(maxsplit=2)[2].startswith(FUNCTIONS)]
    assert len(kept) > 2
    listed.write_text("\n".join(kept))
    run(copy, copy / "unused", "-m", "manylabel_core.kernels", "ship")
    return copy


@pytest.fixture(scope="module")
def own(shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of a checkout, which compiles for this machine."""
    checkout = tmp_path_factory.mktemp("checkout")
    shutil.copytree(shipped / PACKAGE.name, checkout / PACKAGE.name, ignore=shutil.ignore_patterns("shipped"))
    found = run(checkout, checkout / "cache")
    assert found["counts"][0] == 0
    assert len(found["compiled"]) >= found["counts"][1], "this machine compiled them"
    assert found["why"] == "this package contains no compiled functions"
    assert len(set(found["results"])) > 100
    return found


@pytest.mark.parametrize("readonly", ["", "readonly"])
@pytest.mark.parametrize("target", ["own", *TARGETS])
def test_nothing_is_compiled_and_all_bits_are_equal(
    target: str, readonly: str, shipped: Path, own: dict[str, Any], tmp_path: Path
) -> None:
    found = run(shipped, tmp_path, "-c", SCRIPT, target, readonly)
    assert found["compiled"] == []
    assert found["counts"] == [own["counts"][1]] * 2
    assert found["results"] == own["results"]
    assert not list(tmp_path.rglob("*.nb[ic]"))


def test_a_changed_source_is_compiled_again(shipped: Path, own: dict[str, Any], tmp_path: Path) -> None:
    """Also a function in another file that calls a changed one."""
    copy = tmp_path / "changed"
    shutil.copytree(shipped, copy)
    with (copy / PACKAGE.name / "_elementary.py").open("a") as file:
        file.write("\n# changed\n")
    found = run(copy, tmp_path / "cache")
    assert found["counts"] == [0, own["counts"][1]]
    assert len(found["compiled"]) >= found["counts"][1]
    assert found["results"] == own["results"]
    assert found["why"] == "the compiled functions of this package were built from other sources"


@pytest.mark.parametrize(("name", "value"), [("numba", "0.0.1"), ("Python", "CPython 3.0"), ("system", "VMS on vax")])
def test_one_sentence_says_why_they_cannot_be_used(name: str, value: str, shipped: Path, tmp_path: Path) -> None:
    copy = tmp_path / "other"
    shutil.copytree(shipped, copy)
    file = copy / PACKAGE.name / "shipped" / "built_for.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    why = run(copy, tmp_path / "cache")["why"]
    assert why.startswith(f"the compiled functions of this package are for {name} {value}, and this is ")


def compiling(copy: Path, cache: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.Popen([sys.executable, "-m", "manylabel_core.kernels", "compile"], env=environment)


@pytest.fixture
def checkout(shipped: Path, tmp_path: Path) -> Path:
    """A copy of the package without compiled functions."""
    copy = tmp_path / "checkout"
    shutil.copytree(shipped / PACKAGE.name, copy / PACKAGE.name, ignore=shutil.ignore_patterns("shipped"))
    return copy


def test_two_processes_compile_each_function_once(checkout: Path, own: dict[str, Any], tmp_path: Path) -> None:
    both = [compiling(checkout, tmp_path / "cache") for _ in range(2)]
    assert [each.wait(300) for each in both] == [0, 0]
    assert len(list(tmp_path.rglob("*.nbc"))) == own["counts"][1]


def test_a_killed_process_leaves_no_lock(checkout: Path, own: dict[str, Any], tmp_path: Path) -> None:
    killed = compiling(checkout, tmp_path / "cache")
    eventually(lambda: any(tmp_path.rglob("*.nbc")), seconds=300)
    killed.kill()
    killed.wait(60)
    assert compiling(checkout, tmp_path / "cache").wait(300) == 0
    assert run(checkout, tmp_path / "cache")["compiled"] == []
