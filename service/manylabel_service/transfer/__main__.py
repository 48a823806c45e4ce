"""The program: ``python -m manylabel_service.transfer export|import ARCHIVE [flags]``, with the flags of a server."""

import argparse
import asyncio
import sys
from pathlib import Path

from manylabel_service.errors import DatasetExists, ModelExists, ServiceError
from manylabel_service.programs import Parser, start
from manylabel_service.settings import Settings

_EPILOG = (
    "Which store it is, the settings of a server say: --data-dir, --store, --config, or MANYLABEL_STORE and so on "
    "(manylabel serve --help). A server that has a data directory must be stopped first; on Redis it may run."
)


def main() -> int:
    """Write an archive of a store, or make models and datasets of one.

    Returns
    -------
    int
        The exit status: 0 when all of it is done, 1 if something was refused, 2 for wrong usage.
    """
    given = parser(*sys.argv[1:2]).parse_args()
    settings = start(["--log-level", "error", *given.flags], program=f"manylabel {given.direction}")
    try:
        counts = asyncio.run(_moved(given, settings))
    except (ServiceError, ValueError, OSError) as error:
        hint = "; or say --overwrite" if isinstance(error, ModelExists | DatasetExists) else ""
        sys.stderr.write(f"manylabel {given.direction}: {error}{hint}\n")
        return 1
    done = "exported" if given.direction == "export" else "imported"
    kinds = {"models": "model", "versions": "version", "datasets": "dataset", "keys": "key"}
    moved = [f"{counts[key]} {name}{'' if counts[key] == 1 else 's'}" for key, name in kinds.items()]
    moved = moved if counts["keys"] else moved[:-1]
    what = f"{', '.join(moved[:-1])} and {moved[-1]}"
    place = f"{'to' if given.direction == 'export' else 'from'} {given.archive}"
    sys.stdout.write(f"{done} {what} {place}\n")
    return 0


async def _moved(given: argparse.Namespace, settings: Settings) -> dict[str, int]:
    # Only now: numerical libraries take seconds to load, and --help needs none.
    from manylabel_service.storage import open_store
    from manylabel_service.storage.address import is_redis
    from manylabel_service.storage.sqlite.engine import DATABASE
    from manylabel_service.transfer.archive import ArchiveReader, ArchiveWriter
    from manylabel_service.transfer.exporting import Selection, export
    from manylabel_service.transfer.importing import load

    selection = Selection(keys=given.keys)
    if given.model or given.dataset:  # include only the named ones
        keys = given.keys and given.direction == "import"
        selection = Selection(tuple(given.model or ()), tuple(given.dataset or ()), keys)
    reader = ArchiveReader(given.archive) if given.direction == "import" else None
    # Opening a store would create it.
    if reader is None and not is_redis(settings.store) and not (settings.data_dir / DATABASE).exists():
        raise ValueError(f"there is no store in {settings.data_dir}; --data-dir names another directory")
    store = open_store(settings)
    await store.open()
    try:
        if reader is not None:
            return await load(store, settings, reader, selection, given.overwrite)
        writer = ArchiveWriter(given.archive, given.overwrite)
        try:
            return await export(store, settings, writer, selection)
        except BaseException:
            writer.give_up()
            raise
    finally:
        await store.close()


_DESCRIPTIONS = {
    "export": "Write models of both kinds, their versions, datasets and keys of a store to an archive.",
    "import": "Make the models and datasets of an archive in a store; one without keys gets those of the archive.",
}


def parser(direction: str = "export") -> Parser:
    """Return the parser of the arguments, of which the direction is the first."""
    made = Parser(f"manylabel {direction}", description=_DESCRIPTIONS.get(direction, ""), epilog=_EPILOG)
    made.add_argument("direction", choices=_DESCRIPTIONS, help=argparse.SUPPRESS)
    made.add_argument("archive", type=Path, metavar="ARCHIVE", help="one file if it ends with .zip, else a directory")
    made.add_argument("--model", action="append", metavar="NAME", help="only this model; repeatable")
    made.add_argument("--dataset", action="append", metavar="NAME", help="only this dataset; repeatable")
    made.add_argument("--no-keys", action="store_false", dest="keys", help="leave the keys out")
    what = "an archive that is there" if direction == "export" else "models and datasets of the same names"
    made.add_argument("--overwrite", action="store_true", help=f"replace {what}")
    return made


if __name__ == "__main__":
    sys.exit(main())
