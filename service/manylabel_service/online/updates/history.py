"""Events of a part of the log that was applied before they were watched: it is applied again."""

from manylabel_core.state import DamagedState
from manylabel_service.hosting.events import Event
from manylabel_service.online.snapshots.reader import SnapshotReader
from manylabel_service.online.spec.trained import read_spec
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.updates.applier import events_of
from manylabel_service.online.updates.replay import HOPELESS, Interrupted, LogReplayer
from manylabel_service.storage import ModelMeta, Store, position_key


async def past_events(record: ModelMeta, store: Store, after: str, through: str) -> list[Event] | None:
    """Return the events after a position and up to another; None if the log no longer has all of these entries.

    This restores the model a second time, at the newest snapshot that is not after the first position.

    Raises
    ------
    StorageUnavailable, ModelGone, ReleaseTooOld
    """
    reader = SnapshotReader(record, store)
    replayer = LogReplayer(record, read_spec(record.spec), store, reader)
    first, last = position_key(after), position_key(through)
    snapshots = [each for each in await reader.list() if position_key(each.position) <= first]
    for snapshot in [*snapshots, None]:
        events: list[Event] = []
        try:
            model = OnlineModel(read_spec(record.spec)) if snapshot is None else await reader.load(snapshot.position)
            while position_key(model.position) < last and (pairs := await replayer.read_on(model, through)):
                found = (event for _, result in pairs for event in events_of(result))
                events += (event for event in found if position_key(event.position) > first)
        except Interrupted as error:
            raise error.error from error
        except (DamagedState, *HOPELESS):
            continue
        return events
    return None
