"""Log lines, as JSON and as text, of this program and of its libraries."""

import json
import os
import pty
import subprocess
import sys

import pytest
from tests.support.waiting import DEADLINE_SECONDS

pytestmark = pytest.mark.usefixtures("programs")

PROGRAM = """
import logging, sys, structlog
from manylabel_service.settings import Settings
from manylabel_service.telemetry.logs import configure_logging

configure_logging(Settings(log_format=sys.argv[1], log_level=sys.argv[2]))
log = structlog.get_logger()

def handle(password):
    return 1 / 0

try:
    handle("s3cret")
except ZeroDivisionError:
    log.exception("broken", request_id="r-1")
log.info("detail", model="tags")
logging.getLogger("uvicorn.error").error("of a %s", "library")
logging.getLogger("uvicorn.error").info("chatter")
"""


def printed(log_format: str, log_level: str) -> str:
    command = [sys.executable, "-c", PROGRAM, log_format, log_level]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout == ""
    return done.stderr


def test_json_lines_have_tracebacks_without_values_of_variables() -> None:
    text = printed("json", "info")
    broken, detail, library = map(json.loads, text.splitlines())
    assert (broken["event"], broken["level"], broken["request_id"]) == ("broken", "error", "r-1")
    assert "ZeroDivisionError" in str(broken["exception"])
    assert (detail["event"], detail["model"]) == ("detail", "tags")
    assert (library["event"], library["level"]) == ("of a library", "error")
    assert all(line["timestamp"].endswith("Z") for line in (broken, detail, library))
    assert "s3cret" not in text


def test_console_lines_have_colours_only_on_a_terminal() -> None:
    lines = printed("console", "info").splitlines()
    assert not [line for line in lines if "\x1b" in line]
    places = {line.index(mark) for line, mark in ((lines[0], "request_id="), (lines[-2], "model="))}
    assert len(places) == 1, "fields stand below each other"
    assert "ZeroDivisionError" in "".join(lines)

    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, "console", "info"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # the terminal is closed once the program has ended
        pass
    os.close(ours)
    assert process.wait(DEADLINE_SECONDS) == 0
    assert b"\x1b[" in shown


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_the_log_level_applies_to_libraries(log_format: str) -> None:
    text = printed(log_format, "error")
    assert "broken" in text
    assert "of a library" in text
    assert "detail" not in text
    assert "chatter" not in text
