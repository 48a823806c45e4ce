"""What is done with the versions of one model: list, read, promote and delete them."""

from collections.abc import Callable

import structlog

from manylabel_service.errors import NoVersionServed, ServiceError, StorageGone, VersionDamaged
from manylabel_service.storage import ModelRecord, Store
from manylabel_service.trained.active_version import ActiveVersion
from manylabel_service.trained.entries import Delete, Entry, Promote
from manylabel_service.trained.ledger import VersionLog
from manylabel_service.trained.publishing import sweep
from manylabel_service.trained.version import Version
from manylabel_service.trained.version_store import Outcome, Promoted

log = structlog.get_logger()


class VersionService:
    """Reads and changes the versions of one model.

    Parameters
    ----------
    record, store : the model and where its versions are.
    ledger, stage : its log, and the version that predicts.
    consequence : told what went wrong with the log; gives what is to be raised.
    """

    def __init__(
        self,
        record: ModelRecord,
        store: Store,
        ledger: VersionLog,
        stage: ActiveVersion,
        consequence: Callable[[Exception], ServiceError],
    ) -> None:
        self._record = record
        self._store = store
        self._ledger = ledger
        self._stage = stage
        self._consequence = consequence

    async def versions(self) -> tuple[list[Version], int | None]:
        """The versions, the newest first, and the number of the one served.

        Raises
        ------
        StorageGone, ModelGone
        """
        await self._read()
        catalogue = self._ledger.catalogue
        return sorted(catalogue.versions.values(), key=lambda version: -version.number), catalogue.served

    async def version(self, number: int | None) -> tuple[Version, bytes]:
        """A version, or the one served, with its contents as they are stored.

        Raises
        ------
        NoVersionServed, VersionNotFound, VersionDamaged, StorageGone, ModelGone
        """
        await self._read()
        catalogue = self._ledger.catalogue
        if number is None:
            number = catalogue.served
        if number is None:
            raise NoVersionServed(self._record.name)
        version = catalogue.find(number)
        data = await self._store.snapshots.get(self._record, version.position)
        if data is None:
            raise VersionDamaged(self._record.name, number, "its contents are gone")
        return version, data

    async def promote(self, number: int) -> Promoted:
        """Have a version served, here and on every other server, from one position of the log on.

        It is loaded here first: one that cannot be is never promoted.

        Raises
        ------
        VersionNotFound, VersionDamaged, StorageGone, ModelGone
        """
        await self._read()
        loaded = await self._stage.load(self._ledger.catalogue.find(number))
        catalogue = self._ledger.catalogue
        if catalogue.served == number:
            self._stage.settled(loaded)
            return Promoted(catalogue.position, number, number)
        outcome = await self._append(Promote(version=number))
        self._stage.settled(loaded)
        assert outcome.promoted is not None
        return outcome.promoted

    async def retire(self, number: int) -> None:
        """Delete a version.

        Raises
        ------
        VersionNotFound, VersionServed, StorageGone, ModelGone
        """
        await self._append(Delete(version=number))
        try:
            await sweep(self._store, self._record, self._ledger.catalogue)
        except StorageGone as error:  # there is no such version any more; its bytes go with the next one
            log.warning("version_not_removed", model=self._record.name, version=number, error=str(error))

    async def _read(self) -> None:
        try:
            await self._ledger.read()
        except Exception as error:
            raise self._consequence(error) from error

    async def _append(self, entry: Entry) -> Outcome:
        try:
            outcome = await self._ledger.append(entry)
        except Exception as error:
            raise self._consequence(error) from error
        if outcome.error is not None:
            raise outcome.error
        return outcome
