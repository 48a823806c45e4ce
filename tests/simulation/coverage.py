"""Where servers have crashed, and where never: calls of the store, and awaits of the product's code."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from gc import get_referents
from pathlib import Path
from types import AsyncGeneratorType, CoroutineType, FrameType
from typing import Any

from tests.simulation import store

import manylabel_service

PRODUCT = Path(manylabel_service.__file__).parent
FILES = (
    "models/registry.py",
    "models/successions.py",
    "models/forgetting.py",
    "models/promoting.py",
    "online/successor/writer.py",
    "online/successor/rewriter.py",
    "online/successor/promotion.py",
    "online/updates/applier.py",
    "online/updates/replay.py",
    "online/updates/files.py",
    "online/history/archiver.py",
    "online/history/catalogue.py",
    "online/history/reader.py",
    "online/snapshots/snapshotter.py",
    "online/snapshots/retention.py",
    "storage/snapshots.py",
    "storage/models.py",
    "archive/service.py",
    "archive/shipping.py",
    "archive/purging.py",
)
"""Files whose awaits are counted."""

FAULTS = ("lost", "late", "unanswered", "slow", "cut", "crash before the effect", "crash before the reply")


class Coverage:
    """Counts of the calls of the store that failed in some way, and of the awaits at which a server crashed."""

    def __init__(self) -> None:
        self.calls = Counter[tuple[str, str]]()
        self.awaits = Counter[tuple[str, int]]()

    def note_call(self, name: str, fault: str) -> None:
        """Count a fault of a call."""
        self.calls[name, fault] += 1

    def note_crash(self, coroutines: Iterable[Any]) -> None:
        """Count the awaits at which the tasks of a crashed server stood."""
        found = set()
        for coroutine in coroutines:
            for frame in _frames(coroutine):
                name = frame.f_code.co_filename
                if name.startswith(str(PRODUCT)):
                    found.add((str(Path(name).relative_to(PRODUCT)), frame.f_lineno))
        self.awaits.update(found)

    def lines(self) -> Iterator[str]:
        """Yield a report."""
        yield "Faults of each call of the store:"
        for name in calls():
            counts = {fault: self.calls[name, fault] for fault in FAULTS}
            never = [fault for fault, count in counts.items() if not count]
            shown = ", ".join(f"{fault} {count}" for fault, count in counts.items() if count)
            yield f"  {name}: {shown or 'none'}" + (f"; never: {', '.join(never)}" if never else "")
        yield "Awaits at which a server has crashed:"
        total = hit = 0
        for file in FILES:
            places = awaits_of(file)
            crashed = {at for (name, line) in self.awaits if name == file for at in places if at[0] <= line <= at[1]}
            never = sorted(first for first, last in places - crashed)
            total, hit = total + len(places), hit + len(crashed)
            missing = f"; never at lines {', '.join(map(str, never))}" if never else ""
            yield f"  {file}: {len(crashed)} of {len(places)}{missing}"
        yield f"  all: {hit} of {total}"


def _frames(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frames of a suspended coroutine, outermost first."""
    while coroutine is not None:
        if isinstance(coroutine, CoroutineType):
            frame, coroutine = coroutine.cr_frame, coroutine.cr_await
        elif isinstance(coroutine, AsyncGeneratorType):
            frame, coroutine = coroutine.ag_frame, coroutine.ag_await
        else:  # a future, or a step of an async generator
            coroutine = next((each for each in get_referents(coroutine) if isinstance(each, AsyncGeneratorType)), None)
            continue
        if frame is not None:
            yield frame


@cache
def awaits_of(file: str) -> frozenset[tuple[int, int]]:
    """Return the first and last lines of the awaits of a file."""
    tree = ast.parse((PRODUCT / file).read_text())
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Await)]
    spans = {(node.lineno, node.end_lineno or node.lineno) for node in nodes}
    return frozenset(spans)


@cache
def calls() -> tuple[str, ...]:
    """Return the names of the steps of the store, from its code."""
    tree = ast.parse(Path(store.__file__).read_text())
    found = []
    for part in [node for node in tree.body if isinstance(node, ast.ClassDef)]:
        for method in [node for node in part.body if isinstance(node, ast.AsyncFunctionDef)]:
            calls = any(isinstance(node, ast.Attribute) and node.attr == "call" for node in ast.walk(method))
            if calls:
                found.append(f"{part.name.removeprefix('_')}.{method.name}")
    return tuple(found)
