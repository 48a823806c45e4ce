"""Release of the installed package, and the format number of a store.

Processes of one format number share a store. All stored data has the format number in which its layout was introduced.
A new layout, or a change of the bits learnt from an entry, raises `FORMAT`. A process writes the new layout when the
store has this number. `manylabel upgrade-store` raises the number of a store when all its processes support it. A new
algorithm, option or field of a spec needs no number: `read_spec` of an older release rejects it with `release_too_old`.
"""

from importlib.metadata import version

RELEASE = version("manylabel")

FORMAT = 1
"""Highest format number that this release supports; new stores have it."""
