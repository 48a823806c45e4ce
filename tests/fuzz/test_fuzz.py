"""Seeds of the fuzzed parsers are read, and what fuzzing found once is refused properly ever after."""

from pathlib import Path

import pytest
from tests.fuzz.targets import TARGETS

FINDINGS = sorted(Path(__file__).with_name("findings").glob("*-*"))


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_parsed(name: str) -> None:
    """A target whose seeds are all refused would be fuzzed in vain."""
    target = TARGETS[name]
    if name not in ("model", "version", "dataset"):  # their seeds are changes
        for seed in target.seeds:
            target.parse(seed)
    for seed in target.seeds:
        target(seed)


def test_findings_are_refused() -> None:
    for path in FINDINGS:
        TARGETS[path.name.partition("-")[0]](path.read_bytes())
