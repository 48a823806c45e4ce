"""Identifier of the build of this process: processes of one build compute identical states.

The digest contains the parts of the host on which learning can depend:

- the code of learners, records, and the replay of a log;
- NumPy, which sums and sorts; scikit-learn, whose hash function assigns features to columns; numba and llvmlite, which
  compile;
- Python's version, on which built-in sums depend, and its Unicode version, which defines words;
- the architecture, and whether numba compiles.

Nothing else matters. Learning calls no rounding function of the C library, no BLAS, and no sum whose order depends
on the processor (`tests/core/test_host_arithmetic.py`). So two processors of the same architecture learn the same bits,
with any C library.
"""

import hashlib
import platform
import sys
import unicodedata
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numba

import manylabel_core
import manylabel_service.hosting as hosting
import manylabel_service.online as online

_LIBRARIES = ("numpy", "numba", "llvmlite", "scikit-learn")


def host_parts() -> list[str]:
    """Return the properties of the host that can affect the bits of a model."""
    return [
        f"machine {platform.machine()}",
        f"python {sys.implementation.cache_tag}",
        f"unicode {unicodedata.unidata_version}",
        f"compiled {not numba.config.DISABLE_JIT}",  # type: ignore[attr-defined]
        *(f"{library} {version(library)}" for library in _LIBRARIES),
    ]


@cache
def build_id() -> str:
    """Return a digest of the code and of the host properties that can affect the bits of a model."""
    digest = hashlib.sha256("\n".join(host_parts()).encode())
    for package in (manylabel_core, hosting, online):
        root = Path(str(package.__file__)).parent
        for source in sorted(root.rglob("*.py")):
            digest.update(f"\n{source.relative_to(root)}\n".encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()[:12]
