"""Servers with other limits than the product: small ones in tests about them, long timeouts in all others."""

import json
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from manylabel_service.limits import Limits
from manylabel_service.settings import Settings

FLAGS = {f"--{field.name.replace('_', '-')}": field.name for field in fields(Limits)}


def settings_of(**given: Any) -> Settings:
    """Return settings, of which those that the product does not have are limits."""
    limits = {name: given.pop(name) for name in FLAGS.values() if name in given}

    class Limited(Settings):
        pass

    Limited.limits = replace(Settings.limits, **limits)
    return Limited(**given)


def split(arguments: Iterable[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the arguments of a program without those that name limits, and these; each has its value as the next."""
    flags, limits = [], {}
    left = iter(arguments)
    for argument in left:
        if argument in FLAGS:
            limits[FLAGS[argument]] = json.loads(next(left))
        else:
            flags.append(argument)
    return flags, limits


def set_limits(limits: dict[str, Any]) -> None:
    """Give limits to this process and those that it forks."""
    Settings.limits = replace(Settings.limits, **limits)


PROGRAM = """
import dataclasses, json, sys
from manylabel_service.__main__ import main
from manylabel_service.settings import Settings

limits = json.loads(sys.argv.pop(1))
if hasattr(Settings, "limits"):
    Settings.limits = dataclasses.replace(Settings.limits, **limits)
else:  # another release, which has them as settings
    for name, value in limits.items():
        sys.argv += [f"--{name.replace('_', '-')}", str(value)]
sys.exit(main())
"""
"""The server in an interpreter of its own, with limits as its first argument."""
