"""What a benchmark ran on: goes above every table."""

import os
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path


def print_machine(*packages: str) -> None:
    """Print the date, the machine, and the versions of this project and of some packages."""
    python = f"Python {platform.python_version()}"
    print(f"{date.today()}, {platform.system()} {platform.machine()}, {os.cpu_count()} x {_processor()}, {python}")
    print(", ".join(f"{name} {version(name)}" for name in ("manylabel", *packages)))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
