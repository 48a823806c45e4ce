"""Compilation of functions at the start of a server: what waits, what is reported, and what a failure changes."""

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import IO

import pytest
from tests.support.waiting import eventually_async

from manylabel_core.kernels import Counts
from manylabel_service.hosting.kernels import SERVED, Compiling, Gate, Kernels, NotCompiled, show


class Disk:
    """Functions on disk, ten a tier, and the programs that were started to compile them."""

    def __init__(self, *complete: str) -> None:
        self.stored = {tier: 10 if tier in complete else 0 for tier in SERVED}
        self.loaded: list[str] = []
        self.started: list[Sequence[str]] = []
        self.children: list[asyncio.subprocess.Process] = []
        self.failing: set[str] = set()
        self.slow = set(SERVED)
        """Tiers whose loading waits for `may_load`."""
        self.may_load = threading.Event()
        self.may_load.set()
        self.gate = Gate()

    def count(self, tiers: Sequence[str]) -> Counts:
        return Counts(sum(self.stored[tier] for tier in tiers), 10 * len(tiers))

    def load(self, tiers: Sequence[str]) -> None:
        if self.slow.intersection(tiers):
            self.may_load.wait()
        if self.failing.intersection(tiers):
            raise RuntimeError("numba fails")
        self.loaded += tiers

    def program(self, code: str) -> Callable[[Sequence[str], IO[bytes]], Awaitable[asyncio.subprocess.Process]]:
        async def start(tiers: Sequence[str], errors: IO[bytes]) -> asyncio.subprocess.Process:
            self.started.append(list(tiers))
            self.children.append(await asyncio.create_subprocess_exec(sys.executable, "-Sc", code, stderr=errors))
            return self.children[-1]

        return start

    def kernels(self, code: str = "import time; time.sleep(600)") -> Kernels:
        return Kernels(self.gate, self.count, self.load, self.program(code), poll_seconds=0.01)


async def test_the_server_is_ready_with_base_and_loads_what_else_is_on_disk_afterwards() -> None:
    disk = Disk(*SERVED)
    disk.slow = set(SERVED[1:])
    disk.may_load.clear()
    kernels = disk.kernels()
    await kernels.start()
    assert (disk.loaded, disk.gate.closed) == (["base"], set(SERVED[1:]))
    waiting = asyncio.create_task(disk.gate.wait(SERVED, on_disk=True))
    await eventually_async(lambda: disk.gate.waits)
    disk.may_load.set()
    await waiting
    assert (disk.loaded, disk.started, disk.gate.closed) == (list(SERVED), [], frozenset())
    await kernels.start()
    await kernels.stop()
    assert disk.loaded == list(SERVED)


async def test_what_waits_for_a_tier_on_disk_ends_when_it_turns_out_to_be_missing() -> None:
    gate = Gate()
    gate.close(SERVED)
    gate.note({"vectors": Counts(9, 10)}, None)
    with pytest.raises(NotCompiled, match="vectors are being compiled, 9 of 10"):
        await gate.wait(("base", "vectors"), on_disk=True)
    waiting = asyncio.create_task(gate.wait(("groups",), on_disk=True))
    await eventually_async(lambda: gate.waits)
    gate.note({"groups": Counts(0, 10)}, None)
    with pytest.raises(NotCompiled, match="labels are being compiled, 9 of 20"):
        await waiting


@pytest.mark.usefixtures("programs")
async def test_the_server_is_ready_with_base_and_the_rest_is_loaded_as_it_is_compiled() -> None:
    disk = Disk("groups")
    kernels = disk.kernels()
    starting = asyncio.create_task(kernels.start())
    await eventually_async(lambda: disk.started)
    assert disk.started == [[tier for tier in SERVED if tier != "groups"]]
    assert disk.loaded == ["groups"]
    disk.stored["base"] = 5
    await eventually_async(lambda: "5 of 10" in str(disk.gate.refusal(("base",))))
    assert not starting.done()
    disk.stored["base"] = 10
    await starting
    assert disk.loaded == ["groups", "base"]
    assert disk.gate.closed == set(SERVED) - {"base", "groups"}
    disk.gate.require(("base", "groups"))
    with pytest.raises(NotCompiled, match="functions for kernel learners are being compiled, 20 of 70"):
        disk.gate.require(("base", "kernel"))
    waiting = asyncio.create_task(disk.gate.wait(("vectors", "kernel")))
    disk.stored = dict.fromkeys(SERVED, 10)
    await waiting
    await eventually_async(lambda: not disk.gate.closed)
    await kernels.stop()
    assert sorted(disk.loaded) == sorted(SERVED)


