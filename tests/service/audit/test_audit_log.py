"""The audit log of a process: calls are written soon, no request waits for the disk, and lost calls are counted."""

import asyncio
import errno
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import structlog
from tests.support.cases import for_each
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_service.audit import log as audit_log
from manylabel_service.audit.call import Call, subject
from manylabel_service.audit.log import AuditFile, AuditLog


def call(n: int, path: str = "/v1/models/m/update", route: str | None = "/v1/models/{name}/update") -> Call:
    return Call(1_763_900_000.5, "k", "127.0.0.1", f"r{n}", "POST", route, path, 200, None, position=str(n))


def written(path: Path) -> list[str]:
    return [json.loads(line)["request_id"] for line in path.read_text().splitlines()] if path.exists() else []


async def test_calls_are_written_in_the_background_and_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "audit.jsonl"
    log = AuditLog(AuditFile(path), lambda n: None)
    for n in range(3):
        log.add(call(n))
    await eventually_async(lambda: written(path) == ["r0", "r1", "r2"])
    log.add(call(3))
    await eventually_async(lambda: len(written(path)) == 4)
    log.add(call(4))
    await log.close()
    assert len(written(path)) == 5


async def test_without_a_disk_some_calls_wait_and_the_others_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "MAX_WAITING", 5)
    monkeypatch.setattr(audit_log, "RETRY_SECONDS", 0.01)
    lost: list[int] = []
    (tmp_path / "place").write_text("no directory")
    path = tmp_path / "place" / "audit.jsonl"
    log = AuditLog(AuditFile(path), lost.append)
    with pytest.raises(OSError, match="place"):
        await log.check()
    with structlog.testing.capture_logs() as lines:
        for n in range(4):
            log.add(call(n))
        await eventually_async(lambda: lines)
        await log.flush()  # waits for the running write attempt; afterwards all four calls are queued again
        for n in range(4, 9):
            log.add(call(n))
        await log.flush()
        assert sum(lost) == 4
        (tmp_path / "place").unlink()
        await eventually_async(lambda: len(written(path)) == 5)
        await eventually_async(lambda: len(lines) == 2)
    assert [line["event"] for line in lines] == ["audit_failed", "audit_recovered"], "once, not at each attempt"
    assert written(path) == [f"r{n}" for n in range(5)], "the oldest are kept"
    await log.close()


