"""Versions that this release reads, writes and computes; replicas of two releases must agree on them.

A change of the bytes of log entries or states adds a version to `FORMAT_VERSIONS`. A change in the bits learnt from an
entry adds a version to `REPLAY_VERSIONS`. A new algorithm, option or field of a spec needs no version: `read_spec` of
an older release rejects it with `release_too_old`.
"""

from typing import NamedTuple

FORMAT_VERSIONS = range(1, 2)
"""Format versions of log entries and states that this release reads; it writes the last version if all other processes
can read it. An entry begins with its format version; a state has it in its header.
"""

REPLAY_VERSIONS = range(1, 2)
"""Replay versions that this release computes, each to the same bits as every other release. A model keeps the version
that was in use when it was created; its stored spec names this version.
"""


class Versions(NamedTuple):
    """Versions in use in a store: the latest versions that all of its replicas support."""

    format: int
    replay_version: int


LOWEST, HIGHEST = Versions(FORMAT_VERSIONS[0], REPLAY_VERSIONS[0]), Versions(FORMAT_VERSIONS[-1], REPLAY_VERSIONS[-1])


class ClusterVersion:
    """Cluster version of the store, for all parts of this process that write to it.

    Attributes
    ----------
    versions : versions in use, which every replica supports.
    """

    def __init__(self, versions: Versions = LOWEST) -> None:
        self.versions = versions
