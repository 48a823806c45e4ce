"""Store for many processes, on a Redis server or a Redis Cluster."""

from manylabel_service.storage.redis.store import RedisStore

__all__ = ["RedisStore"]
