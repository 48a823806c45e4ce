"""The programs of examples/, run as a user runs them, and compared with the output in their docstrings."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = {path.name: path for path in sorted((ROOT / "examples").glob("*.py"))}
SHOWN = {
    name: dedent((ast.get_docstring(ast.parse(path.read_text())) or "").partition("It prints:\n\n")[2])
    for name, path in EXAMPLES.items()
}
"""Output in the docstring of each example, by the name of its file."""

VARYING = {"in_front_of_a_teacher.py"}
"""Examples whose numbers vary from run to run, because audits are drawn at random."""


def run_example(name: str, address: str, *arguments: str) -> str:
    """Run an example against a server; return what it prints."""
    done = subprocess.run(
        [sys.executable, EXAMPLES[name], *arguments],
        env={**os.environ, "MANYLABEL_URL": address},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_shown(name: str, printed: str) -> None:
    """Assert that the words are those shown, and the numbers but for the last digit, unless they vary.

    Another processor may round otherwise. How many seconds something took is not compared.
    """
    shown = SHOWN[name]
    assert [_words(line) for line in printed.splitlines()] == [_words(line) for line in shown.splitlines()]
    if name not in VARYING:
        assert _numbers(printed) == pytest.approx(_numbers(shown), abs=0.011)


_SECONDS = re.compile(r"\d+\.\d+ s\b")


def _words(line: str) -> list[str]:
    return re.sub(r"\d+(\.\d+)?", "N", line).split()


def _numbers(text: str) -> list[float]:
    """Return the numbers of a text, shares in percent as shares."""
    found = re.findall(r"(\d+(?:\.\d+)?)(%?)", _SECONDS.sub("", text))
    return [float(n) / 100 if percent else float(n) for n, percent in found]
