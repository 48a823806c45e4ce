"""Promotion of followers: the follower replaces its leader, which then follows it."""

import asyncio
from contextlib import suppress

from manylabel_service import ulid
from manylabel_service.clock import now_ms, rfc3339
from manylabel_service.errors import (
    KeyInFlight,
    KeyReused,
    ModelFailed,
    ModelGone,
    ModelIsOnline,
    ModelNotFound,
    NotPromotable,
    NotReady,
)
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.models.registry import Registry
from manylabel_service.models.successions import ReplayDiffers
from manylabel_service.online.history.lineage import Promotion
from manylabel_service.online.replica import Replica
from manylabel_service.online.successor.promotion import PromotionWriter


class Promoter:
    """Promotes followers of the models of a registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._successions = registry, registry.successions

    async def promote(self, name: str, key: IdempotencyKey | None, key_id: str | None) -> tuple[Promotion, bool]:
        """Replace a leader by its follower; also return whether an earlier request with the key did so.

        Raises
        ------
        NotPromotable
            The follower has failed or does not learn the whole log, or the leader was deleted or is being replaced.
        NotReady
            The follower has not caught up yet.
        ModelNotFound, ModelIsOnline, KeyInFlight, KeyReused, StorageError
        """
        follower = await self._current(name)
        follow = follower.follow if isinstance(follower, Replica) else None
        if not isinstance(follower, Replica) or follow is None:
            raise ModelIsOnline(name)
        if (earlier := await self._earlier(follow.model, name, key)) is not None:
            return earlier, True
        try:
            follower.check_serving()
        except ModelFailed as error:
            raise NotPromotable(name, error.detail) from error
        if follow.until is not None or follow.until_ms is not None:
            raise NotPromotable(name, f"it learns the log of {follow.model!r} only up to a position or time")
        try:
            leader = await self._current(follow.model)
        except ModelNotFound as error:
            raise NotPromotable(name, f"model {follow.model!r} was deleted") from error
        if not isinstance(leader, Replica) or leader.record.incarnation != follow.incarnation:
            raise NotPromotable(name, f"model {follow.model!r} was deleted, and another has its name")
        return await self._replaced(leader, follower, key, key_id), False

    async def _current(self, name: str) -> HostedModel:
        """Return the metadata of a model from the store, because another process may have just replaced the model."""
        model = await self._registry.get(name)
        if await self._successions.store.models.find(name) == model.record:
            return model
        model.handle_error(ModelGone(name, model.record.incarnation))
        return await self._registry.get(name)

    async def _earlier(self, leader: str, follower: str, key: IdempotencyKey | None) -> Promotion | None:
        """Return the promotion that an earlier request with this key made."""
        if key is None:
            return None
        for promotion in (await self._successions.lineages.find(leader)).promotions:
            if promotion.key == key.key and promotion.status != "failed":
                if (promotion.follower, promotion.digest) != (follower, key.digest.hex()):
                    raise KeyReused(key.key)
                if promotion.status == "running":
                    raise KeyInFlight(key.key)
                return promotion
        return None

    async def _replaced(
        self, leader: Replica, follower: Replica, key: IdempotencyKey | None, key_id: str | None
    ) -> Promotion:
        """Replace a leader by a follower that has caught up, and wait for it.

        The work continues if the caller is cancelled.
        """
        promotion = Promotion(
            id=ulid.new(),
            created=rfc3339(now_ms()),
            key_id=key_id,
            follower=follower.name,
            algorithm=follower.model.spec.algorithm,
            key=None if key is None else key.key,
            digest=None if key is None else key.digest.hex(),
        )
        name = follower.name
        busy = NotPromotable(name, f"model {leader.name!r} is already being replaced; try again later")
        await self._successions.begin(leader.record, promotion, lambda _: busy)
        task = self._successions.work(leader.name, promotion, self._promote(leader, follower, promotion))
        try:
            error = await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            raise NotReady("the server is stopping") from None
        ended = (await self._successions.lineages.find(leader.name)).promotions
        if done := next((each for each in ended if each.id == promotion.id and each.status == "done"), None):
            return done
        if isinstance(error, ReplayDiffers):
            raise NotPromotable(name, str(error))
        raise error or NotPromotable(name, f"model {leader.name!r} was deleted")

    async def _promote(self, leader: Replica, follower: Replica, promotion: Promotion) -> None:
        name, record = leader.name, leader.record
        store, room = self._successions.store, self._successions.room
        ttl_seconds = self._successions.settings.prediction_ttl_seconds
        for replica in (leader, follower):  # so that little must be replayed while the log is sealed
            await replica.take_snapshot()
        writer = PromotionWriter(record, follower.record, store, room, ttl_seconds)
        staged = await writer.stage((*leader.model.rollbacks, *follower.model.rollbacks))
        await self._successions.note(name, promotion, staged)
        await writer.build()
        copied: set[str] = set()
        await writer.copy_predictions(copied)
        for replica in (leader, follower):
            with suppress(NotReady):  # the model was evicted
                await replica.take_snapshot()
        await writer.catch_up()
        await store.logs.seal(record, True)
        promoted = await writer.finish(leader.snapshotter.log_bytes)
        await writer.copy_last_predictions(copied)
        await self._successions.check_state(follower, promoted.position, promoted.checksum)
        found = {"since": promoted.since, "position": promoted.position, "updates": promoted.updates}
        await self._successions.replace(name, promotion.model_copy(update=found), promoted.successions)
