"""Components that the models of a process share."""

from collections.abc import Callable
from dataclasses import dataclass, field

from manylabel_service.errors import NotReady
from manylabel_service.hosting.hosted_model import HostedModel, StoreHealth
from manylabel_service.online.snapshots.quota import SnapshotQuota
from manylabel_service.settings import Settings
from manylabel_service.slices import HalfPace
from manylabel_service.storage import Store


@dataclass(frozen=True, slots=True)
class Host:
    """Components that the models of a process share.

    Attributes
    ----------
    store, settings : store and settings of the server.
    on_deleted : callback with a model that another process has deleted.
    on_crashed : callback with a model that an unexpected error has ended; returns the error for its requests.
    on_changed : callback with a model that has learnt, loaded a version, or ended.
    snapshot_room : quota of snapshots.
    store_health : time of the store's last response; notified of failures.
    pace : pace of the followers.
    """

    store: Store
    settings: Settings
    on_deleted: Callable[[HostedModel], None]
    on_crashed: Callable[[HostedModel], NotReady]
    on_changed: Callable[[HostedModel], None]
    snapshot_room: SnapshotQuota
    store_health: StoreHealth = field(default_factory=StoreHealth)
    pace: HalfPace = field(default_factory=HalfPace)
