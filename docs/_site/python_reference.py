"""The pages of the Python reference: what the public modules export, with their docstrings.

Names are listed by ``__all__`` and imported one by one: modules of the learners load them on demand and assemble their
docstrings then, so a reader of the source would see neither.
"""

import importlib
import inspect
import re
from typing import Any

PAGES = {
    "reference/client": ["manylabel_clients", "manylabel_clients.river", "manylabel_clients.plots"],
    "reference/core": [
        "manylabel_core",
        "manylabel_core.datasets",
        "manylabel_core.records",
        "manylabel_core.metrics",
        "manylabel_core.priors",
        "manylabel_core.state",
    ],
    "reference/service": ["manylabel_service.settings", "manylabel_service.app"],
}
FIELDS = {"Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns"}
"""Sections of docstrings in which what is indented describes a name."""


def exported(name: str) -> list[str]:
    """Return the public names of a module: its ``__all__``, or what it defines itself."""
    module = importlib.import_module(name)
    own = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == name]
    return list(getattr(module, "__all__", sorted(key for key in own if not key.startswith("_"))))


def reference(modules: list[str]) -> str:
    """Return a page's text, in Markdown; a name that several modules export stands at the first."""
    parts, seen = [], set()
    for name in modules:
        module = importlib.import_module(name)
        parts.append(f"## `{name}`\n\n```{{eval-rst}}\n.. automodule:: {name}\n```\n")
        for each in exported(name):
            value = getattr(module, each)
            if id(value) in seen:
                continue
            seen.add(id(value))
            parts.append(f"### `{each}`\n\n```{{eval-rst}}\n{directive(name, each, value)}\n```\n")
    return "\n".join(parts)


def directive(module: str, name: str, value: Any) -> str:
    """Return the lines that have autodoc describe a name."""
    if not inspect.isclass(value):
        return f".. autofunction:: {module}.{name}" if callable(value) else f".. py:data:: {module}.{name}"
    if issubclass(value, BaseException):
        return f".. autoexception:: {module}.{name}\n   :members:"
    return f".. autoclass:: {module}.{name}\n   :members:\n   :inherited-members: object, tuple, dict"


def skip_foreign(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Omit methods inherited from scikit-learn, river or pydantic, which describe them."""
    of = getattr(getattr(member, "fget", member), "__module__", None) or ""
    return True if callable(getattr(member, "fget", member)) and not of.startswith("manylabel") else None


def to_restructured_text(app: Any, what: str, name: str, value: object, options: Any, lines: list[str]) -> None:
    """Show formulas as they stand in the source, and take no |x|, no coef_ and no *.example.org for markup."""
    lines[:] = _one_name_each(lines)
    found: list[str] = []
    section, literal = "", False
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if following and set(following) == {"-"}:
            section = line.strip()
        is_indented = line.startswith("    ") and section not in FIELDS
        if is_indented and not literal and number and not lines[number - 1]:
            found += ["::", ""]
            literal = True
        elif line and not is_indented:
            literal = False
        if literal or re.match(r"\s*(>>>|\.\.\.)", line):
            found.append(line)
            continue
        is_name = section in FIELDS and not line.startswith(" ")
        name, colon, rest = line.partition(" : ") if is_name else ("", "", line)
        found.append(name + colon + _escaped(rest))
    lines[:] = found


def _one_name_each(lines: list[str]) -> list[str]:
    """Say of `a_, b_ : int` and what follows that it holds of each: napoleon would take the first for a type."""
    found: list[str] = []
    number = 0
    while number < len(lines):
        end = number + 1
        if several := re.match(r"(\w+(?:, \w+)+) : ", lines[number]):
            while end < len(lines) and lines[end].startswith(" "):
                end += 1
            about = [lines[number][several.end() :], *lines[number + 1 : end]]
            for name in several[1].split(", "):
                found += [f"{name} : {about[0]}", *about[1:]]
        else:
            found.append(lines[number])
        number = end
    return found


def _escaped(line: str) -> str:
    parts = re.split(r"(``.*?``|`[^`]*`)", line)
    return "".join(
        part if part.startswith("`") else re.sub(r"\||\*(?!\*)|(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts
    )


def drop_foreign_references(app: Any, document: Any) -> None:
    """Keep the references of types to what the pages describe: `bytes` would be found in many classes."""
    from sphinx.addnodes import pending_xref

    described = {name for modules in PAGES.values() for module in modules for name in exported(module)}
    for node in list(document.findall(pending_xref)):
        target = node["reftarget"].rpartition(".")[2]
        if node.get("refdomain") == "py" and (target not in described or target.islower()):
            node.replace_self(node.children)


def fill(app: Any, docname: str, source: list[str]) -> None:
    """Put the reference behind what the page says itself."""
    if docname in PAGES:
        source[0] += "\n" + reference(PAGES[docname])


def setup(app: Any) -> dict[str, bool]:
    """Connect it with Sphinx, before napoleon reads the docstrings."""
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", to_restructured_text, priority=400)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("doctree-read", drop_foreign_references)
    return {"parallel_read_safe": True}
