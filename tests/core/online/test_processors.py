"""Learners learn the same bits whatever implementations the host chooses for its processor."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.core.online.learnt_bits import ELEMENTARY, make_streams
from tests.support.hosts import WITHOUT_FMA

pytestmark = pytest.mark.usefixtures("programs")

Digests = dict[str, dict[str, str]]
ROOT = Path(__file__).parents[3]


def without_dispatch() -> dict[str, str]:
    """Return the setting that has NumPy leave out all implementations for this processor but the oldest."""
    found: Any = np.show_config(mode="dicts")
    features = found.get("SIMD Extensions", {}).get("found", [])
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(features)} if features else {}


BASELINE = {"NUMBA_CPU_NAME": "x86-64" if platform.machine() == "x86_64" else "generic", "NUMBA_CPU_FEATURES": ""}
"""Compiled for the oldest processor of the architecture."""

HOSTS = {"libm": WITHOUT_FMA, "numpy": without_dispatch(), "blas": {"OPENBLAS_CORETYPE": "Prescott"}}


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("streams") / "streams.npz"
    np.savez(file, **make_streams(300))
    return file


def learnt(streams: Path, environment: dict[str, str], *arguments: str) -> Digests:
    """Return what a process with such an environment learns."""
    command = [sys.executable, "-m", "tests.core.online.learnt_bits", str(streams), *arguments]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment}
    done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    digests: Digests = json.loads(done.stdout)
    return digests


@pytest.fixture(scope="module")
def plain(streams: Path) -> Digests:
    return learnt(streams, {})


@pytest.mark.parametrize("host", HOSTS)
def test_each_learner_learns_the_same_bits(streams: Path, plain: Digests, host: str) -> None:
    assert plain
    assert learnt(streams, HOSTS[host]) == plain


def test_compiled_for_the_oldest_processor(streams: Path, plain: Digests) -> None:
    """The elementary functions alone: to compile the learners takes a minute, so the next test does it."""
    assert learnt(streams, BASELINE, ELEMENTARY) == {ELEMENTARY: plain[ELEMENTARY]}


@pytest.mark.long
@pytest.mark.parametrize("host", [*HOSTS, "numba"])
def test_each_learner_with_each_option(streams: Path, host: str) -> None:
    assert learnt(streams, {**HOSTS, "numba": BASELINE}[host], "--all") == learnt(streams, {}, "--all")
