"""The fold over the log of a trained model: its versions, and which of them is served.

Nothing here waits or stores: all who have read the same entries know the same.
"""

from typing import NamedTuple

from manylabel_service.errors import ServiceError, VersionNotFound, VersionServed
from manylabel_service.hosting.size_limits import check_limit
from manylabel_service.storage import START
from manylabel_service.trained.entries import Commit, Compaction, Delete, Entry, Listed, Promote, Reserve
from manylabel_service.trained.version import Version, VersionMeta

MAX_DRAFTS = 100
"""Drafts remembered, the latest; whose draft is forgotten makes another."""
MAX_JOBS = 1_000
"""Jobs remembered, the latest, so that none publishes twice."""


class Promoted(NamedTuple):
    """A version is served from here on; the one before it, if any, no longer."""

    position: str
    version: int
    previous: int | None


class Outcome(NamedTuple):
    """What became of an entry: a version it made or was about, the change of the one served, or an error."""

    version: Version | None = None
    promoted: Promoted | None = None
    error: ServiceError | None = None


class VersionCatalogue:
    """The versions of one model.

    Attributes
    ----------
    position : of the last entry folded in.
    versions : by number.
    served : number of the version that is served; None before the first.
    drafts : positions of the drafts that are not versions yet, by job.
    entries : how many have been folded in since the beginning of the log, or since a summary.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.position = START
        self.versions: dict[int, Version] = {}
        self.served: int | None = None
        self.drafts: dict[str, str] = {}
        self.entries = 0
        self._by_job: dict[str, Version] = {}
        self._last = 0

    def of_job(self, job: str) -> Version | None:
        """The version that a job has made; it may have been deleted since."""
        return self._by_job.get(job)

    def find(self, number: int) -> Version:
        """A version; raises VersionNotFound."""
        try:
            return self.versions[number]
        except KeyError:
            raise VersionNotFound(self.name, number) from None

    def fold(self, position: str, entry: Entry) -> Outcome:
        """Take in the next entry."""
        self.position = position
        self.entries += 1
        match entry:
            case Reserve(job=job):
                return self._draft(position, job)
            case Commit():
                return self._whole(position, entry)
            case Promote(version=number):
                return self._promote(position, number)
            case Delete(version=number):
                return self._retire(number)
            case Compaction():
                self.entries = 0
                return Outcome()

    def summary(self) -> Compaction:
        """All of it, for `from_summary`."""
        retired = [version for version in self._by_job.values() if version.number not in self.versions]
        return Compaction(
            as_of=self.position,
            last=self._last,
            served=self.served,
            versions=list(map(_listed, self.versions.values())),
            retired=list(map(_listed, retired)),
            drafts=self.drafts,
        )

    @classmethod
    def from_summary(cls, name: str, summary: Compaction) -> "VersionCatalogue":
        """The catalogue that `summary` was called on, as of that position."""
        catalogue = cls(name)
        catalogue.position, catalogue.served = summary.as_of, summary.served
        catalogue.drafts = dict(summary.drafts)
        catalogue.versions = {listed.number: _version(listed) for listed in summary.versions}
        known = sorted((*map(_version, summary.retired), *catalogue.versions.values()), key=lambda v: v.number)
        catalogue._by_job = {version.meta.job: version for version in known}
        catalogue._last = summary.last
        return catalogue

    def _draft(self, position: str, job: str) -> Outcome:
        if job not in self._by_job:
            self.drafts.pop(job, None)
            self.drafts[job] = position
            _keep_latest(self.drafts, MAX_DRAFTS)
        return Outcome()

    def _whole(self, position: str, entry: Commit) -> Outcome:
        if self.drafts.get(entry.job) != entry.at:
            return Outcome()  # it is a version already, or another draft has taken its place: its publisher looks again
        del self.drafts[entry.job]
        self._last += 1
        meta = VersionMeta(entry.job, entry.trainer, entry.params, entry.rows, entry.measures, entry.created_unix_ms)
        version = Version(self._last, entry.at, entry.size_bytes, meta)
        self.versions[version.number] = self._by_job[entry.job] = version
        _keep_latest(self._by_job, MAX_JOBS)
        return self._promote(position, version.number) if entry.promote else Outcome(version)

    def _promote(self, position: str, number: int) -> Outcome:
        if number not in self.versions:
            return Outcome(error=VersionNotFound(self.name, number))
        previous, self.served = self.served, number
        return Outcome(self.versions[number], Promoted(position, number, previous))

    def _retire(self, number: int) -> Outcome:
        if number == self.served:
            return Outcome(error=VersionServed(self.name, number))
        if number not in self.versions:
            return Outcome(error=VersionNotFound(self.name, number))
        return Outcome(self.versions.pop(number))


def _listed(version: Version) -> Listed:
    meta = version.meta
    return Listed(
        number=version.number,
        position=version.position,
        size_bytes=version.size_bytes,
        job=meta.job,
        trainer=meta.trainer,
        params=dict(meta.params),
        rows=meta.rows,
        measures=None if meta.measures is None else dict(meta.measures),
        created_unix_ms=meta.created_unix_ms,
    )


def _version(listed: Listed) -> Version:
    meta = VersionMeta(listed.job, listed.trainer, listed.params, listed.rows, listed.measures, listed.created_unix_ms)
    return Version(listed.number, listed.position, listed.size_bytes, meta)


def check_room(catalogue: VersionCatalogue, limit: int) -> None:
    """Raise LimitExceeded if there is no room for another version."""
    check_limit(f"the number of versions of model {catalogue.name!r}", len(catalogue.versions) + 1, limit)


def _keep_latest(by_job: dict[str, str] | dict[str, Version], most: int) -> None:
    if len(by_job) > most:
        del by_job[next(iter(by_job))]
