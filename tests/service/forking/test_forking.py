"""Children of the fork server: their streams and files, and their end when a process ends or hangs."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.forked_server import LoadedForkServer
from tests.support.processes import FORK_SERVER, has_ended, is_stopped, processes
from tests.support.waiting import DEADLINE_SECONDS, eventually, eventually_async

from manylabel_service.forking import client
from manylabel_service.forking.client import Child, ForkServer, start

TASKS = "tests.service.forking.tasks"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    """A fork server of this test's own, which it may kill."""
    server = LoadedForkServer()
    monkeypatch.setattr(client, "fork_server", server)
    yield server
    server.end()


def is_gone(pid: int) -> bool:
    """Return whether a process has ended, and its exit status was asked for."""
    return not Path(f"/proc/{pid}").exists()


def children(server: ForkServer) -> str:
    """Return the process ids of the children of a fork server."""
    return Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text()


async def works() -> bool:
    """Return whether the next task is done."""
    with tempfile.TemporaryFile() as file:
        child = await start(TASKS, "write", threads=1, files=[file.fileno()])
        await child.communicate(b"")
        await child.kill()
        return (child.returncode, os.pread(file.fileno(), 10, 0)) == (0, b"written")


async def waiting() -> Child:
    """A child that waits for ever."""
    child = await start(TASKS, "wait", threads=1)
    assert await child.stdout.readline() == b"waits\n"
    return child


