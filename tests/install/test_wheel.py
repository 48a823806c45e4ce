"""The wheel and the sdist of `make dist`, and the wheel installed with each extra in an empty environment."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from benchmarks.install.extras import size_bytes

ROOT = Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("MANYLABEL_TEST_PYTHON", sys.executable)
MAX_LIGHT_BYTES = 15e6

pytestmark = pytest.mark.install

WORKS = {
    "": "import manylabel_clients",
    "core": "from manylabel_core import FALT, M3L; from manylabel_core.datasets import read_dataset",
    "river": "from manylabel_clients.river import FALT, RemoteModel",
    "server": "import manylabel_service.app",
    "onnx": "from manylabel_clients.export.as_onnx import onnx_file",
    "mcp": "from manylabel_clients.integrations.mcp import server",
    "plots": "from manylabel_clients.plots import save",
    "all": "import manylabel_service.app; from manylabel_clients.river import FALT; import manylabel_clients.plots",
}
LACKS = {
    "": {"manylabel_core": "core", "manylabel_service": "server", "manylabel_clients.plots": "plots"},
    "core": {"manylabel_clients.river": "river", "manylabel_service": "server"},
    "river": {"manylabel_service": "server", "manylabel_clients.plots": "plots"},
    "server": {"manylabel_clients.river": "river"},
    "onnx": {"manylabel_service": "server"},
    "mcp": {"manylabel_core": "core", "manylabel_service": "server"},
    "plots": {"manylabel_core": "core"},
    "all": {},
}


@pytest.fixture(scope="module")
def wheel() -> Path:
    (found,) = (ROOT / "dist").glob("*.whl")
    return found


def test_the_files_of_the_wheel_and_the_sdist(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    packages = {name.partition("/")[0] for name in names if ".dist-info" not in name}
    assert packages == {"manylabel_clients", "manylabel_core", "manylabel_extras.py", "manylabel_service"}
    assert {"manylabel_clients/py.typed", "manylabel_core/py.typed"} <= set(names)
    assert not [name for name in names if name.endswith((".pyc", ".nbi", ".nbc"))]
    (sdist,) = (ROOT / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "core/manylabel_extras.py", "docs/http.md"} <= held


@pytest.mark.parametrize("extra", WORKS)
def test_an_installation(wheel: Path, extra: str, tmp_path: Path) -> None:
    subprocess.run([PYTHON, "-m", "venv", tmp_path], check=True)
    what = f"manylabel[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    subprocess.run([tmp_path / "bin/pip", "install", "--quiet", "--disable-pip-version-check", what], check=True)

    def run(*command: str) -> str:
        done = subprocess.run([tmp_path / "bin" / command[0], *command[1:]], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("python", "-P", "-c", WORKS[extra])
    assert run("manylabel", "--version").startswith("manylabel ")
    assert "predict" in run("manylabel", "--help")
    for module, missing in LACKS[extra].items():
        code = f"try:\n    import {module}\nexcept ImportError as error:\n    print(error.extra)"
        assert run("python", "-P", "-c", code) == f"{missing}\n"
    if not extra:
        assert size_bytes(tmp_path, with_bytecode=True) < MAX_LIGHT_BYTES
