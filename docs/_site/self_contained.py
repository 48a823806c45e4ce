"""The site loads nothing from elsewhere: a page that would is an error of the build."""

import re
from pathlib import Path
from typing import Any

LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=["'](?:https?:)?//[^"']*"""
    r"""|<link\b(?![^>]*rel=["']?(?:canonical|search))[^>]*\bhref=["'](?:https?:)?//[^"']*"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//[^"')]*|url\(["']?(?:https?:)?//[^"')]*""",
    re.IGNORECASE,
)


def loaded_from_elsewhere(text: str) -> list[str]:
    """Return what a page or a style sheet would load from another server; links to follow are none of it."""
    return [found[0] for found in LOADED.finditer(text)]


def check(app: Any, exception: Exception | None) -> None:
    """Look through all pages and style sheets that were built."""
    if exception is not None or app.builder.format != "html":
        return
    from sphinx.errors import ExtensionError

    files = [path for path in sorted(Path(app.outdir).rglob("*")) if path.suffix in (".html", ".css")]
    found = [f"{path.name}: {each}" for path in files for each in loaded_from_elsewhere(path.read_text())]
    if found:
        raise ExtensionError(f"the site would load from elsewhere: {found[:5]}")


def setup(app: Any) -> dict[str, bool]:
    """Connect it with Sphinx."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True}