async def test_a_child_has_only_its_own_streams_and_files(tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w"), tempfile.TemporaryFile() as file:
        others = await waiting()
        child = await start(TASKS, "tell", threads=2, files=[file.fileno()])
        out, err = await child.communicate(b"an input")
        await child.kill()
        await others.kill()
    assert child.returncode == 7
    assert err == b"an error\n"
    told = json.loads(out)
    assert told["input"] == "an input"
    assert told["parent"] == client.fork_server.pid
    assert told["threads"] == ["1", [2]]
    names = {int(number): name for number, name in told["descriptors"].items()}
    (report,) = set(names) - {0, 1, 2, *told["files"]}
    assert all(names[number].startswith("socket:") for number in (0, 1, 2, report))
    assert [name.endswith("(deleted)") for name in (names[number] for number in told["files"])] == [True]


async def test_a_child_that_fails_reports_the_error() -> None:
    child = await start(TASKS, "raise", threads=1)
    _, err = await child.communicate(b"")
    await child.kill()
    assert child.returncode == 1
    assert b"an unexpected error" in err


async def test_a_killed_child_reports_the_signal() -> None:
    child = await waiting()
    child.send_signal(signal.SIGTERM)
    assert await child.stdout.read() == b""
    assert await child.wait() == -signal.SIGTERM
    await child.kill()


async def test_the_fork_server_has_one_thread() -> None:
    assert await works()
    assert len(os.listdir(f"/proc/{client.fork_server.pid}/task")) == 1


async def test_a_cancelled_task_leaves_no_child(server: ForkServer) -> None:
    beginning = asyncio.create_task(waiting())
    await eventually_async(lambda: server.pid is not None)
    beginning.cancel()
    await asyncio.gather(beginning, return_exceptions=True)
    assert await works()
    await eventually_async(lambda: children(server) == "")


async def test_a_cancelled_start_leaves_no_child(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even one that is forked after the cancellation."""
    assert await works()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    await eventually_async(lambda: is_stopped(server.pid or 0))
    sent: list[bytes] = []
    send = server.send

    def noted(process: client.Process, request: bytes, fds: Sequence[int]) -> None:
        send(process, request, fds)
        sent.append(request)

    monkeypatch.setattr(server, "send", noted)
    starting = asyncio.create_task(start(TASKS, "wait", threads=1))
    await eventually_async(lambda: sent)
    starting.cancel()
    asyncio.get_running_loop().call_later(0.1, os.kill, server.pid, signal.SIGCONT)  # the cancellation comes before
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert await works()
    assert children(server) == ""


async def test_a_killed_fork_server_is_replaced(server: ForkServer) -> None:
    child = await waiting()
    assert server.pid is not None
    killed = server.pid
    os.kill(killed, signal.SIGKILL)
    assert await child.stdout.read() == b""
    assert await child.wait() == -signal.SIGKILL
    await child.kill()
    await eventually_async(lambda: has_ended(child.pid))
    assert await works()
    assert server.pid != killed
    assert is_gone(killed)


class ShortOnce:
    """A timeout that is short when it is first used, and long for the server that takes over."""

    seconds = 0.1

    def __radd__(self, now: float) -> float:
        ends = now + self.seconds
        self.seconds = DEADLINE_SECONDS
        return ends


async def hung(server: ForkServer) -> int:
    """Stop the fork server; return its pid."""
    assert server.pid is not None
    pid = server.pid
    os.kill(pid, signal.SIGSTOP)
    await eventually_async(lambda: is_stopped(pid))
    return pid


async def test_a_fork_server_hanging_at_a_start_is_replaced(
    server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = await waiting()
    pid = await hung(server)
    monkeypatch.setattr(client, "ANSWER_SECONDS", ShortOnce())
    assert await works()
    assert server.pid != pid
    assert is_gone(pid)
    assert await child.stdout.read() == b""
    await child.kill()
    await eventually_async(lambda: has_ended(child.pid))


async def test_a_fork_server_hanging_at_an_end_is_replaced(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    child = await waiting()
    pid = await hung(server)
    with monkeypatch.context() as patch:
        patch.setattr(client, "ANSWER_SECONDS", 0.1)
        await child.kill()
    await eventually_async(lambda: has_ended(child.pid))
    assert is_gone(pid)
    assert await works()


PARENT = """
import asyncio, os, signal, sys
from manylabel_service.forking import client

async def main():
    child = await client.start("tests.service.forking.tasks", "wait", threads=1)
    await child.stdout.readline()
    print(client.fork_server.pid, child.pid, flush=True)
    if sys.argv[1] == "hung":
        os.kill(client.fork_server.pid, signal.SIGSTOP)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("state", ["running", "hung"])
def test_the_children_of_a_killed_process_end(state: str) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, state], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert processes(FORK_SERVER, ancestor=parent.pid) >= {pids[0]}
        if state == "hung":
            eventually(lambda: is_stopped(pids[0]))
        parent.kill()
        eventually(lambda: all(has_ended(pid) for pid in pids))


async def test_a_fork_server_that_cannot_start_is_an_error(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        patch.setattr(LoadedForkServer, "launch", ForkServer.launch)
        with pytest.raises(client.CannotStart):
            await works()
    assert await works()


@pytest.mark.usefixtures("programs")
async def test_a_signal_for_a_child_that_has_ended_reaches_no_other_process(server: ForkServer) -> None:
    """The child was reaped, and its process id now belongs to another process."""
    child = await start(TASKS, "raise", threads=1)
    await child.stderr.read()
    await eventually_async(lambda: is_gone(child.pid))
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "print(flush=True); input()", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert await other.stdout.readline() == b"\n"
    child.pid = other.pid
    child.send_signal(signal.SIGSTOP)
    await child.kill()
    assert await works()
    assert not is_stopped(other.pid)
    await other.communicate(b"\n")
    assert other.returncode == 0


async def test_signals_sent_together_arrive_before_the_next_task(server: ForkServer) -> None:
    children = [await waiting() for _ in range(3)]
    for child in children:
        child.send_signal(signal.SIGSTOP)
        child.send_signal(signal.SIGKILL)
    assert await works()
    assert [await child.wait() for child in children] == [-signal.SIGKILL] * 3
    for child in children:
        await child.kill()


async def test_a_fork_server_that_does_not_end_blocks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No signal takes effect while a process hangs in the kernel, in a call of a file system."""
    ended = threading.Event()

    class Unkillable:
        pid = 0

        def kill(self) -> None:
            pass

        def wait(self) -> int:
            ended.wait()
            return 0

    class Server(LoadedForkServer):
        launched = 0

        def launch(self, control: socket.socket) -> Any:
            self.launched += 1
            return Unkillable() if self.launched == 1 else super().launch(control)

    monkeypatch.setattr(client, "fork_server", server := Server())
    try:
        assert await works()
        assert server.launched == 2
    finally:
        ended.set()
        server.end()
