"""Requests, streams, starts, replicas, and requests beside jobs, over HTTP.

Where there are two cores or more, the server that is measured has one to itself; the load generator and Redis have
the others. Only beside jobs all of them share all cores.
"""

import argparse
import os

from benchmarks import http_jobs, http_replicas, http_requests, http_servers, http_start, http_stream
from benchmarks.machine import print_machine

PARTS = {
    "requests": http_requests,
    "stream": http_stream,
    "start": http_start,
    "replicas": http_replicas,
    "jobs": http_jobs,
}
"""Each has a docstring and `run(args)`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", choices=["sqlite", "redis"], default="sqlite")
    parser.add_argument("--only", choices=list(PARTS), nargs="+", default=list(PARTS), help="leave out the other parts")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--requests", type=int, default=4000, help="per run and endpoint")
    parser.add_argument("--lines", type=int, default=60_000, help="per run of a stream")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each contender, taken in turns")
    parser.add_argument("--port", type=int, default=18700, help="first of twenty ports to use")


def run(args: argparse.Namespace) -> None:
    print_machine("fastapi", "uvicorn", "uvloop", "httptools", "pydantic", "numba")
    if args.store == "redis":
        print(f"Redis {http_servers.redis_version()} on the same machine")
    os.sched_setaffinity(0, http_servers.OTHERS)
    for name in args.only:
        PARTS[name].run(args)
