"""Startup of the programs of the service: arguments, settings, logging and file modes."""

import argparse
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from manylabel_service.settings import Settings, option_names, read_settings, refuse_usage
from manylabel_service.telemetry.logs import configure_logging

PRIVATE_UMASK = 0o077
"""Umask with which only the user of the process can access its files."""


def start(flags: Sequence[str], kind: type[Settings] = Settings, program: str | None = None) -> Settings:
    """Return the settings of a program, configure its log and make its files private. Raises the errors of
    `read_settings`."""
    settings = read_settings(flags, kind, program)
    os.umask(PRIVATE_UMASK)
    configure_logging(settings)
    return settings


class Parser(argparse.ArgumentParser):
    """Parser of the arguments of a program that works on a store; the flags of a server are collected in `flags`.

    A usage error is printed as one line.

    Parameters
    ----------
    program : str
        Name of the program, such as "manylabel backup".
    description, epilog : str
        Texts of its help, before and after the list of arguments.
    """

    def __init__(self, program: str, description: str = "", epilog: str = "") -> None:
        super().__init__(program, description=description, epilog=epilog, allow_abbrev=False)
        self.set_defaults(flags=())
        for flag, takes_value in option_names().items():
            self.add_argument(flag, action=_Collect, nargs=None if takes_value else 0, help=argparse.SUPPRESS)

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 and a one-line message."""
        refuse_usage(self.prog, message, self._option_string_actions)


class _Collect(argparse.Action):
    """Add a flag, with its value, to `flags`."""

    def __init__(self, option_strings: Sequence[str], dest: str, **attributes: Any) -> None:
        super().__init__(option_strings, "flags", default=argparse.SUPPRESS, **attributes)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        flag = option_string or self.option_strings[0]
        namespace.flags = (*namespace.flags, f"{flag}={values}" if isinstance(values, str) else flag)
