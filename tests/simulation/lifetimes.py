"""A lifetime: what happens, and what must hold."""

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from tests.simulation.clients import Clients
from tests.simulation.coverage import Coverage
from tests.simulation.nemesis import Nemesis
from tests.simulation.properties import SETTLED_SECONDS, WHOLE_BYTES, Properties
from tests.simulation.training import Trainings
from tests.simulation.world import QUIET_SECONDS, World
from tests.support.limits import settings_of

from manylabel_service.settings import Settings

THEMES = ("plain", "forget", "forget", "promote", "promote", "mixed", "mixed", "failover", "jobs")
"""Kinds of lifetimes, by frequency: all have learners and keys."""

ARCHIVED = 0.2
"""Share of the lifetimes whose servers archive."""

OUTSIDE = 0.3
"""Share of the lifetimes whose blobs are outside of the store."""

LABELLED = 0.3
"""Share of the lifetimes in which stored predictions get their labels later; in half of them, a teacher gives some."""

NOWHERE = Path("/nonexistent")
"""Data directory of servers that write no file."""


class Lifetime:
    """A lifetime of a seed.

    Parameters
    ----------
    seed : of all that happens.
    coverage : counts of the faults and crashes; None: they are not counted.
    at_calls : whether servers also crash at calls of the store, each kind of call as often.

    Attributes
    ----------
    theme : kind of the lifetime.
    world : servers, store and loop.
    """

    def __init__(self, seed: int, coverage: Coverage | None = None, at_calls: bool = False) -> None:
        self.world = World(seed, coverage)
        self.rng = random.Random(self.world.rng.random())
        self.theme = self.rng.choice(THEMES)
        self._clients = Clients(self.world, self.rng)
        self._nemesis = Nemesis(self.world, self._clients.known, self.rng, tears=self.theme in ("plain", "jobs"))
        self._properties = Properties(self.world, self._clients.known)
        self._at_calls = at_calls

    @property
    def done(self) -> Counter[str]:
        """Number of successful requests of each kind."""
        return self._clients.done

    def run(self) -> None:
        """Run the lifetime. Raises Violation."""
        directory = None
        if self.theme in ("forget", "promote", "mixed", "plain") and self.rng.random() < ARCHIVED:
            directory = Path(tempfile.mkdtemp(prefix="manylabel-simulation-"))
            self.world.archived = {}
        self.world.short_segments = self.rng.random() < 0.5
        if self.rng.random() < OUTSIDE:
            self.world.blobs, self.world.disk.outside = "file:///blobs", {}
        try:
            self.world.settings = self._settings(directory)
            self.world.run(self._life())
        finally:
            if directory is not None:
                shutil.rmtree(directory)

    def _settings(self, directory: Path | None) -> Settings:
        choice = self.rng.choice
        settings: dict[str, Any] = {
            "snapshot_every_updates": choice([2, 5, 20]),
            "snapshot_every_seconds": choice([1.0, 5.0, 60.0]),
            "snapshot_retention_count": choice([1, 2, 3]),
            "history_bytes": choice([0, 50_000, WHOLE_BYTES]),
        }
        if directory is not None:
            settings |= {"data_dir": directory, "archive": f"file://{directory}/archive", "archive_seconds": 2.0}
        return _settings_of(choice([0, 2, 3_600])).model_copy(update=settings)

    async def _life(self) -> None:
        world, rng, clients = self.world, self.rng, self._clients
        faults, rate = world.faults, rng.choice([0.0, 0.002, 0.02])
        faults.lost, faults.late, faults.unanswered = (rate * rng.random() for _ in range(3))
        faults.slow, faults.twice = rng.choice([0.0, 0.01]), rng.choice([0.0, 0.0, 0.05])
        if self.theme == "jobs":
            world.trainings = Trainings(world.loop, world.fail)
        clients.known.may_lose = self.theme == "failover"
        labels = self.theme != "jobs" and rng.random() < LABELLED
        clients.teacher = labels and rng.random() < 0.5
        world.slots = [None] * rng.choice([2, 2, 3, 4])
        for slot in range(len(world.slots)):
            world.start(slot)
        watching = asyncio.ensure_future(self._properties.watch(rng))
        work = [clients.learner("m") for _ in range(rng.choice([1, 2, 3]))]
        if self.theme in ("plain", "failover"):
            work += [clients.keys(), clients.keys(), clients.short_lived("d")]
        else:
            work += [clients.keys()] if rng.random() < 0.5 else []
            work += [clients.short_lived("d")] if rng.random() < 0.5 else []
        if self.theme == "forget":
            work += [clients.forgetter("m") for _ in range(rng.choice([1, 3]))]
        elif self.theme == "promote":
            work += [clients.follower("m", name) for name in rng.choice(["f", "fg"])]
        elif self.theme == "mixed":
            work += [clients.forgetter("m"), clients.follower("m", "f", stays=False)]
        elif self.theme == "failover":
            work += [self._nemesis.failover("m")]
        elif self.theme == "jobs":
            work += [clients.jobs()]
        if self.theme != "jobs" and rng.random() < 0.5:
            work += [clients.curator("m")]
        if rng.random() < 0.3:
            work += [clients.janitor()]
        if labels:
            work += [clients.labeller("m")]
        running = [asyncio.ensure_future(each) for each in work]
        ambushes = [asyncio.ensure_future(self._nemesis.ambush())] if rng.random() < 0.5 else []
        ambushes += [asyncio.ensure_future(self._nemesis.ambush_calls())] if self._at_calls else []
        await self._nemesis.run(rng.choice([5, 10, 20]))
        for each in ambushes:
            each.cancel()
        self._nemesis.end()
        _, late = await asyncio.wait(running, timeout=QUIET_SECONDS)
        if late:
            world.fail(f"{len(late)} clients still wait {QUIET_SECONDS:g} s after the last fault")
            await asyncio.sleep(0)
        for each in running:
            each.result()
        watching.cancel()
        await asyncio.wait([each.starting for each in world.servers if each.starting], timeout=QUIET_SECONDS)
        await asyncio.sleep(SETTLED_SECONDS)
        self._properties.check_keys()
        await self._properties.check_models()
        if world.archived is not None:
            await self._properties.check_archive()
        await self._properties.check_garbage()


@cache
def _settings_of(evict_idle_seconds: int) -> Settings:
    """Return settings that a lifetime copies: to validate them takes as long as many requests."""
    return settings_of(data_dir=NOWHERE, evict_idle_seconds=evict_idle_seconds)
