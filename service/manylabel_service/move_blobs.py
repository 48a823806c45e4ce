"""Program that moves the blobs of a store: ``python -m manylabel_service.move_blobs --to ADDRESS [flags]``, with a
server's flags.
"""

import argparse
import asyncio
import sys
from typing import cast

from manylabel_service.errors import ServiceError
from manylabel_service.programs import Parser, start
from manylabel_service.settings import Settings
from manylabel_service.storage import open_store
from manylabel_service.storage.address import EMBEDDED, check_place
from manylabel_service.storage.blob_move import MovableStore, Moved, move_blobs
from manylabel_service.storage.blob_places import STORE, TITLE, same_form
from manylabel_service.storage.sqlite.engine import DATABASE

PROGRAM = "manylabel move-blobs"

_DESCRIPTION = (
    "Move the snapshots, histories, datasets, checkpoints and versions of a store to a directory or bucket, to another "
    "one, or back into the store. Each is read back and compared before the old one is deleted. A move that was "
    "interrupted is continued by the same command."
)
_EPILOG = (
    "Name the store by the settings of a server: --data-dir, --store, --config, or MANYLABEL_STORE and so on "
    "(manylabel serve --help). Stop a server with a data directory first. Servers and workers on Redis keep running if "
    "all of them reach the place; set blobs to it before their next start."
)


def main() -> int:
    """Move the blobs of a store.

    Returns
    -------
    int
        The exit status: 0 if all blobs are at the place, 1 if some are not or the move failed, 2 for wrong usage.
    """
    given = parser().parse_args()
    settings = start(["--log-level", "error", *given.flags], program=PROGRAM)
    try:
        moved = asyncio.run(_move(settings, given.to))
    except (ServiceError, ValueError, OSError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    blobs = f"{moved.blobs:,} {'blob' if moved.blobs == 1 else 'blobs'}"
    sys.stdout.write(f"moved {blobs}, {moved.size_bytes:,} bytes, to {given.to or 'the store'}\n")
    for reason in moved.damaged.values():
        sys.stderr.write(f"{PROGRAM}: not moved: {reason}\n")
    if moved.unfinished:
        sys.stderr.write(f"{PROGRAM}: {moved.unfinished} blobs are still being written: run this command again later\n")
    return 1 if moved.damaged or moved.unfinished else 0


async def _move(settings: Settings, to: str | None) -> Moved:
    # Opening a store would create one.
    if settings.store == EMBEDDED and not (settings.data_dir / DATABASE).exists():
        raise ValueError(f"there is no store in {settings.data_dir}; --data-dir names another directory")
    store = open_store(settings)
    await store.open()
    try:
        return await move_blobs(cast(MovableStore, store), to)
    finally:
        await store.close()


def _place(text: str) -> str | None:
    if text == STORE:
        return None
    try:
        check_place(text, TITLE)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}, or is {STORE!r}") from None
    return same_form(text)


def parser() -> Parser:
    """Return the parser of the arguments: the place, and the flags of a server."""
    made = Parser(PROGRAM, description=_DESCRIPTION, epilog=_EPILOG)
    made.add_argument(
        "--to",
        type=_place,
        required=True,
        metavar="ADDRESS",
        help="the place, file:///DIRECTORY or s3://BUCKET/PREFIX, or the word store",
    )
    return made


if __name__ == "__main__":
    sys.exit(main())
