"""Program that creates the first key: ``python -m manylabel_service.access init [flags]``, with a server's flags."""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from manylabel_service.access.grant import ADMIN
from manylabel_service.access.key import Key, KeyStore, new_key
from manylabel_service.errors import HasKeys, ServiceError
from manylabel_service.programs import Parser, start
from manylabel_service.settings import Settings
from manylabel_service.storage import open_store

PROGRAM = "manylabel keys init"

_DESCRIPTION = (
    "Create a key with the scope admin for all models, and write it to standard output, or to a file that only its "
    "owner can read. It is not stored elsewhere. Further keys are created over HTTP with this key."
)
_EPILOG = (
    "Name the store by the settings of a server: --data-dir, --store, --config, or MANYLABEL_STORE and so on "
    "(manylabel serve --help). Stop a server with a data directory first; a server on Redis can run."
)


def main() -> int:
    """Create the first key of a store.

    Returns
    -------
    int
        The exit status: 0 if it was created, 1 if it was refused, 2 for wrong usage.
    """
    given = parser().parse_args()
    settings = start(["--log-level", "error", *given.flags], program=PROGRAM)
    try:
        asyncio.run(_init(given, settings))
    except HasKeys as error:
        if not given.if_none:
            return _refuse(error)
        sys.stderr.write("manylabel keys init: the store has keys; nothing was done\n")
    except (ServiceError, ValueError, OSError) as error:
        return _refuse(error)
    return 0


def _refuse(error: Exception) -> int:
    sys.stderr.write(f"manylabel keys init: {error}\n")
    return 1


async def _init(given: argparse.Namespace, settings: Settings) -> None:
    store = open_store(settings)
    await store.open()
    try:
        key_store = KeyStore(store.documents, settings.limits.max_keys)
        keys = await key_store.all()
        if keys and not given.another:
            raise HasKeys(len(keys))
        key, text = new_key(given.name, (ADMIN,))
        # The file is written first: to store a key and lose its text would be worse than to write a text without a key.
        _write(text, given.file)
        await key_store.add(key)
    finally:
        await store.close()
    _print_key(key, text, given.file)


def _write(text: str, file: Path | None) -> None:
    if file is None:
        return
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w") as opened:
        os.fchmod(descriptor, 0o600)
        opened.write(f"{text}\n")


def _print_key(key: Key, text: str, file: Path | None) -> None:
    place = "" if file is None else f", in {file}"
    sys.stderr.write(f"created the key {key.id} ({key.name}){place}; it will not be shown again: store it now\n")
    if file is None:
        sys.stdout.write(f"{text}\n")


def parser() -> Parser:
    """Return the parser of the arguments, which include the flags of a server."""
    init = Parser(PROGRAM, description=_DESCRIPTION, epilog=_EPILOG)
    init.add_argument("command", choices=["init"], help=argparse.SUPPRESS)
    init.add_argument("--name", default="first", help="name of the key (default: first)")
    init.add_argument("--file", type=Path, metavar="FILE", help="write the key to this file instead of the output")
    several = init.add_mutually_exclusive_group()
    several.add_argument("--if-none", action="store_true", help="do nothing if the store has any key")
    several.add_argument("--another", action="store_true", help="create a key even if the store has keys")
    return init


if __name__ == "__main__":
    sys.exit(main())
