"""Break the places in turn, and print which lanes of the tests detect each."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.lanes import LANES

from benchmarks.mutations.places import PLACES, Place

ROOT = Path(__file__).parents[2]
CODE = ("core", "service", "clients", "benchmarks", "docs", "examples", "deploy", "pyproject.toml")


def main() -> int:
    """Return 1 if a broken place was not detected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", nargs="*", type=int, help="numbers of places; all without any")
    parser.add_argument("--tests", type=Path, default=ROOT / "tests", help="the folder tests of another checkout")
    given = parser.parse_args()
    unnoticed = 0
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for each in (ROOT / part for part in CODE):
            (shutil.copytree if each.is_dir() else shutil.copy2)(each, copy / each.name)
        shutil.copytree(given.tests, copy / "tests")
        for number in given.places or range(len(PLACES)):
            place = PLACES[number]
            lanes = [lane for lane in LANES if notices(copy, place, lane)]
            unnoticed += not lanes
            print(f"{number:3} {'+'.join(lanes) or 'UNNOTICED':12} {place.file}", flush=True)
    return min(unnoticed, 1)


def notices(copy: Path, place: Place, lane: str) -> bool:
    """Return whether a test of the lane fails when the place is broken."""
    file = copy / place.file
    original = file.read_text()
    assert original.count(place.text) == 1, place
    file.write_text(original.replace(place.text, place.broken))
    try:
        # The copy has separate compiled functions: callers of a broken function are compiled again.
        paths = os.pathsep.join(str(copy / part) for part in ("core", "service", "clients"))
        tests = [test for test in place.tests.split() if (copy / test).exists()]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "-p", "no:cacheprovider", "--lane", lane, *tests],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        file.write_text(original)
    # pytest-xdist may end with 2, interrupted, when a first failure stops it; with 5 the lane has none of these tests.
    assert done.returncode in (0, 1, 5) or "stopping after 1 failures" in done.stdout, done.stdout[-2000:]
    return done.returncode not in (0, 5)


if __name__ == "__main__":
    sys.exit(main())
