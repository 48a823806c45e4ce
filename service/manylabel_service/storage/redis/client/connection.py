"""Calls to Redis with a timeout, sent once, and completed even if the caller is cancelled; the circuit breaker.

Each call runs in a separate task. If its caller is cancelled, the call still reads its reply. So no connection is
reused while a reply is due. Retries of the client library are disabled: a call without a reply may have succeeded, and
a repeated append could be stored twice.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

import redis.asyncio
import redis.exceptions as failed
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from manylabel_service.errors import StorageUnavailable
from manylabel_service.storage.address import Address
from manylabel_service.storage.background import BackgroundTasks
from manylabel_service.storage.redis.client.errors import UNREACHED, gone
from manylabel_service.storage.redis.scripts import Script

FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 1.0


class CircuitBreaker:
    """Circuit breaker: after a failure, one call at a time is tried, with exponential backoff; other calls fail at
    once.

    This prevents calls from accumulating during an outage and from reaching Redis all at once afterwards.
    """

    def __init__(self) -> None:
        self.lost = 0
        """Number of times that contact was lost; a caller that sees it increase may have missed changes."""
        self._wait_seconds = 0.0
        self._try_at = 0.0
        self._failure: BaseException | None = None
        self._trying = False

    @property
    def is_open(self) -> bool:
        """True from a failure until a call gets a response."""
        return self._failure is not None

    def before_call(self) -> BaseException | None:
        """Return the last error if no call is allowed now; None if it is.

        While the breaker is open, the allowed call is a trial: no other call is allowed before `end_trial`.
        """
        if self._failure is None:
            return None
        if self._trying or time.monotonic() < self._try_at:
            return self._failure
        self._trying = True
        return None

    def end_trial(self) -> None:
        """Record the end of a trial."""
        self._trying = False

    def succeeded(self) -> None:
        """Record that a call got a response."""
        if self._failure is not None:
            self._failure = None
            self._wait_seconds = 0.0

    def failed(self, error: BaseException) -> None:
        """Record that a call got no response."""
        if self._failure is None:
            self.lost += 1
        self._failure = error
        self._wait_seconds = min(max(2 * self._wait_seconds, FIRST_WAIT_SECONDS), LONGEST_WAIT_SECONDS)
        self._try_at = time.monotonic() + self._wait_seconds * random.uniform(0.5, 1.0)


CONNECTIONS = 32
"""Maximum number of concurrent calls; more calls wait."""

BLOCK_SECONDS = 5.0
"""Maximum seconds for which a blocking read waits in Redis before it is sent again."""

T = TypeVar("T")
Argument = str | bytes | int
Client = redis.asyncio.Redis | RedisCluster


class Connection:
    """Connection of one store to its Redis.

    Parameters
    ----------
    address : address of the server.
    timeout_seconds : timeout in seconds to connect, and to get a response.
    """

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        self.address = address
        self._turns = asyncio.Semaphore(CONNECTIONS)
        self.timeout_seconds = timeout_seconds
        self.breaker = CircuitBreaker()
        self.client: Client = self._plain_client(timeout_seconds)
        # Blocking reads wait as long as they request, so they must not use the connections of other calls.
        self._waiting_client = self._plain_client(timeout_seconds + BLOCK_SECONDS)
        self._tasks = BackgroundTasks()
        self._blocking: set[asyncio.Task[Any]] = set()

    @property
    def is_cluster(self) -> bool:
        return isinstance(self.client, RedisCluster)

    async def use_cluster(self) -> None:
        """Connect to all nodes of the server's cluster from now on."""
        await _close(self.client)
        self.client = RedisCluster(
            self.address.host,
            **self._arguments(self.timeout_seconds),
            ssl=self.address.tls,
            retry=Retry(NoBackoff(), 0),
            max_connections=CONNECTIONS,
        )

    async def close(self) -> None:
        """Release all resources; calls in progress are completed first, blocking reads are cancelled."""
        while self._blocking:
            # More than once: a task that is connecting may lose a cancellation.
            for task in self._blocking:
                task.cancel()
            await asyncio.wait(self._blocking, timeout=0.05)
        await self._tasks.done()
        for client in (self._waiting_client, self.client):
            await _close(client)

    # -- calls ------------------------------------------------------------------------------------

    async def run(
        self,
        script: Script,
        keys: Sequence[str],
        *arguments: Argument,
        sync: bool = False,
        left_behind: Callable[[asyncio.Task[Any]], None] | None = None,
    ) -> list[Any]:
        """Run a script; return its result, with the first element as text.

        Parameters
        ----------
        script, keys, *arguments : script and its parameters.
        sync : whether to wait until the changes are synced, on a server with WAITAOF.
        left_behind : callback with the running task when its caller was cancelled.
        """
        execute = self._execute_synced if sync else self._execute
        rest = (len(keys), *keys, *arguments)

        async def call() -> list[Any]:
            try:
                return cast(list[Any], await execute("EVALSHA", script.digest, *rest))
            except failed.NoScriptError:  # the script did not run; after a restart Redis must be sent it again
                return cast(list[Any], await execute("EVAL", script.text, *rest))

        answer = await self._call(call(), left_behind)
        answer[0] = answer[0].decode()
        return answer

    async def command(self, *words: Argument) -> Any:
        """Execute one command."""
        return await self._call(self._execute(*words))

    async def pipeline(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Execute several commands in one round trip (per node of a cluster), not atomically."""

        async def execute() -> list[Any]:
            pipeline = self.client.pipeline(transaction=False)
            for words in commands:
                pipeline.execute_command(*words)
            return await pipeline.execute()

        return await self._call(execute())

    async def _call(
        self, work: Coroutine[Any, Any, T], left_behind: Callable[[asyncio.Task[Any]], None] | None = None
    ) -> T:
        """Await a call of the client once; raise `StorageUnavailable` if it fails or times out."""
        trial = self.breaker.is_open
        if (earlier := self.breaker.before_call()) is not None:
            work.close()
            raise gone(earlier, str(self.address)) from None
        begun: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        task = self._tasks.begin(self._attempt(self._in_turn(work, begun)))
        if trial:
            task.add_done_callback(lambda _: self.breaker.end_trial())
        # Timeouts to get a connection and to connect, then to get a response.
        seconds = 2 * self.timeout_seconds
        try:
            await asyncio.wait((task,), timeout=seconds)
            if not task.done() and begun.done():  # the time until its turn does not count
                await asyncio.wait((task,), timeout=max(0.0, begun.result() + seconds - time.monotonic()))
        finally:
            if left_behind is not None and not task.done():
                left_behind(task)
        if not task.done():
            error = TimeoutError()
            if begun.done():  # otherwise this process has many calls, which says nothing about Redis
                self.breaker.failed(error)
            raise gone(error, str(self.address))
        return task.result()

    async def _in_turn(self, work: Coroutine[Any, Any, T], begun: asyncio.Future[float]) -> T:
        async with self._turns:
            begun.set_result(time.monotonic())
            return await work

    async def wait(self, *words: Argument) -> Any:
        """Execute a command that blocks for at most `BLOCK_SECONDS`; a cancelled caller ends it."""
        if self.breaker.is_open:
            await self.command("PING")  # a trial must not block, because other calls wait until it ends
        work = self._waiting_client.execute_command(*words)  # type: ignore[no-untyped-call]
        task = self._tasks.begin(self._attempt(work))
        self._blocking.add(task)
        task.add_done_callback(self._blocking.discard)
        task.add_done_callback(lambda _: work.close())  # the task may have been cancelled before it began
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.cancelled():
            raise StorageUnavailable("the store is not open", heals=False)
        return task.result()

    async def _attempt(self, work: Awaitable[T]) -> T:
        try:
            answer = await work
        except UNREACHED as error:
            self.breaker.failed(error)
            await self._forget_idle()
            raise gone(error, str(self.address)) from error
        except failed.ResponseError as error:
            self.breaker.succeeded()
            if isinstance(error, failed.ReadOnlyError):
                await self._forget_idle()  # the address may resolve to another server now
            raise gone(error, str(self.address)) from error
        except failed.RedisError as error:
            self.breaker.failed(error)
            raise gone(error, str(self.address)) from error
        self.breaker.succeeded()
        return answer

    async def _forget_idle(self) -> None:
        """Close idle connections: they may be dead too, and each dead connection would cost a timeout."""
        if isinstance(self.client, redis.asyncio.Redis):  # the cluster client does so itself
            with suppress(failed.RedisError, OSError):  # one that does not close in time
                await self.client.connection_pool.disconnect(inuse_connections=False)

    async def _execute(self, *words: Argument) -> Any:
        return await self.client.execute_command(*words)

    async def _execute_synced(self, *words: Argument) -> Any:
        # On one connection, because WAITAOF waits only for the writes of the same connection.
        pipeline = self.client.pipeline(transaction=False)
        pipeline.execute_command(*words)
        pipeline.execute_command("WAITAOF", 1, 0, round(self.timeout_seconds * 1000))
        answer, synced = await pipeline.execute(raise_on_error=False)
        for result in (answer, synced):
            if isinstance(result, BaseException):
                raise result
        if answer[0] == b"ok" and synced[0] < 1:
            raise TimeoutError
        return answer

    # -- clients ----------------------------------------------------------------------------------

    def _plain_client(self, answer_seconds: float) -> redis.asyncio.Redis:
        pool = redis.asyncio.ConnectionPool(
            host=self.address.host,
            db=self.address.database,
            connection_class=redis.asyncio.SSLConnection if self.address.tls else redis.asyncio.Connection,
            max_connections=CONNECTIONS,
            retry=Retry(NoBackoff(), 0),
            **self._arguments(answer_seconds),
        )
        return redis.asyncio.Redis.from_pool(pool)

    def _arguments(self, answer_seconds: float) -> dict[str, Any]:
        return {
            **self.address.arguments(),
            "socket_timeout": answer_seconds,
            "socket_connect_timeout": self.timeout_seconds,
            "driver_info": None,  # old servers do not know CLIENT SETINFO
            "protocol": 2,
        }


async def _close(client: Client) -> None:
    """Close all connections of a client, including those that do not close in time."""
    with suppress(failed.RedisError, OSError):
        await client.aclose()
