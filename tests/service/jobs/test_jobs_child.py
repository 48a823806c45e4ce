"""The training process alone."""

import asyncio
import fcntl
import json
import os
import signal
import sys
import termios
import time

import numpy as np
import pytest
from tests.service.jobs.conftest import LONG, WAIT_SECONDS, complete, run_child, songs, started_child
from tests.support.lanes import in_rest
from tests.support.processes import is_stopped
from tests.support.waiting import eventually_async

from manylabel_core.datasets import Dataset
from manylabel_core.kernels import compile_missing
from manylabel_service.forking import client
from manylabel_service.forking.client import ForkServer
from manylabel_service.jobs.training.child import ORPHANED
from manylabel_service.jobs.training.request import Part

DATA = songs()
ENDLESS = {"params": {**LONG["params"], "max_iter": 1_000_000}, "niceness": 3}


@pytest.fixture(scope="module", autouse=True)
@in_rest  # training processes
def _compiled(tmp_path_factory):
    """The functions that these tests need are compiled: a child that compiles takes more memory, and says so first."""
    place = tmp_path_factory.mktemp("compiled")
    (place / "data").write_bytes(DATA.to_bytes())
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        for params in ({}, {"kernel": "rbf", "gamma": 0.05}):
            held = Part(file="data", split="test")
            told = runner.run(run_child(place, params={**params, "max_iter": 2}, held=held))
            assert told[-1]["event"] == "result", told


@pytest.fixture
def place(tmp_path):
    (tmp_path / "data").write_bytes(DATA.to_bytes())
    return tmp_path


async def test_the_reason_of_a_refusal_is_reported(place):
    told = await run_child(place, params={"R": [[1.0]]})
    assert (told[-1]["event"], told[-1]["code"]) == ("failed", "training_refused")
    assert told[-1]["detail"].startswith("R must have the shape")


async def test_too_little_memory_is_reported(tmp_path):
    big = np.random.default_rng(0).normal(size=(8000, 5)).astype(np.float32)
    labels = (big[:, :2] > 0).astype(np.int8)
    (tmp_path / "data").write_bytes(Dataset.of(big, labels, ("a", "b")).to_bytes())
    rows, params = Part(file="data", split=None), {"kernel": "rbf", "max_iter": 1}
    told = await run_child(tmp_path, rows=rows, params=params, memory_bytes=450 * 2**20)
    assert (told[-1]["event"], told[-1]["code"]) == ("failed", "out_of_memory")


async def test_a_child_ends_when_its_deadline_is_not_renewed(place):
    async with started_child(place, **ENDLESS) as process:
        while json.loads(await process.stdout.readline())["event"] != "progress":
            pass
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 3
        process.send_signal(signal.SIGINT)  # Ctrl+C is for the supervisor
        process.stdin.write(b"%.3f\n" % time.monotonic())
        await process.stdout.read()
        assert await process.wait() == ORPHANED


def has_read(stdin):
    """Return whether everything that was sent was read."""
    return not int.from_bytes(fcntl.ioctl(stdin.get_extra_info("socket"), termios.TIOCOUTQ, bytes(4)), sys.byteorder)


async def test_a_child_that_was_stopped_uses_the_latest_deadline(place):
    for seconds in (3.0, 30.0, WAIT_SECONDS):  # a busy machine may need more until the child has read it and stands
        begun = time.monotonic()
        async with started_child(place, **ENDLESS) as process:
            await process.stdout.readline()
            ends = time.monotonic() + seconds
            process.stdin.write(b"%.3f\n" % ends)
            await eventually_async(lambda: has_read(process.stdin))
            process.send_signal(signal.SIGSTOP)
            await eventually_async(lambda process=process: process.returncode is not None or is_stopped(process.pid))
            if time.monotonic() > ends:
                continue
            await eventually_async(lambda ends=ends: time.monotonic() > ends)  # its deadline passes while it is stopped
            process.stdin.write(b"%.3f\n" % (time.monotonic() + WAIT_SECONDS))
            stood_until = time.monotonic() - begun
            process.send_signal(signal.SIGCONT)
            while json.loads(await process.stdout.readline()).get("seconds", 0.0) <= stood_until:
                pass  # told before
            process.stdin.write_eof()  # its supervisor is gone
            await process.stdout.read()
            assert await process.wait() == ORPHANED
            return
    pytest.fail("the child never stood still in time")


@pytest.mark.long
async def test_the_first_fit_of_a_trainer_reports_the_compilation(place, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.setattr(client, "fork_server", ForkServer())  # which has this variable
    texts = []
    for _ in range(2):
        told = await run_child(place, trainer="prbr", params=complete("prbr", {"max_iter": 2}), segment_work=1e9)
        texts.append([line["text"] for line in told if line["event"] == "log" and "compiling" in line["text"]])
        assert told[-1]["event"] == "result", told
    assert texts == [["compiling the functions of prbr, once on this machine, which takes up to a minute"], []]


@pytest.mark.long
async def test_a_worker_compiles_what_fits_need(place):
    compile_missing(("base", "trainers"))
    for trainer, params in (("m3l", {}), ("m3l", {"kernel": "rbf"}), ("mlrl", {}), ("prml", {})):
        told = await run_child(
            place, trainer=trainer, params=complete(trainer, {**params, "max_iter": 2}), segment_work=1e9
        )
        assert told[-1]["event"] == "result", told
        assert not [line for line in told if "compiling" in line.get("text", "")]