async def test_calls_of_two_failed_attempts_are_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second attempt takes the calls over before the first checks for waiting ones."""
    monkeypatch.setattr(audit_log, "RETRY_SECONDS", 0.01)
    path, begun, gate, is_broken = tmp_path / "audit.jsonl", list[bytes](), threading.Semaphore(0), True
    append = AuditFile.append

    def slow(file: AuditFile, text: bytes) -> None:
        begun.append(text)
        gate.acquire()
        if is_broken:
            raise OSError("broken")
        append(file, text)

    monkeypatch.setattr(AuditFile, "append", slow)
    log = AuditLog(AuditFile(path), lambda n: None)
    log.add(call(0))
    await eventually_async(lambda: len(begun) == 1)
    second = asyncio.create_task(log.flush())
    for _ in range(5):
        await asyncio.sleep(0)
    gate.release()
    await eventually_async(lambda: len(begun) == 2)
    gate.release()
    await second
    is_broken = False
    gate.release(100)
    await eventually_async(lambda: path.exists() and written(path) == ["r0"])
    await log.close()


async def test_an_unexpected_error_does_not_end_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "RETRY_SECONDS", 0.01)
    path, failures = tmp_path / "audit.jsonl", [RuntimeError("unexpected"), ValueError("unexpected")]
    append = AuditFile.append

    def failing(file: AuditFile, text: bytes) -> None:
        if failures:
            raise failures.pop()
        append(file, text)

    monkeypatch.setattr(AuditFile, "append", failing)
    log = AuditLog(AuditFile(path), lambda n: None)
    with structlog.testing.capture_logs() as lines:
        log.add(call(0))
        await eventually_async(lambda: written(path) == ["r0"])
        log.add(call(1))
        await eventually_async(lambda: written(path) == ["r0", "r1"])
    assert [line["event"] for line in lines] == ["audit_failed", "audit_recovered"]
    await log.close()


async def test_a_call_that_cannot_be_written_is_counted_alone(tmp_path: Path) -> None:
    lost: list[int] = []
    path = tmp_path / "audit.jsonl"
    log = AuditLog(AuditFile(path), lost.append)
    with structlog.testing.capture_logs() as lines:
        for each in (call(0), call(1)._replace(request_id="\ud800"), call(2)):
            log.add(each)
        await eventually_async(lambda: written(path) == ["r0", "r2"])
    assert sum(lost) == 1
    assert [line["event"] for line in lines] == ["audit_failed"]
    await log.close()


async def test_a_cancelled_flush_loses_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "WRITE_SECONDS", 3_600.0)
    path, may_go_on, began = tmp_path / "audit.jsonl", threading.Event(), threading.Event()
    append = AuditFile.append

    def fails_at_first(file: AuditFile, text: bytes) -> None:
        first = not began.is_set()
        began.set()
        assert may_go_on.wait(DEADLINE_SECONDS)
        if first:
            raise OSError("no room")
        append(file, text)

    monkeypatch.setattr(AuditFile, "append", fails_at_first)
    log = AuditLog(AuditFile(path), lambda n: None)
    log.add(call(0))
    flush = asyncio.create_task(log.flush())
    await eventually_async(began.is_set)
    flush.cancel()
    await asyncio.gather(flush, return_exceptions=True)
    may_go_on.set()
    await log.close()
    assert written(path) == ["r0"]


def test_a_file_that_is_moved_is_made_anew(tmp_path: Path) -> None:
    file = AuditFile(path := tmp_path / "audit.jsonl")
    file.append(b"1\n")
    path.rename(moved := tmp_path / "audit.jsonl.1")
    file.append(b"2\n")
    assert (moved.read_bytes(), path.read_bytes()) == (b"1\n", b"2\n")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_leaves_no_part_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = AuditFile(path := tmp_path / "audit.jsonl")
    file.append(b"1\n")
    write, room = os.write, [3, 0]

    def little(descriptor: int, data: bytes) -> int:
        if not (free := room.pop(0)):
            raise OSError(errno.ENOSPC, "no space left on device")
        return write(descriptor, data[:free])

    monkeypatch.setattr(audit_log.os, "write", little)
    with pytest.raises(OSError, match="no space"):
        file.append(b"23456\n")
    assert path.read_bytes() == b"1\n"


def test_lines_of_several_writers_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"

    def write(name: str) -> None:
        for n in range(100):
            AuditFile(path).append((f"{name}{n} " * 20_000 + "\n").encode() * 2)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, "ab"))
    lines = [line.split() for line in path.read_text().splitlines()]
    assert {len(line) for line in lines} == {20_000}
    assert {len(set(line)) for line in lines} == {1}
    for name in "ab":
        assert [line[0] for line in lines if line[0][0] == name][::2] == [f"{name}{n}" for n in range(100)]


@for_each(
    ("path", "found"),
    [
        ("/v1/models/m/update", {"model": "m"}),
        ("/v1/models/m", {"model": "m"}),
        ("/v1/models", {}),
        ("/v1/models/m/snapshots/17-3", {"model": "m", "target": "17-3"}),
        ("/v1/models/m/versions/4", {"model": "m", "target": "4"}),
        ("/v1/models/m/labels/rename", {"model": "m"}),
        ("/v1/models/m/labels/merge", {"model": "m"}),
        ("/v2/models/m/versions/4/infer", {"model": "m", "target": "4"}),
        ("/v1/label-studio/m/webhook", {"model": "m"}),
        ("/v1/datasets/d", {"dataset": "d"}),
        ("/v1/jobs/01J/retry", {"target": "01J"}),
        ("/v1/keys/ab12", {"target": "ab12"}),
        ("/v1/models/no name at all/update", {}),
        ("/v1/models/m/snapshots/what ever", {"model": "m"}),
        ("/", {}),
        ("", {}),
    ],
)
def test_the_subject_of_a_path(path: str, found: dict[str, str]) -> None:
    assert subject(path) == found


def test_a_line_of_an_unknown_path_has_no_subject() -> None:
    line = json.loads(call(1, "/v1/models/secret", None).to_json())
    assert line == {
        **dict.fromkeys(("route", "model", "dataset", "target", "code", "lines", "models")),
        "time": "2025-11-23T12:13:20.500Z",
        "key_id": "k",
        "address": "127.0.0.1",
        "request_id": "r1",
        "method": "POST",
        "status": 200,
        "position": "1",
    }