async def test_progress_and_estimate_are_of_what_is_compiled_until_then() -> None:
    gate = Gate()
    gate.close(SERVED)
    gate.note({tier: Counts(4, 10) for tier in SERVED}, 0.5)
    assert gate.compiling(("base",)) == (4, 10, 3.0)
    assert gate.compiling(("groups",)) == (12, 30, 9.0)
    assert gate.compiling(SERVED) == (28, 70, 21.0)
    error = gate.refusal(("groups",))
    assert error.retry_after == 9.0
    assert "being compiled, 12 of 30, about 9 s" in str(error)
    gate.open(("base", "vectors"))
    assert gate.compiling(("groups",)) == (24, 30, 3.0)
    assert gate.compiling(("base",)) is None
    gate.note({"groups": Counts(10, 10)}, 0.5)
    assert "are being loaded" in str(gate.refusal(("groups",)))


def test_a_terminal_shows_a_bar_which_the_log_overwrites(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, its = os.openpty()
    with open(ours, "rb", buffering=0) as screen, open(its, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        show(Compiling(15, 30, 12.4))
        drawn = screen.read(1000).decode()
        assert drawn == "\r\x1b[K" + "━" * 15 + "╌" * 15 + " compiling 15 of 30, about 12 s\r"
        show(None)
        assert screen.read(1000).decode() == "\r\x1b[K\r"


def test_a_file_gets_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    show(Compiling(15, 30, None))
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("code", ["raise SystemExit('full')", "pass", "import os; os.kill(os.getpid(), 9)"])
async def test_this_process_compiles_what_a_failed_child_left(code: str) -> None:
    disk = Disk("base")
    kernels = disk.kernels(code)
    await kernels.start()
    await disk.gate.wait(SERVED)
    assert disk.loaded == list(SERVED)
    await kernels.stop()


async def test_a_child_that_cannot_be_started_is_not_needed() -> None:
    async def start(tiers: Sequence[str], errors: IO[bytes]) -> asyncio.subprocess.Process:
        raise OSError("no memory")

    disk = Disk()
    kernels = Kernels(disk.gate, disk.count, disk.load, start)
    await kernels.start()
    await disk.gate.wait(SERVED)
    assert disk.loaded == list(SERVED)


async def test_nothing_waits_for_a_tier_that_cannot_be_loaded() -> None:
    disk = Disk(*SERVED)
    disk.failing = {"base", "sparse"}
    kernels = disk.kernels()
    await kernels.start()
    await disk.gate.wait(SERVED)
    disk.gate.require(SERVED)


@pytest.mark.usefixtures("programs")
async def test_a_tier_that_cannot_be_loaded_is_opened_and_the_others_are_compiled() -> None:
    disk = Disk("groups", "sparse")
    disk.failing = {"groups", "options"}
    kernels = disk.kernels()
    starting = asyncio.create_task(kernels.start())
    await eventually_async(lambda: disk.children)
    assert disk.gate.closed == set(SERVED) - {"groups", "sparse"}
    disk.stored |= {"base": 10, "options": 10}
    await starting
    await disk.gate.wait(("options",))
    assert disk.gate.closed == {"vectors", "promise", "kernel"}
    assert disk.children[0].returncode is None
    disk.stored = dict.fromkeys(SERVED, 10)
    await disk.gate.wait(SERVED)
    await kernels.stop()
    assert sorted(disk.loaded) == sorted(set(SERVED) - disk.failing)


@pytest.mark.usefixtures("programs")
async def test_stopping_ends_the_child_and_what_waits() -> None:
    disk = Disk("base")
    kernels = disk.kernels()
    await kernels.start()
    await eventually_async(lambda: disk.children)
    waiting = asyncio.create_task(disk.gate.wait(("kernel",)))
    await asyncio.sleep(0)
    await kernels.stop()
    with pytest.raises(NotCompiled):
        await waiting
    assert disk.children[0].returncode is not None


async def test_a_slow_load_does_not_hold_the_event_loop() -> None:
    disk = Disk(*SERVED)
    disk.may_load.clear()
    kernels = disk.kernels()
    starting = asyncio.create_task(kernels.start())
    await eventually_async(lambda: disk.gate.closed == set(SERVED))
    with pytest.raises(NotCompiled, match="are being loaded"):
        disk.gate.require(("base",))
    disk.may_load.set()
    await starting
    disk.gate.require(("base",))
