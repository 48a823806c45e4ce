"""The worked examples run against a server, and print what their page shows."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SHOWN = dict(
    re.findall(r"\]\(\.\./examples/(\w+\.py)\).*?```text\n(.*?)```", (ROOT / "docs/examples.md").read_text(), re.S)
)


@pytest.fixture(scope="module")
def address(server_process: Callable[..., Any]) -> str:
    return str(server_process("--job-niceness", "0").start().url)


def test_every_example_is_shown() -> None:
    assert SHOWN.keys() == {path.name for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, address: str) -> None:
    """The words are the same, and so are the numbers but for the last digit: another processor may round otherwise."""
    done = subprocess.run(
        [sys.executable, path],
        env={**os.environ, "MANYLABEL_URL": address},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    printed, shown = done.stdout.splitlines(), SHOWN[path.name].splitlines()
    assert [without_numbers(line) for line in printed] == [without_numbers(line) for line in shown]
    assert numbers(done.stdout) == pytest.approx(numbers(SHOWN[path.name]), abs=0.011)


def without_numbers(line: str) -> str:
    return re.sub(r"\d+(\.\d+)?", "N", line)


def numbers(text: str) -> list[float]:
    """The numbers of a text, shares in percent as shares."""
    return [float(n) / 100 if percent else float(n) for n, percent in re.findall(r"(\d+(?:\.\d+)?)(%?)", text)]
