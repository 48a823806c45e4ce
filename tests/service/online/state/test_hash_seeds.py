"""States do not depend on the order of sets, which is another one in each process (`PYTHONHASHSEED`)."""

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.service.online.folds import LIMITED, SPECS, Log, fold_one_by_one, logs, named, new_model
from tests.support.lanes import in_rest

from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.online.state.apply import LogEntry
from manylabel_service.online.state.log_entries import Update, decode, encode

Process = subprocess.Popen[str]


@pytest.fixture(scope="module")
@in_rest
def processes() -> Iterator[list[Process]]:
    """Start two processes that learn logs, each with another order of sets."""
    command = [sys.executable, "-m", __name__]
    with ExitStack() as stack:
        started = []
        for seed in ("1", "2"):
            environment = {**os.environ, "PYTHONHASHSEED": seed}
            process = Process(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            started.append(stack.enter_context(process))
        yield started


def digest(spec: dict[str, Any], log: Log) -> str:
    """Return the hash of the state after a log."""
    model = new_model(**spec)
    fold_one_by_one(model, log)
    return hashlib.sha256(model.to_bytes()).hexdigest()


def digest_by(process: Process, spec: dict[str, Any], log: Log) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    entries = [[entry.position, base64.b64encode(encode(entry.change)).decode()] for entry in log]
    process.stdin.write(json.dumps([spec, entries]) + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


@given(spec=st.sampled_from(SPECS + LIMITED), log=logs())
@settings(deadline=None, max_examples=150)
def test_the_state_after_a_log(processes: list[Process], spec: dict[str, Any], log: Log) -> None:
    assert {digest_by(process, spec, log) for process in processes} == {digest(spec, log)}


def test_many_new_names_at_once(processes: list[Process]) -> None:
    """Test with large sets, because small ones often have the same order by chance."""
    x = named(**{f"{letter}=x": 1.0 for letter in "abcdefghij"}, **dict.fromkeys("klmnop", 2.0))
    update = Update((Example(x, Labels.all_of(list("uvwxyz"))),))
    log = [LogEntry(str(position), update) for position in range(1, 4)]
    assert {digest_by(process, {}, log) for process in processes} == {digest({}, log)}


def main() -> None:
    """Print the digest of each log of the standard input."""
    for line in sys.stdin:
        spec, entries = json.loads(line)
        log = [LogEntry(position, decode(base64.b64decode(payload))) for position, payload in entries]
        sys.stdout.write(digest(spec, log) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
