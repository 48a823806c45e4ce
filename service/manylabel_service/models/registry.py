"""Registry of the models of this process, by name."""

import asyncio
from collections.abc import Iterable, MutableSequence, Sequence, Set
from contextlib import suppress
from itertools import islice
from types import TracebackType
from typing import Any

import structlog

from manylabel_service.access.grant import ANY
from manylabel_service.environment import time
from manylabel_service.errors import (
    DocumentDamaged,
    IncompatibleRelease,
    ModelDamaged,
    ModelExists,
    ModelFailed,
    ModelGone,
    ModelHasFollowers,
    ModelNotFound,
    NotReady,
    ReleaseTooOld,
    ReplayMismatch,
    StorageError,
    StorageFull,
    StorageUnavailable,
    check_limit,
)
from manylabel_service.hosting.hosted_model import HostedModel, ModelLifecycle, StoreHealth
from manylabel_service.hosting.kernels import BASE, GATE, Kernels, NotCompiled
from manylabel_service.models.eviction import Eviction
from manylabel_service.models.listing import SMALL_SPEC_BYTES, Listing
from manylabel_service.models.loader import ModelLoader
from manylabel_service.models.log_watcher import LogWatcher
from manylabel_service.models.membership import MAX_MODELS, Membership
from manylabel_service.models.resident import ResidentModels
from manylabel_service.models.restarts import Restarts, after_error
from manylabel_service.models.successions import Successions
from manylabel_service.models.uses import Uses, assigned_to
from manylabel_service.online.history.catalogue import CatalogueStore
from manylabel_service.online.host import Host
from manylabel_service.online.replica import Replica
from manylabel_service.online.size_limits import check_size
from manylabel_service.online.snapshots.quota import SnapshotQuota
from manylabel_service.online.spec.follow import MAX_FOLLOWERS, Follow
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.spec.tiers import tiers_of_spec
from manylabel_service.online.spec.trained import following_spec, is_trained
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.tiers import tiers_of_model
from manylabel_service.online.updates.replay import HOPELESS
from manylabel_service.settings import Settings
from manylabel_service.storage import UNREADABLE, ModelMeta, Store
from manylabel_service.storage.models import leader_of
from manylabel_service.trained.model import TrainedModel
from manylabel_service.trained.version_store import VersionStore

log = structlog.get_logger()

_ACTION = "delete it, or repair the store"

VERIFY_SECONDS = 60.0
"""Maximum seconds for which a server that joins servers of another build restores models before it is ready."""


