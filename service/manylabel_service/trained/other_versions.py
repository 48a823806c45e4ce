"""Versions in memory besides the served one, for requests that name one."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from manylabel_service.trained.predictor import Predictor
from manylabel_service.trained.version import Version
from manylabel_service.trained.version_store import VersionCatalogue

MAX_OTHER_VERSIONS = 2
"""Maximum number of versions of a model in memory besides the served one: the most recently used."""


class OtherVersions:
    """Cache of the versions requested by number."""

    def __init__(self, load: Callable[[Version], Awaitable[Predictor]]) -> None:
        self._load = load
        self._loaded: OrderedDict[str, Predictor] = OrderedDict()  # by id, the most recently used last
        self._loading = asyncio.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of memory of these versions."""
        return sum(predictor.nbytes for predictor in self._loaded.values())

    @property
    def ids(self) -> str:
        """Ids of the versions in memory, as one text."""
        return " ".join(sorted(self._loaded))

    @property
    def busy(self) -> bool:
        """True while a version is being loaded."""
        return self._loading.locked()

    def find(self, id: str) -> Predictor | None:
        """Return a version if it is in memory."""
        if id in self._loaded:
            self._loaded.move_to_end(id)
        return self._loaded.get(id)

    async def load(self, version: Version) -> Predictor:
        """Return a version, loading it if necessary, one at a time.

        Raises VersionDamaged, StorageUnavailable or ModelGone.
        """
        async with self._loading:
            found = self.find(version.id)
            if found is None:
                found = self._loaded[version.id] = await self._load(version)
                while len(self._loaded) > MAX_OTHER_VERSIONS:
                    self._loaded.popitem(last=False)
            return found

    def keep(self, catalogue: VersionCatalogue) -> None:
        """Release deleted versions, and the currently served one."""
        target = catalogue.target
        there = {listed.id for listed in catalogue.versions.values() if listed != target}
        for id in self._loaded.keys() - there:
            del self._loaded[id]
