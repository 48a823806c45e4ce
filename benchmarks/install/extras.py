"""Sizes and import times of the wheel, installed with each extra in an empty environment.

The size is that of all new files in site-packages, with the bytecode that pip compiles. Seconds are CPU time, which
depends less on other programs than wall-clock time. The seconds of an import are the minimum of several processes,
minus those of a process that imports nothing; those of the command `--version` include startup.
"""

import argparse
import resource
import subprocess
import tempfile
import venv
from pathlib import Path

REPEATS = 7
OF_VENV = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
"""Packages of an empty environment: pip and, in Python 3.11, setuptools."""
EXTRAS = {
    "": ("manylabel_clients",),
    "core": ("manylabel_clients", "manylabel_core", "manylabel_core.batch"),
    "river": ("manylabel_clients", "manylabel_clients.river"),
    "server": ("manylabel_clients", "manylabel_service.app"),
    "plots": ("manylabel_clients", "manylabel_clients.plots"),
    "all": ("manylabel_clients", "manylabel_clients.river", "manylabel_service.app"),
}
"""Imported packages by extra; the empty extra is the wheel alone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wheel", type=Path, help="the file that make dist has built")
    parser.add_argument("--extras", default=",".join(EXTRAS), help="by default all; the empty one is the wheel alone")


def run(args: argparse.Namespace) -> None:
    print(f"{'extra':<8}{'MB':>8}{'without bytecode':>18}  seconds to import")
    for extra in args.extras.split(","):
        with tempfile.TemporaryDirectory() as folder:
            python = installed(args.wheel.resolve(), extra, Path(folder))
            sizes = [size_bytes(Path(folder), with_bytecode) / 1e6 for with_bytecode in (True, False)]
            nothing = seconds([str(python), "-c", ""])
            times = [f"{name} {seconds([str(python), '-c', f'import {name}']) - nothing:.3f}" for name in EXTRAS[extra]]
            command = seconds([str(python.with_name("manylabel")), "--version"])
            print(f"{extra or '-':<8}{sizes[0]:>8.1f}{sizes[1]:>18.1f}  {', '.join(times)}; --version {command:.3f}")


def installed(wheel: Path, extra: str, folder: Path) -> Path:
    """Return the Python of a new environment that has the wheel with an extra."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    what = f"manylabel[{extra}] @ file://{wheel}" if extra else str(wheel)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", what], check=True)
    return python


def size_bytes(folder: Path, with_bytecode: bool) -> int:
    """Return the bytes of all files that were installed beside pip."""
    (packages,) = folder.glob("lib/python*/site-packages")
    files = (path for path in packages.rglob("*") if path.is_file() and not path.is_symlink())
    counted = (path for path in files if not path.relative_to(packages).parts[0].startswith(OF_VENV))
    return sum(path.stat().st_size for path in counted if with_bytecode or path.suffix != ".pyc")


def seconds(command: list[str]) -> float:
    """Return the minimum CPU time of several runs."""
    return min(map(_processor_seconds, [command] * REPEATS))


def _processor_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