class Registry:
    """Registry that creates, finds, lists and deletes models, loads them on demand, and evicts idle models.

    It contains online and trained models, and distinguishes the two only when it creates them.

    Attributes
    ----------
    snapshot_room : shared quota of snapshots in memory.
    listing : list of all models of the store.
    membership : membership of this process in the cluster.
    successions : replaces models by successors.
    uses : times of the last use of models.
    kernels : compilation and loading of compiled functions.
    ready : True once the tier `base` is loaded, until `stop`.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        kernels: Kernels,
        snapshot_room: SnapshotQuota,
        membership: Membership,
        successions: Successions,
    ) -> None:
        self.kernels = kernels
        self._store = store
        self._settings = settings
        self._replicas = ResidentModels()
        self._damaged: set[str] = set()
        self._creating: set[str] = set()
        self._store_health = StoreHealth()
        self.snapshot_room = snapshot_room
        self._loader = ModelLoader(self._load, settings.limits.load_timeout_seconds)
        self.listing = Listing(store, settings, self._replicas)
        self._eviction = Eviction(settings, self._replicas, self._evict)
        self._log_watcher = LogWatcher(store, self._store_health, self._replicas)
        self._restarts = Restarts(self._loader.get)
        self.uses = Uses(store, self._replicas)
        self._last_uses: dict[str, float] = {}
        """Times of the last use of models that are restored without a request, by name."""
        self._tasks: list[asyncio.Task[None]] = []
        self.ready = False
        self._shared = Host(
            store, settings, self._forget, self._crashed, self._replicas.note_changed, snapshot_room, self._store_health
        )
        self.membership, membership.describe = membership, self._standing
        self.successions, successions.on_replaced = successions, self._replaced

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load the functions that all models need, and restore recently used models in the background, if configured.

        If servers of another build run, models are restored first, for at most `VERIFY_SECONDS`, so that a server that
        must not serve them does not become ready.

        Raises
        ------
        StorageError
            The store cannot be read. `start` may be called again, and skips completed steps.
        StoreTooNew
            The store has a newer format.
        """
        await self.kernels.start()  # compiling can take a minute; the store is polled afterwards
        if not self._tasks:
            await self.membership.join()
        await self.successions.look()
        self._store_health.responded()
        if not self._tasks:
            following = self._log_watcher.run(), self._log_watcher.poll_versions(), self._log_watcher.poll_followers()
            upkeep = self._eviction.run(), self._restarts.run(), self.uses.run()
            work = (*following, *upkeep, self.membership.run(), self.successions.run())
            self._tasks = [asyncio.create_task(each) for each in work]
        if self._settings.preload:
            preloading = asyncio.create_task(self._preload())
            self._tasks.append(preloading)
            if self.membership.must_agree:
                await asyncio.wait([preloading], timeout=VERIFY_SECONDS)
        self.ready = True
        self.membership.announce()

    async def _preload(self) -> None:
        """Restore the recently used models that are assigned to this server, latest use first, while memory allows.

        If servers of another build run, all recently used models count as assigned, because this server must verify
        that it computes the same state of each. The work takes at most half of the time of the event loop.
        """
        late: list[tuple[str, float, NotCompiled]] = []
        try:
            async for (record, *_), used_at in self.uses.recent(self._settings.limits.evict_idle_seconds):
                if record.name in self._replicas or not self._is_assigned(record.name):
                    continue
                if not await self._fits(0 if record.damaged else await self._size_bytes(record)):
                    log.info("preload_stopped", loaded=len(self._replicas))
                    break
                started = time.monotonic()
                if (needs := await self.restore(record.name, used_at)) is not None:
                    late.append((record.name, used_at, needs))
                await asyncio.sleep(time.monotonic() - started)
        except StorageError as error:
            log.warning("preload_stopped", loaded=len(self._replicas), error=str(error))
        except Exception:
            log.exception("preload_failed")
        self._tasks.append(asyncio.create_task(self._preload_late(late)))

    async def _preload_late(self, late: Iterable[tuple[str, float, NotCompiled]]) -> None:
        """Restore models when their functions are compiled."""
        for name, used_at, first in late:
            needs: NotCompiled | None = first
            while needs is not None:
                await self.kernels.gate.wait(needs.tiers)
                if not await self._fits():
                    return
                needs = await self.restore(name, used_at)

    async def _fits(self, size_bytes: int = 0) -> bool:
        """Return whether the memory for models has space for one more."""
        return await self._eviction.resident_bytes() + size_bytes < self._settings.max_resident_bytes

    def _is_assigned(self, name: str) -> bool:
        if self.membership.must_agree:
            return True
        servers = {self.membership.id, *(each.id for each in self.membership.members if each.role == "server")}
        return assigned_to(name, servers) == self.membership.id

    async def restore(self, name: str, used_at: float) -> NotCompiled | None:
        """Restore a model for which no request waits; return the error if its functions are being compiled.

        After another error, the next request for the model tries again.

        Parameters
        ----------
        name : name of the model.
        used_at : time.monotonic() of its last use.
        """
        self._last_uses[name] = used_at
        try:
            await self._loader.get(name)
        except NotCompiled as error:
            return error
        except (ModelNotFound, ModelDamaged, NotReady):
            pass
        except StorageError as error:
            log.warning("model_restore_failed", model=name, error=str(error), action="retried on the next request")
        finally:
            self._last_uses.pop(name, None)
        return None

    async def _restored(self, record: ModelMeta) -> HostedModel:
        """Restore a model and host it; a model that cannot be restored is hosted as failed.

        It waits for functions that are being loaded. Raises NotReady after an unexpected error; the model is restored
        again later. Raises NotCompiled if functions must be compiled first.
        """
        while True:
            try:
                return await self._restored_at_once(record)
            except NotCompiled as error:
                await GATE.wait(error.tiers, on_disk=True)

    async def _restored_at_once(self, record: ModelMeta) -> HostedModel:
        """Restore a model like `_restored`; raise NotCompiled if some functions are not loaded."""
        name, large = record.name, len(record.spec) > SMALL_SPEC_BYTES
        replica = await asyncio.to_thread(self._readable, record) if large else self._readable(record)
        try:
            await self._restore(replica)
        except (ModelGone, StorageUnavailable, NotCompiled):
            raise
        except IncompatibleRelease as error:
            replica.withhold(error)
        except (ModelDamaged, DocumentDamaged) as error:
            damaged = error if isinstance(error, ModelDamaged) else ModelDamaged(name, str(error))
            log.error("model_damaged", model=name, error=str(error), action=_ACTION)
            replica.fail(lambda: ModelDamaged(name, damaged.detail))
        except (ModelFailed, *HOPELESS) as error:
            log.error("model_restore_failed", model=name, error=str(error), action=_ACTION)
            detail = f"model {name!r} could not be restored: the operator of the server must act; see its log"
            failed = error if isinstance(error, ModelFailed) else ModelFailed(detail)
            replica.fail(lambda: type(failed)(failed.detail))
        except Exception as error:  # an unexpected error must not prevent other models from serving
            answer = replica.crash(error)
            await replica.drop()
            raise answer from None
        else:
            log.info("model_restored", model=name, position=replica.position)
        return await self._host(replica)

    async def _restore(self, replica: HostedModel) -> None:
        """Restore a model. If another build serves the store, raise an error unless both builds compute identical
        states."""
        await replica.restore(verify=self.membership.must_agree and replica.leads)

    async def stop(self) -> None:
        """Finish pending requests, then take the last snapshots one at a time."""
        self.ready = False
        for replica in self.resident():
            replica.stop_changes()
        await self.kernels.stop()
        await self.successions.stop()
        await self._loader.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for replica in self.resident():
            replica.stop_changes()  # including models that were loaded meanwhile
        for replica in self.resident():
            try:
                await replica.stop()
            except Exception:  # the other models and the store must still be closed
                log.exception("model_stop_failed", model=replica.record.name)
        with suppress(StorageError):
            await self.uses.record()
        await self.membership.leave()

    # -- queries -----------------------------------------------------------------------------------

    @property
    def failed(self) -> list[str]:
        """Names of models that could not be restored, have failed or are damaged, including trained models whose served
        version cannot be loaded.

        Other models are not affected.
        """
        impaired = {model.name for model in self._replicas.impaired}
        return sorted(self._damaged | impaired | self._restarts.waiting)

    @property
    def storage_gone_seconds(self) -> float | None:
        """Seconds for which the store has been unavailable; None while it responds."""
        return self._store_health.stale_seconds if self.ready else None

    def check_compatible(self) -> None:
        """Raise IncompatibleRelease if this release must not join, or must not serve a model in memory."""
        if self.membership.refusal is not None:
            raise ReleaseTooOld(str(self.membership.refusal))
        codes = [replica.incompatible for replica in self._replicas.withheld]
        if codes:
            error = ReleaseTooOld if ReleaseTooOld.code in codes else ReplayMismatch
            raise error(f"another release must serve {len(codes)} of the models; see the log")

    def check_ready(self) -> None:
        """Raise NotReady, or the error of `check_compatible`, if this server must not receive requests."""
        self.check_compatible()
        self.require_ready()

    def _standing(self) -> dict[str, Any]:
        withheld = {model.name: model.incompatible for model in self._replicas.withheld}
        latest = islice(self._replicas.latest(), MAX_MODELS)
        return {
            "ready": self.ready and not withheld,
            "models": {model.name: model.position for model in latest if model.serving},
            "withheld": dict(islice(withheld.items(), MAX_MODELS)),
        }

    def require_ready(self) -> None:
        """Raise NotReady before the server has started, and during shutdown."""
        self.kernels.gate.require((BASE,))
        if not self.ready:
            raise NotReady("the server is starting or stopping")

    @property
    def n_resident(self) -> int:
        """The number of models in memory."""
        return len(self._replicas)

    def resident(self, names: Set[str] | None = None) -> list[HostedModel]:
        """Return the models in memory, by name; with `names`, only those."""
        return [
            self._replicas[name]
            for name in sorted(self._replicas if names is None else names)
            if name in self._replicas
        ]

    def is_resident(self, record: ModelMeta) -> bool:
        """Return whether a model is in memory."""
        hosted = self._replicas.get(record.name)
        return hosted is not None and hosted.record == record

    def arrivals(self) -> set[HostedModel]:
        """Return a set with the models in memory. Models that are loaded later are added to it until `end_arrivals`;
        the caller removes the models that it has examined."""
        arrived = set(self._replicas.values())
        self._replicas.arrivals.append(arrived)
        return arrived

    def end_arrivals(self, arrived: set[HostedModel]) -> None:
        """Stop adding models to a set from `arrivals`."""
        self._replicas.arrivals = [each for each in self._replicas.arrivals if each is not arrived]

    async def resident_bytes(self) -> int:
        """Return the bytes of memory of the models in memory."""
        return await self._eviction.resident_bytes()

    async def get(self, name: str) -> HostedModel:
        """Return a model, loading it if it is not in memory.

        Raises
        ------
        ModelNotFound, StorageUnavailable
        NotReady
            The server is starting or stopping, or loading takes longer than a caller may wait.
        """
        replica = self._replicas.get(name)
        if replica is not None and replica.serving:
            self._replicas.note_used(replica)
            return replica
        if replica is not None and replica.failed and not await self._still_there(replica):
            replica = None
        if replica is None:
            self.require_ready()
            await self._check_restart(name)
            replica = await self._loader.get(name)
        self._replicas.note_used(replica)
        if replica.catching_up:
            await replica.catch_up(self._settings.limits.load_timeout_seconds)
        return replica

    def use(self, name: str) -> "Lease":
        """Return a lease of a model, which is not evicted while it is used: ``async with registry.use(name) as model``.

        The block raises the errors of `get`, and NotReady if the model was replaced meanwhile.
        """
        return Lease(self, name)

    async def check_gone(self, model: HostedModel) -> None:
        """Raise ModelNotFound if a model was deleted, and NotReady if another model has its name now."""
        await model.sync()  # this process may not have noticed the deletion yet
        await self.get(model.name)
        raise NotReady(f"model {model.name!r} was replaced meanwhile")

    def poll(self, name: str) -> None:
        """Read the new log entries of a model, including those of this process."""
        if (model := self._replicas.get(name)) is not None and model.serving:
            model.poll()

    async def _still_there(self, replica: HostedModel) -> bool:
        """Return whether a failed model still exists. This needs a look-up in the store, because the log of a failed
        model is not followed."""
        record = await self._store.models.find(replica.record.name)
        if record != replica.record:
            self._forget(replica)
        return record == replica.record

    async def list(self, patterns: Sequence[str] = (ANY,)) -> tuple[list[dict[str, Any]], list[str]]:
        """List models by name with their status; models that are not in memory have only their spec.

        Also returns the names of damaged models. Raises NotReady or StorageUnavailable.

        Parameters
        ----------
        patterns : sorted patterns of the names; a name must match at most one of them.
        """
        self.require_ready()
        models, damaged, page = list[dict[str, Any]](), list[str](), await self.listing.page(patterns)
        while True:
            models, damaged = models + page.models, damaged + page.damaged
            if page.next is None:
                return models, damaged
            page = await self.listing.page(patterns, page.next)

    # -- creation and deletion ---------------------------------------------------------------------

    async def create(
        self, spec: ModelSpec, state: OnlineModel | None = None, follow: Follow | None = None
    ) -> HostedModel:
        """Create a model that is ready to learn, optionally with an initial state.

        A model that follows another may still be catching up when it is returned. Raises NotReady, NotCompiled,
        ModelExists, LimitExceeded or StorageError.
        """
        self.require_ready()
        tiers = tiers_of_spec(spec) if state is None else (*tiers_of_spec(spec), *tiers_of_model(state))
        await self.kernels.gate.wait(tiers, on_disk=True)
        data = spec.to_bytes()
        # A spec may declare hundreds of thousands of names, so a thread makes the state.
        empty = None if state or follow or len(data) > SMALL_SPEC_BYTES else OnlineModel(spec)
        check_size(spec, state or empty, self._settings)
        self._creating.add(spec.name)
        try:
            created = self._created(spec, data, state, empty, follow)
            del state  # the restored model needs the memory
            return await created
        finally:
            self._creating.discard(spec.name)

    async def _created(
        self, spec: ModelSpec, data: bytes, state: OnlineModel | None, empty: OnlineModel | None, follow: Follow | None
    ) -> HostedModel:
        models = self._store.models
        if await models.find(spec.name) is not None:
            raise ModelExists(spec.name)
        await self.successions.clear(spec.name)
        check_limit("the number of models", await models.count() + len(self._creating), self._settings.max_models)
        if follow is not None:
            check_limit(_followed(follow), len(await models.followers(follow.record)) + 1, MAX_FOLLOWERS)
            return await self._created_follower(spec, state, follow)
        if empty is not None:
            replica = Replica(await models.create(spec.name, data), self._shared, empty)
            replica.start()
            return await self._host(replica)
        if state is None:
            return await self._restored(await models.create(spec.name, data))
        seed = await asyncio.to_thread(state.seed, spec.name)
        del state
        await self.snapshot_room.add_stored(len(seed))
        record = await models.create(spec.name, data, seed)
        del seed
        return await self._restored(record)

    async def _created_follower(self, spec: ModelSpec, state: OnlineModel | None, follow: Follow) -> HostedModel:
        stored = following_spec(spec, follow)
        data = None
        if state is not None:
            data = await asyncio.to_thread(state.to_buffer)
            await self.snapshot_room.add_stored(len(data))
        record = await self._store.models.create(spec.name, stored, data)
        # Meanwhile other processes may have deleted the leader or created followers.
        followers = await self._store.models.followers(follow.record)
        leader = await self._store.models.find(follow.model)
        leads = leader is not None and leader.incarnation == follow.incarnation
        if not leads or record not in followers[:MAX_FOLLOWERS]:
            await self._delete(record)
            if not leads:
                raise ModelNotFound(follow.model)
            check_limit(_followed(follow), len(followers), MAX_FOLLOWERS)
        replica = await self._restored(record)
        await replica.catch_up(self._settings.limits.load_timeout_seconds)
        return replica

    async def followers(self, name: str) -> Sequence[str]:
        """Return the names of the models that follow a model, in the order of their creation. Raises ModelNotFound or
        StorageError."""
        record = await self._store.models.find(name)
        if record is None:
            raise ModelNotFound(name)
        return [each.name for each in await self._store.models.followers(record)]

    async def delete(self, name: str, with_followers: bool = False) -> None:
        """Delete a model with its log and its snapshots, and the models that follow it.

        Raises
        ------
        ModelHasFollowers
            The model has followers, and the request does not allow their deletion.
        NotReady, ModelNotFound, StorageError
        """
        self.require_ready()
        record = await self._store.models.find(name)
        if record is None:
            raise ModelNotFound(name)
        followers = await self._store.models.followers(record)
        if followers and not with_followers:
            raise ModelHasFollowers(name, [each.name for each in followers])
        for follower in followers:
            await self._delete(follower)
        await self._delete(record)

    async def followers_besides(self, records: Sequence[ModelMeta]) -> Sequence[ModelMeta]:
        """Return the followers of some models, without those that are among these models. Raises StorageError."""
        known = {record.incarnation for record in records}
        found = [await self._store.models.followers(record) for record in records]
        return [each for followers in found for each in followers if each.incarnation not in known]

    async def delete_all(self, records: Sequence[ModelMeta], deleted: MutableSequence[str]) -> None:
        """Delete models, followers before their leaders; models that no longer exist are skipped.

        Raises StorageError; `deleted` then has the names of the models that are deleted.
        """
        for record in sorted(records, key=lambda record: leader_of(record.spec) is None):
            current: ModelMeta | None = record
            while current is not None:
                try:
                    await self._delete(current)
                    deleted.append(record.name)
                    break
                except ModelGone:  # it was deleted, or replaced by its successor
                    found = await self._store.models.find(record.name)
                    same = found is not None and await self.successions.is_same(
                        record.name, record.incarnation, found.incarnation
                    )
                    current = found if same else None

    async def _delete(self, record: ModelMeta) -> None:
        name = record.name
        self._restarts.forget(name)
        hosted = self._replicas.get(name)  # it may notice the deletion and unregister itself meanwhile
        await self._store.models.delete(record)
        self._damaged.discard(name)
        with suppress(StorageUnavailable):  # the remaining blobs are deleted later
            await CatalogueStore(record, self._store).delete_all()
            await self.successions.delete(name)
            if not record.damaged and is_trained(record.spec):
                await VersionStore(record, self._store).files.delete_all()
        for replica in {hosted, self._replicas.get(name)}:
            if replica is not None and replica.record == record:
                self._replicas.remove(replica)
                await replica.drop()

    def _readable(self, record: ModelMeta) -> HostedModel:
        """Return a model to restore; raise `ModelDamaged` if its metadata is unreadable."""
        try:
            record.check()
            hosted = self._hosted(record)
        except NotCompiled:
            raise
        except IncompatibleRelease as error:
            log.error("model_withheld", model=record.name, code=error.code, error=str(error))
            raise
        except MemoryError as error:
            raise _short_of_memory(record.name) from error
        except Exception as error:  # a damaged spec must not prevent other models from serving
            damaged = error if isinstance(error, ModelDamaged) else ModelDamaged(record.name, f"its spec: {error}")
            log.error("model_damaged", model=record.name, incarnation=record.incarnation, error=str(error))
            self._damaged.add(record.name)
            raise damaged from error
        self._damaged.discard(record.name)
        return hosted

    def _hosted(self, record: ModelMeta) -> HostedModel:
        return (TrainedModel if is_trained(record.spec) else Replica)(record, self._shared)

    async def _host(self, replica: HostedModel) -> HostedModel:
        """Register a replica; return the registered replica, which may belong to a newer or an older model."""
        name = replica.record.name
        other = self._replicas.get(name)
        restarted = other is not None and other.crashed and other.record == replica.record
        if other is not None and other.record.incarnation >= replica.record.incarnation and not restarted:
            await replica.drop()
            return other
        self._replicas.add(replica, self._last_uses.pop(name, None))
        if not replica.crashed:
            self._restarts.done(name)
        if other is not None and restarted:
            other.evict()
        elif other is not None:
            await other.drop()
        return replica

    async def _load(self, name: str) -> HostedModel:
        record = await self._store.models.find(name)
        if record is None:
            raise ModelNotFound(name)
        try:
            return await self._loaded(record)
        except ModelGone:  # it was deleted, or replaced by its successor
            if await self._store.models.find(name) == record:
                raise ModelNotFound(name) from None
            return await self._load(name)

    async def _loaded(self, record: ModelMeta) -> HostedModel:
        """Load a model; raise ModelGone if it was deleted or replaced in the meantime."""
        if record.damaged:
            self._readable(record)
        async with self._loader.slots:
            resident = self._replicas.get(record.name)
            if resident is not None and resident.record == record and not resident.crashed:
                return resident
            if record.name not in self._last_uses:
                with suppress(StorageFull):  # then the model cannot learn either
                    await self._store.models.use({record.name: 0})
            if self._replicas.nbytes + self._settings.max_model_bytes > self._settings.max_resident_bytes:
                await self._eviction.sweep(room_for=await self._size_bytes(record))
            replica = await self._restored(record)
            await self._eviction.sweep(spare=replica)
            return replica

    async def _size_bytes(self, record: ModelMeta) -> int:
        """Return the approximate size of a model to be loaded."""
        if is_trained(record.spec):
            with suppress(*UNREADABLE):  # loading the model reports the error
                target = (await VersionStore(record, self._store).read()).target
                return 0 if target is None else target.size_bytes
            return 0
        snapshots = await self._store.snapshots.all(record)
        return next((each.size_bytes for each in snapshots if each.listed), 0)

    def _evict(self, replica: HostedModel) -> None:
        self.uses.note_evicted(replica)
        self._replicas.remove(replica)
        replica.evict()
        self._restarts.forget(replica.name)

    def _replaced(self, record: ModelMeta) -> None:
        """Release a replaced model; pending requests use its successor."""
        replica = self._replicas.get(record.name)
        if replica is not None and replica.record.incarnation == record.incarnation:
            replica.handle_error(ModelGone(record.name, record.incarnation))

    def _crashed(self, replica: HostedModel) -> NotReady:
        """Schedule the restart of a model after an unexpected error; release the model, unless it still predicts."""
        learning = replica.answers if isinstance(replica, TrainedModel) else replica
        seconds = self._restarts.note(replica.record, learning.position)
        if replica.state is ModelLifecycle.CRASHED:
            self._replicas.remove(replica)
        return after_error(replica.name, seconds)

    async def _check_restart(self, name: str) -> None:
        """Raise NotReady if a model waits for its restart; it may have been deleted, which needs a look-up."""
        if (waits := self._restarts.waits(name)) is not None:
            if await self._store.models.find(name) == waits:
                self._restarts.check(name)
            else:
                self._restarts.forget(name)

    def _forget(self, replica: HostedModel) -> None:
        """Unregister a model that another process has deleted."""
        if self._replicas.has(replica):
            self._replicas.remove(replica)
            self._restarts.forget(replica.name)
            log.info("model_deleted_elsewhere", model=replica.name)


class Lease:
    """Use of a model by one request, see `Registry.use`."""

    __slots__ = ("_model", "_name", "_registry")

    def __init__(self, registry: Registry, name: str) -> None:
        self._registry = registry
        self._name = name

    async def __aenter__(self) -> HostedModel:
        model = self._model = await self._registry.get(self._name)
        model.users += 1
        return model

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._model.users -= 1
        if isinstance(error, ModelGone):
            await self._registry.check_gone(self._model)


def _short_of_memory(name: str) -> NotReady:
    """Return the error for a model that cannot be loaded now."""
    log.error("model_restore_failed", model=name, error="out of memory", action="retried on the next request")
    return NotReady(f"there is too little memory to load model {name!r}")


def _followed(follow: Follow) -> str:
    """Return the text for the limit on followers in errors."""
    return f"followers of model {follow.model!r}"
