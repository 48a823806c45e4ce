"""Release of the installed package."""

from importlib.metadata import version

RELEASE = version("manylabel")
