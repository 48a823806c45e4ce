"""Which pages there are, in which order: the lists of links in docs/index.md say so, here and in llms.txt.

``python -m docs._site.navigation`` writes docs/llms.txt, the list of pages for programs that read Markdown; the site
has each page as Markdown too, beside the HTML.
"""

import posixpath
import re
from pathlib import Path
from typing import Any, NamedTuple

from docs._site import command_reference

DOCS = Path(__file__).parents[1]


class Page(NamedTuple):
    """A page as index.md lists it: its title, its address relative to docs, and what it is about."""

    title: str
    path: str
    about: str


def sections(index: str) -> dict[str, list[Page]]:
    """Return the pages that the text of index.md lists, by section."""
    found = re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", index, re.DOTALL | re.MULTILINE)
    listed = {title: re.findall(r"^- \[(.*)\]\((\S*)\): (.*(?:\n  .*)*)$", text, re.MULTILINE) for title, text in found}
    return {
        title: [Page(name, path, " ".join(about.split())) for name, path, about in pages]
        for title, pages in listed.items()
        if pages
    }


def llms(index: str) -> str:
    """Return llms.txt (llmstxt.org), by the text of index.md."""
    title, summary = re.findall(r"^# ([^\n]*)\n\n(.*?)\n\n", index, re.DOTALL)[0]
    parts = [f"# {title}", f"> {' '.join(summary.split())}"]
    for section, pages in sections(index).items():
        lines = [f"- [{page.title}]({page.path}): {page.about}" for page in pages]
        parts += [f"## {section}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def add_navigation(app: Any, docname: str, source: list[str]) -> None:
    """Add to index.md what tells Sphinx the order of the pages."""
    if docname != "index":
        return
    for section, pages in sections(source[0]).items():
        paths = "\n".join(page.path.removesuffix(".md") for page in pages)
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:titlesonly:\n:caption: {section}\n\n{paths}\n```\n"


def take_in_the_changelog(app: Any, docname: str, source: list[str]) -> None:
    """Put CHANGELOG.md, which stands at the top of the project, into the place of the page that refers to it."""
    if docname == "changes":
        changelog = (DOCS.parent / "CHANGELOG.md").read_text()
        source[0] = re.sub(r"\]\(docs/", "](", changelog)


def add_options_of_commands(app: Any, docname: str, source: list[str]) -> None:
    """Add the options of each command, which the repository leaves to `--help`, to the page of the command."""
    if docname == "command":
        source[0] += "\n" + command_reference.options()


def add_statuses_to_the_index(app: Any, docname: str, source: list[str]) -> None:
    """Make the statuses in the tables of two pages entries of the index: the search ignores other numbers."""
    if docname in ("errors", "limits"):
        statuses = sorted(set(re.findall(r"^\| (\d{3})\b", source[0], re.MULTILINE)))
        title, below = source[0].split("\n", 1)
        source[0] = f"{title}\n\n```{{index}} {', '.join(statuses)}\n```\n{below}"


def correct_links_out_of_docs(app: Any, docname: str, source: list[str]) -> None:
    """Have links to the changelog lead to its page, and name folders, which a site does not have, without a link.

    Links to files stay: the site carries the files.
    """
    here = posixpath.dirname(docname)

    def corrected(link: re.Match[str]) -> str:
        text, target = link.groups()
        place = posixpath.normpath(posixpath.join(here, target.partition("#")[0]))
        if place == "../CHANGELOG.md":
            return f"[{text}]({posixpath.relpath('changes.md', here or '.')})"
        return f"{text} (`{place[3:]}`)" if place.startswith("../") and (DOCS / place).is_dir() else link[0]

    source[0] = re.sub(r"\[([^\]]*)\]\((\.\.[^)\s]*)\)", corrected, source[0])


def keep_markdown(app: Any, docname: str, source: list[str]) -> None:
    """Write a page as Markdown beside its HTML, for those who read llms.txt."""
    if docname != "index" and app.builder.format == "html":
        page = Path(app.outdir) / f"{docname}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(source[0])


def setup(app: Any) -> dict[str, bool]:
    """Connect all of it with Sphinx."""
    for change in (take_in_the_changelog, add_options_of_commands, add_navigation, correct_links_out_of_docs):
        app.connect("source-read", change)
    app.connect("source-read", keep_markdown, priority=900)
    app.connect("source-read", add_statuses_to_the_index, priority=950)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    (DOCS / "llms.txt").write_text(llms((DOCS / "index.md").read_text()))
