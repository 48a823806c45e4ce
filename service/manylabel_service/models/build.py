"""Names the build of this process: two processes of one build learn the same bits."""

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

import manylabel_core
import manylabel_service.online as online

_LIBRARIES = ("numpy", "numba", "llvmlite")

RELEASE = version("manylabel")


@cache
def build_id() -> str:
    """Return a digest of all that the bits of a model may follow from: our code, its compiler, the architecture."""
    digest = hashlib.sha256(platform.machine().encode())
    for library in _LIBRARIES:
        digest.update(f" {library} {version(library)}".encode())
    for package in (manylabel_core, online):
        root = Path(str(package.__file__)).parent
        for source in sorted(root.rglob("*.py")):
            digest.update(f"\n{source.relative_to(root)}\n".encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()[:12]
