"""Program ``python -m manylabel_service.archive backup|restore [flags]``, with the flags of a server."""

import argparse
import asyncio
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from manylabel_service.clock import rfc3339, unix_ms
from manylabel_service.errors import ServiceError
from manylabel_service.programs import Parser, start
from manylabel_service.settings import Settings
from manylabel_service.storage.places import open_place
from manylabel_service.storage.places.place import ArchiveError
from manylabel_service.storage.protocol import position_key

if TYPE_CHECKING:
    from manylabel_service.archive.restoring import Without
    from manylabel_service.online.history.lineage import Receipt

_EPILOG = (
    "Name the store by the settings of a server: --data-dir, --store, --config, or MANYLABEL_STORE and so on "
    "(manylabel serve --help). "
)
_DESCRIPTIONS = {
    "backup": "Write all that is new in a store to an archive: models with their logs, versions, datasets, keys and "
    "webhooks.",
    "restore": "Restore a store from an archive: the latest state, or that of a time.",
}
_WHEN = {
    "backup": "Stop a server with a data directory first; a server on Redis can run.",
    "restore": "All servers and workers of the store must be stopped first.",
}
_LEFT = "not in an archive: stored predictions, jobs, the audit log, queues of webhooks\n"


def main() -> int:
    """Back up or restore a store.

    Returns
    -------
    int
        Exit status: 0 for success, 1 if the backup or restore was refused, failed or skipped a model, 2 for a usage
        error.
    """
    given = parser(*sys.argv[1:2]).parse_args()
    settings = start(["--log-level", "error", *given.flags], program=f"manylabel {given.direction}")
    try:
        told, refused = asyncio.run((_backup if given.direction == "backup" else _restore)(given, settings))
    except (ArchiveError, ServiceError, ValueError, OSError) as error:
        sys.stderr.write(f"manylabel {given.direction}: {error}\n")
        return 1
    sys.stdout.write(told)
    for model, reason in refused.items():
        sys.stderr.write(f"manylabel {given.direction}: model {model!r} was not restored: {reason}\n")
    return 1 if refused else 0


async def _backup(given: argparse.Namespace, settings: Settings) -> tuple[str, Mapping[str, str]]:
    # Imported here: numerical libraries take seconds to import, and --help needs none.
    from manylabel_service.archive.shipping import Shipper
    from manylabel_service.archive.store_documents import check_complete
    from manylabel_service.storage import open_store
    from manylabel_service.storage.address import is_redis
    from manylabel_service.storage.sqlite.engine import DATABASE

    address = given.to or settings.archive
    if address is None:
        raise ValueError("name the archive: --to ADDRESS, or the setting archive")
    place = open_place(address)
    # Opening a store would create one.
    if not is_redis(settings.store) and not (settings.data_dir / DATABASE).exists():
        raise ValueError(f"there is no store in {settings.data_dir}; --data-dir names another directory")
    store = open_store(settings)
    await store.open()
    try:
        await check_complete(store)
        objects, size_bytes = await Shipper(store, place, settings).ship()
    finally:
        await store.close()
    return f"wrote {objects} objects, {size_bytes:,} bytes, to {address}\n{_LEFT}", {}


async def _restore(given: argparse.Namespace, settings: Settings) -> tuple[str, Mapping[str, str]]:
    """Restore a store; return the report to print, and the reason for each model that was not restored."""
    from manylabel_core.state import DamagedState
    from manylabel_service.archive.restoring import restore
    from manylabel_service.storage import open_store
    from manylabel_service.storage.blob_places import agree_on_blobs

    if isinstance(given.until, str) and given.model is None:
        raise ValueError("a position belongs to one model: name it with --model, or set --until to a time")
    if given.without is not None and given.model is None:
        raise ValueError("--without forgets examples of one model: set --model too")
    without = None if given.without is None else _without(given.without)
    place = open_place(given.archive_address)
    store = open_store(settings)
    await store.open()
    try:
        await agree_on_blobs(store, settings.blobs)
        restored = await restore(place, store, settings, until=given.until, model=given.model, without=without)
    except DamagedState as error:
        raise ArchiveError(f"model {given.model!r} was not restored: {error}") from error
    finally:
        await store.close()
    lines = [f"restored the state of {rfc3339(restored.state_ms)} from {given.archive_address}"]
    for name, (origin, here) in restored.models.items():
        moved = "" if here == origin else f", which is {here} in this store"
        time_ms = restored.times.get(name)
        time = "" if time_ms is None else f" of {rfc3339(time_ms)}"
        lines.append(f"model {name}: position {origin}{time}{moved}")
    if given.model is None:
        lines.append(f"{restored.datasets} datasets, {restored.keys} keys, as of {rfc3339(restored.unix_ms)}")
    lines += [] if restored.receipt is None else _receipt(restored.receipt)
    return "\n".join(lines) + f"\n{_LEFT}", restored.refused


def _without(path: Path) -> "Without":
    """Return the examples named in a file."""
    from manylabel_service.archive.restoring import Without

    try:
        without = Without.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise ValueError(
            f'{path} must be JSON such as {{"refs": ["customer-4711"]}}: {where}: {first["msg"]}'
        ) from None
    if not without.refs and not without.positions:
        raise ValueError(f"{path} names no example: add refs or positions")
    return without


def _receipt(receipt: "Receipt") -> list[str]:
    """Return the printed form of a receipt."""
    if not receipt.examples:
        return [f"no example of --without is in its history, which begins at position {receipt.since}"]
    told = [
        f"examples forgotten: {receipt.examples:,}, in entries of the log: {receipt.entries:,} (receipt {receipt.id})",
        f"its history begins at position {receipt.since}",
        "the archive contains these examples until a server or manylabel backup has archived this store there",
    ]
    return told + [f"out of reach: {each}" for each in receipt.beyond_reach]


def _until(text: str) -> str | int:
    """Return a position as a string, or a time in milliseconds of Unix time."""
    try:
        position_key(text)
    except ValueError:
        pass
    else:
        return text
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise argparse.ArgumentTypeError(f"must be a position, or a time such as 2026-11-27T10:02:00Z, not {text!r}")
    return unix_ms(at)


def parser(direction: str = "backup") -> Parser:
    """Return the argument parser; the first argument is the direction."""
    epilog = _EPILOG + _WHEN.get(direction, "")
    made = Parser(f"manylabel {direction}", description=_DESCRIPTIONS.get(direction, ""), epilog=epilog)
    made.add_argument("direction", choices=_DESCRIPTIONS, help=argparse.SUPPRESS)
    if direction == "restore":
        made.add_argument(
            "--from", dest="archive_address", metavar="ADDRESS", required=True, help="the archive, file:///DIRECTORY"
        )
        when = "restore the state at a time (RFC 3339) or, with --model, at a position"
        made.add_argument("--until", type=_until, metavar="TIME|POSITION", help=when)
        made.add_argument("--model", metavar="NAME", help="only this model, into a store that does not have it")
        without = "with --model: as if it had never seen the examples in this JSON file (refs or positions)"
        made.add_argument("--without", type=Path, metavar="FILE", help=without)
    else:
        made.add_argument("--to", metavar="ADDRESS", help="the archive (default: the setting archive)")
    return made


if __name__ == "__main__":
    sys.exit(main())
