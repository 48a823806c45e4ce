"""The fuzzed parsers read their seeds, and refuse the findings of earlier runs."""

from pathlib import Path

import pytest
from tests.fuzz.targets import TARGETS

FINDINGS = sorted(Path(__file__).with_name("findings").glob("*-*"))


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_parsed(name: str) -> None:
    """Fuzzing needs seeds that the parser accepts."""
    target = TARGETS[name]
    if name not in ("model", "version", "dataset"):  # their seeds are changes
        for seed in target.seeds:
            target.parse(seed)
    for seed in target.seeds:
        target(seed)


def test_findings_are_refused() -> None:
    for path in FINDINGS:
        TARGETS[path.name.partition("-")[0]](path.read_bytes())
