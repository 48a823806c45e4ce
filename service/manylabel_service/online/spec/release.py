"""Versions that this release reads, writes and computes, on which replicas of two releases must agree.

A change of the bytes of log entries or states adds a version to `FORMAT_VERSIONS`. A change of the bits that are learnt
from an entry adds a version to `REPLAY_VERSIONS`. A new algorithm, option or field of a spec needs no version:
`read_spec` of an older release does not know it, and says that the release is too old.
"""

from typing import NamedTuple

FORMAT_VERSIONS = range(1, 2)
"""Forms of log entries and of states that this release reads; the last is the one that it would write if it was alone.
An entry begins with its format version; a state has it in its header."""

REPLAY_VERSIONS = range(1, 2)
"""Replay versions that this release computes, each to the same bits as every other release that does. A model
keeps the one that it was created with, which its stored spec names."""


class Versions(NamedTuple):
    """Versions in use in a store: the latest that all of its replicas support."""

    format: int
    replay_version: int


LOWEST, HIGHEST = Versions(FORMAT_VERSIONS[0], REPLAY_VERSIONS[0]), Versions(FORMAT_VERSIONS[-1], REPLAY_VERSIONS[-1])


class ClusterVersion:
    """Cluster version of the store, for all parts of this process that write to it.

    Attributes
    ----------
    versions : never beyond what every replica knows, so that each can read what is written here.
    """

    def __init__(self, versions: Versions = LOWEST) -> None:
        self.versions = versions
