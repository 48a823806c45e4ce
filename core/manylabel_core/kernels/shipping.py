"""Compiled functions put into the package, so that a machine with the same Python and numba compiles nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from numba.core.caching import UserProvidedCacheLocator

from manylabel_core.compiled import PACKAGE, SHIPPED, TARGETS
from manylabel_core.kernels.listing import BUILT_FOR, environment


def ship() -> None:
    """Compile all specialisations for each target, and copy them into the package.

    Raises
    ------
    subprocess.CalledProcessError
        A specialisation could not be compiled; the message is on standard error.
    """
    shutil.rmtree(SHIPPED, ignore_errors=True)  # a process that compiles for the package must not find any
    with TemporaryDirectory() as directory:
        for target in TARGETS:
            own = {"NUMBA_CACHE_DIR": directory, "NUMBA_CPU_NAME": target, "NUMBA_CPU_FEATURES": ""}
            command = [sys.executable, "-P", "-m", __package__, "compile"]
            subprocess.run(command, env=os.environ | own, check=True)
        for folder in {file.parent for file in PACKAGE.rglob("_*.py")}:
            stored = Path(directory) / UserProvidedCacheLocator.get_suitable_cache_subpath(str(folder / "any.py"))
            if stored.is_dir():
                ignored = shutil.ignore_patterns("*.lock")
                shutil.copytree(stored, SHIPPED / folder.relative_to(PACKAGE), ignore=ignored, dirs_exist_ok=True)
    (SHIPPED / BUILT_FOR).write_text(json.dumps({**environment(), "targets": TARGETS}))
