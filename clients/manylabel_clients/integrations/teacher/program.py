"""Local programs as teachers: one run per example."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from typing import Any

from manylabel_clients.integrations.teacher.endpoint import TIMEOUT_SECONDS, TeacherUnusable, parsed_labels

MAX_ERROR_CHARACTERS = 300


class Program:
    """Program as the teacher of `with_teacher`.

    It reads an example as one line of JSON from standard input, and writes the labels to standard output: a JSON list,
    or an object with the list `labels`. An exit status other than 0 means that there is no answer.

    Parameters
    ----------
    command : str or sequence of str
        Program and arguments. No shell interprets it.
    timeout_seconds : float
        Timeout in seconds of a run, after which the program is killed.
    """

    def __init__(self, command: str | Sequence[str], timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._command = shlex.split(command) if isinstance(command, str) else list(command)
        if not self._command:
            raise ValueError("the command must begin with a program")
        self._timeout_seconds = timeout_seconds

    def __call__(self, x: Any) -> list[str]:
        """Return the labels of an example.

        Raises
        ------
        TeacherUnusable
            If the program cannot be started.
        TimeoutError, ValueError
        """
        line = json.dumps(x, ensure_ascii=False).encode() + b"\n"
        try:
            done = subprocess.run(
                self._command, input=line, capture_output=True, timeout=self._timeout_seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self._command[0]} took longer than {self._timeout_seconds:g} s") from None
        except (FileNotFoundError, PermissionError) as error:
            raise TeacherUnusable(f"cannot start {self._command[0]!r}: {error}") from error
        if done.returncode != 0:
            told = done.stderr.decode(errors="replace").strip()[-MAX_ERROR_CHARACTERS:]
            raise ValueError(f"{self._command[0]} ended with status {done.returncode}: {told}")
        return parsed_labels(done.stdout.decode(errors="replace"))
