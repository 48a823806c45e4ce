"""The queue of RQ over which tasks reach workers. It is transport and no more: what is true stands in the store."""

from __future__ import annotations

import redis
from rq import Queue
from rq.serializers import JSONSerializer

from manylabel_service.settings import Settings
from manylabel_service.storage.address import Address

QUEUE = "manylabel"
TASK = "manylabel_service.jobs.worker.rq_worker.do_task"
"""What a worker calls, with the id of a job and the number of a task."""


def connect(settings: Settings) -> redis.Redis:
    """A connection to the Redis of the store, for RQ."""
    password = settings.redis_password.get_secret_value() if settings.redis_password else None
    address = Address.parse(settings.store, password, settings.redis_ca_file)
    seconds = settings.redis_timeout_seconds
    return redis.Redis(
        host=address.host,
        db=address.database,
        ssl=address.tls,
        socket_connect_timeout=seconds,
        socket_timeout=seconds,
        **address.arguments(),
    )


def queue_of(connection: redis.Redis) -> Queue:
    """The queue on a connection."""
    return Queue(QUEUE, connection=connection, serializer=JSONSerializer)
