"""Fuzz one target: ``python -m tests.fuzz TARGET SECONDS``; without arguments, list the targets.

Coverage guides atheris (libFuzzer) from the seeds. An input that raises what it may not, takes over 20 seconds or 2 GB
is written to the directory `findings`, where `test_fuzz.py` reads it ever after.
"""

import sys
import tempfile
from pathlib import Path

import atheris

import manylabel_core

FINDINGS = Path(__file__).parent / "findings"


def compiled() -> list[str]:
    """Return the names of the modules that numba compiles, which must stay as they are."""
    root = Path(manylabel_core.__file__).parent
    files = (path.relative_to(root.parent).with_suffix("") for path in root.rglob("_*.py"))
    return [".".join(path.parts) for path in files if not path.name.startswith("__")]


def main(name: str, seconds: int) -> None:
    """Fuzz; does not return."""
    with atheris.instrument_imports(include=["manylabel_core", "manylabel_service"], exclude=compiled()):
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(target.seeds):
            Path(corpus, f"seed-{number}").write_bytes(seed)
        limits = ["-timeout=20", "-rss_limit_mb=2048", "-max_len=4096", "-len_control=0", f"-max_total_time={seconds}"]
        atheris.Setup([sys.argv[0], corpus, f"-artifact_prefix={FINDINGS}/{name}-", *limits], target)
        atheris.Fuzz()


if len(sys.argv) == 3:
    main(sys.argv[1], int(sys.argv[2]))
else:
    from tests.fuzz.targets import TARGETS

    print(*TARGETS, sep="\n")  # noqa: T201
