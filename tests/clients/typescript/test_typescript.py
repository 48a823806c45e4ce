"""A program of TypeScript compiles against the package that a release has, and runs against a server.

`make test-typescript` makes the package and runs this.
"""

import json
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
COMPILER = ROOT / "clients/typescript/node_modules/.bin/tsc"

TAUGHT = """\
alone [ 'own' ]
asked [ 'b' ] id of b?: b (machine)
submitted again [ 't' ] 3 [ 0.5, 1 ]
answered before 409 [ 't' ]
answered before 410 [ 't' ]
rejected 403
nonsense [ 't' ] [ 7.5, 1, 2, 4 ] id of a?: t (machine)
many [ 'a?' ] true
many [ 'own' ] false
many undefined true the teacher refuses to answer: filtered
many undefined true the teacher failed 4 times: down
many [ 'c?' ] true
many [ 'd?' ] true
at a time 2 calls 8 id of a?: a? (machine), id of c?: c? (machine), id of d?: d? (machine)
lazy [ 'own' ]
no promise the model promises no parity: set it by PUT /v1/models/{name}/promise
server true 5
"""
"""Output of teach.ts: no answer of the model is sent back, and the teacher is asked again after nonsense."""
PROGRAMS = ("use.ts", "teach.ts")

pytestmark = pytest.mark.typescript


def run(directory: Path, *command: object) -> str:
    done = subprocess.run([*map(str, command)], cwd=directory, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A directory with the program, and the package installed as it is released."""
    (tmp_path / "package.json").write_text(json.dumps({"type": "module", "private": True}))
    package = ROOT / f"dist/manylabel-{VERSION}.tgz"
    run(tmp_path, "npm", "install", "--silent", "--no-fund", "--no-audit", "--prefer-offline", package)
    options = {"strict": True, "module": "NodeNext", "target": "ES2022", "lib": ["ES2022", "DOM", "DOM.Iterable"]}
    options |= {"exactOptionalPropertyTypes": True, "types": []}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": [*PROGRAMS, "node.d.ts"]}))
    (tmp_path / "node.d.ts").write_text("declare const process: { argv: string[] };\n")
    for name in PROGRAMS:
        shutil.copy(Path(__file__).with_name(name), tmp_path)
    return tmp_path


def test_programs_compile_and_run(program: Path, server_process: Callable[..., Any]) -> None:
    run(program, COMPILER)
    with server_process().start() as server:
        printed = run(program, "node", "use.js", server.url)
        taught = run(program, "node", "teach.js", server.url)
    assert printed.splitlines() == [
        "learnt 40 [ 'billing' ]",
        "seen true",
        "job succeeded",
        "404 model_not_found /v1/models/nobody",
    ]
    assert [line.strip() for line in taught.splitlines()] == TAUGHT.splitlines()
