"""Capabilities of a Redis server, inspected at the start."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from manylabel_service.errors import StorageUnavailable, StoreUnusable
from manylabel_service.storage.redis.client.connection import Connection
from manylabel_service.storage.redis.client.errors import forbidden

OLDEST = (6, 2)
"""First version with exclusive ranges and XTRIM MINID."""

WAITAOF = (7, 2)
"""First version that can report when the append-only file has been synced."""

UNKNOWN = "unknown"
"""Value of a directive that a managed Redis does not report."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of one server.

    Attributes
    ----------
    facts : fields of the log line.
    syncs : whether the server can sync an append to disk before its response.
    waits_for_disk : whether a sync needs WAITAOF; otherwise the server always syncs, or cannot.
    is_cluster : whether the server is a node of a Redis Cluster.
    warnings : warnings for the operator.
    """

    facts: Mapping[str, str]
    syncs: bool
    waits_for_disk: bool
    is_cluster: bool
    warnings: list[str] = field(default_factory=list)


async def inspect(connection: Connection) -> Capabilities:
    """Query the server for its version and settings, and assess the results.

    Raises
    ------
    StoreUnusable
        The server is too old, read-only, or may evict keys.
    """
    info = await _info(connection)
    directives = {name: await _directive(connection, name) for name in ("appendfsync", "maxmemory-policy", "maxmemory")}
    return assess(info, directives, str(connection.address))


def assess(info: Mapping[str, Any], directives: Mapping[str, str], address: str) -> Capabilities:
    """Assess the fields of INFO and the directives of CONFIG; raises the errors of `inspect`."""
    text = str(info.get("redis_version", UNKNOWN))
    version = _version(text)
    if version is not None and version < OLDEST:
        raise StoreUnusable(f"Redis at {address} has version {text}: use 6.2 or later")
    if info.get("role") == "slave":
        raise StoreUnusable(f"Redis at {address} is a replica, which is read-only: use the address of its primary")
    policy = _policy(info, directives)
    if policy.startswith("allkeys"):
        raise StoreUnusable(
            f"Redis at {address} has maxmemory-policy {policy}, so it would evict logs when memory is low: "
            "set it to noeviction"
        )
    aof = {1: "on", 0: "off"}.get(info.get("aof_enabled", -1), UNKNOWN)
    is_cluster = info.get("cluster_enabled") == 1
    # A cluster client has no dedicated connection to wait on.
    appendfsync = directives["appendfsync"]
    syncs = aof == "on" and appendfsync != "no"  # otherwise there is nothing to wait for
    can_wait = version is not None and version >= WAITAOF and syncs and not is_cluster
    can_sync = can_wait or (aof == "on" and appendfsync == "always")
    facts = {"version": text, "append_only_file": aof, "appendfsync": appendfsync, "maxmemory_policy": policy}
    return Capabilities(facts, can_sync, can_wait, is_cluster, _warnings(facts, directives))


def _warnings(facts: Mapping[str, str], directives: Mapping[str, str]) -> list[str]:
    warnings = []
    if facts["append_only_file"] == "off":
        warnings.append("the append-only file is off: an update is lost when Redis ends; set appendonly yes")
    elif facts["appendfsync"] == "no":
        warnings.append("appendfsync is no: a loss of power loses what the system has not written yet, up to 30 s")
    if facts["maxmemory_policy"].startswith("volatile"):
        warnings.append(
            f"maxmemory-policy is {facts['maxmemory_policy']}: stored predictions, and snapshots being written, can "
            "be evicted when memory is low; set it to noeviction"
        )
    unknown = [name for name in ("append_only_file", "appendfsync", "maxmemory_policy") if facts[name] == UNKNOWN]
    if unknown:
        warnings.append(
            f"could not be checked, because the server hides it: {', '.join(unknown)}; the append-only file has "
            "to be on, and maxmemory-policy noeviction"
        )
    return warnings


def _policy(info: Mapping[str, Any], directives: Mapping[str, str]) -> str:
    told = str(info.get("maxmemory_policy", directives["maxmemory-policy"]))
    # Without a memory limit, Redis never evicts keys.
    limit = info.get("maxmemory", directives["maxmemory"])
    return "noeviction" if str(limit) == "0" and told.startswith("volatile") else told


def _version(text: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", text)
    return None if found is None else (int(found[1]), int(found[2]))


async def _info(connection: Connection) -> dict[str, Any]:
    try:
        return dict(await connection.command("INFO"))
    except StorageUnavailable as error:
        if forbidden(error):
            return {}
        raise


async def _directive(connection: Connection, name: str) -> str:
    """Return the value of a directive; `UNKNOWN` if CONFIG is forbidden, as it is by managed services."""
    try:
        answer = await connection.command("CONFIG GET", name)
    except StorageUnavailable as error:
        if forbidden(error):
            return UNKNOWN
        raise
    return str(answer[name.encode()].decode() if name.encode() in answer else answer.get(name, UNKNOWN))
