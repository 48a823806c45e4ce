"""Parts of the HTTP benchmark: requests, streams, startup, replicas, requests while jobs run, and the web UI.

With two or more cores, the measured server has one core, and the load generator and Redis have the others. Only in the
part about jobs do all share all cores.
"""

import argparse
import os

from benchmarks.http import hostile, jobs, keys, page, replicas, requests, servers, soak, start, storm, stream

PARTS = {
    "requests": requests,
    "stream": stream,
    "start": start,
    "replicas": replicas,
    "jobs": jobs,
    "keys": keys,
    "storm": storm,
    "soak": soak,
    "page": page,
}
"""Parts by name, each a module with a docstring and `run(args)`."""
QUICK = [name for name in PARTS if name not in ("keys", "storm", "soak", "page")]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", choices=["sqlite", "redis"], default="sqlite")
    parser.add_argument("--only", choices=list(PARTS), nargs="+", default=QUICK, help="leave out the other parts")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--requests", type=int, default=4000, help="per run and endpoint")
    parser.add_argument("--lines", type=int, default=60_000, help="per run of a stream")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each contender, taken in turns")
    parser.add_argument("--seconds", type=float, default=30, help="of the storm")
    parser.add_argument(
        "--hostile",
        choices=hostile.HOSTILE,
        nargs="+",
        default=hostile.ONE_BY_ONE,
        help="clients of the storm; by default those that need few connections",
    )
    parser.add_argument("--minutes", type=float, default=30, help="of the soak, or of the page")
    parser.add_argument("--warm-up", type=float, default=5, help="minutes of it before anything is looked at")
    parser.add_argument("--port", type=int, default=18700, help="first of twenty ports to use")


def run(args: argparse.Namespace) -> None:
    if args.store == "redis":
        print(f"Redis {servers.redis_version()} on the same machine")
    os.sched_setaffinity(0, servers.OTHERS)
    for name in args.only:
        PARTS[name].run(args)
