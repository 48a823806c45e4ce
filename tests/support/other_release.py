"""Another release of the package in a directory of its own, to run beside this one.

It is put before this one in the path of a process: ``server_process(..., release=directory)``.
"""

import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("core/manylabel_core", "service/manylabel_service")


def copied(directory: Path, changes: Mapping[str, tuple[str, str]]) -> Path:
    """Make a copy of the service, with changes: in which file of it what becomes what. It shares core with this one."""
    package = directory / "manylabel_service"
    shutil.copytree(ROOT / PACKAGES[1], package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, (before, after) in changes.items():
        text = (package / name).read_text()
        assert text.count(before) == 1, f"{name} has {before!r} {text.count(before)} times"
        (package / name).write_text(text.replace(before, after))
    return directory


def at_commit(directory: Path, commit: str) -> Path | None:
    """Make the packages as they were at a commit; None where its history is not there.

    Files that are the same keep what was compiled of them.
    """
    try:
        archive = _git("archive", commit, *PACKAGES)
    except (OSError, subprocess.CalledProcessError):
        return None
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(directory / "commit", filter="data")
    for package in PACKAGES:
        target = directory / Path(package).name
        shutil.copytree(ROOT / package, target)
        theirs = directory / "commit" / package
        for path in target.rglob("*.py"):
            if not (theirs / path.relative_to(target)).exists():
                path.unlink()
        for path in theirs.rglob("*"):
            ours = target / path.relative_to(theirs)
            if path.is_file() and not (ours.exists() and ours.read_bytes() == path.read_bytes()):
                ours.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, ours)
    return directory


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout
