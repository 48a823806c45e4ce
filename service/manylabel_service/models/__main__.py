"""Program that raises the format number of a store: ``python -m manylabel_service.models [flags]``, with a server's
flags.
"""

import asyncio
import sys

from manylabel_service.errors import DocumentDamaged, ServiceError, StoreUnusable
from manylabel_service.models.membership import EXPIRY_SECONDS, KIND, Member
from manylabel_service.programs import Parser, start
from manylabel_service.release import FORMAT
from manylabel_service.settings import Settings
from manylabel_service.storage import Collection, Store, open_store

PROGRAM = "manylabel upgrade-store"

_DESCRIPTION = (
    "Raise the format number of a store to the highest that this release supports, so that servers write what only "
    "newer releases can read. It fails if a running server or worker does not support the number. Older releases "
    "refuse the store from then on."
)
_EPILOG = (
    "Name the store by the settings of a server: --data-dir, --store, --config, or MANYLABEL_STORE and so on "
    "(manylabel serve --help). Stop a server with a data directory first; servers on Redis keep running."
)


def main() -> int:
    """Raise the format number of a store.

    Returns
    -------
    int
        The exit status: 0 if the store has the number, 1 if it was refused, 2 for wrong usage.
    """
    settings = start(["--log-level", "error", *parser().parse_args().flags], program=PROGRAM)
    try:
        before = asyncio.run(_upgrade(settings))
    except (ServiceError, ValueError, OSError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    sys.stdout.write(f"the store has format {FORMAT}" + (f", before {before}\n" if before < FORMAT else " already\n"))
    return 0


async def _upgrade(settings: Settings) -> int:
    store = open_store(settings)
    await store.open()
    try:
        return await upgrade(store)
    finally:
        await store.close()


async def upgrade(store: Store) -> int:
    """Raise the format number of a store, and return the earlier number; raise StoreUnusable if a running process does
    not support the new number.
    """
    before = await store.format()
    if before < FORMAT:
        if older := await _older(store):
            await asyncio.sleep(EXPIRY_SECONDS)  # only a running process rewrites its description
            alive = [id for id, revision in (await _older(store)).items() if revision != older.get(id)]
            if alive:
                processes = ", ".join(sorted(alive))
                raise StoreUnusable(
                    f"processes of older releases use the store: {processes}; manylabel replicas lists them"
                )
        await store.raise_format(FORMAT)
    return before


async def _older(store: Store) -> dict[str, int]:
    """Return the revisions of the descriptions of processes that do not support `FORMAT`, by id."""
    members = await Collection(store.documents, KIND, Member).all()
    return {
        id: member.revision
        for id, member in members.items()
        if isinstance(member, DocumentDamaged) or (isinstance(member, Member) and member.supports < FORMAT)
    }


def parser() -> Parser:
    """Return the parser of the arguments, which are the flags of a server."""
    return Parser(PROGRAM, description=_DESCRIPTION, epilog=_EPILOG)


if __name__ == "__main__":
    sys.exit(main())
