"""Many small models in one server, such as one for each customer of a help desk.

For each store and number of models: creation, the start until the server is ready, memory, pages of the list, the first
and later predictions of models, bytes a model in the store, and the work of an idle server. Models are built by
requests: each learns 100 texts of 10 words with 5 labels, in one update. The server has one core; Redis and the client
have the others.

With `--extras`, a tenth of the models promise a precision, have a follower, and are selected by a webhook.

With `--noisy`, instead, 100 models are asked and learn now and then, alone, then while another model learns 5,000
examples a second, then while a third one gets examples with 50,000 features.

With `--updates N`, instead, one model on Redis learns N examples, with its blobs in Redis and then in a directory
outside: bytes of Redis and of the directory after each tenth.
"""

import argparse
import http.client
import itertools
import json
import multiprocessing
import os
import random
import socket
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.http import servers
from benchmarks.http.calls import connected, line, spread, timed

N_EXAMPLES, N_WORDS, N_LABELS, VOCABULARY = 100, 10, 5, 300
SAMPLE = 200
"""Number of models that are asked, twice each, and number of requests of each other measurement."""
SETTLE_SECONDS = 30.0
"""Seconds after the start in which the server loads the functions that few models need."""
RECEIVER = "http://127.0.0.1:9"
"""Address of the webhook, where nothing listens; no event is due."""
QUIET, NOISES = 100, ("stream", "features")
"""Number of quiet models, and names of the noisy ones."""
NOISY_SECONDS = 20.0
STOP_SECONDS = 3_600.0
"""Timeout in seconds of a server that stores a snapshot of each changed model."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", type=int, nargs="+", default=[100, 1_000], help="by default %(default)s")
    parser.add_argument("--stores", choices=["sqlite", "redis"], nargs="+", default=["sqlite", "redis"])
    parser.add_argument("--idle-seconds", type=float, default=60.0, help="of the idle server; by default %(default)s")
    parser.add_argument("--extras", action="store_true", help="promises, followers and a webhook for a tenth")
    parser.add_argument("--noisy", action="store_true", help="measure 100 models beside one that learns much instead")
    parser.add_argument("--updates", type=int, help="examples of one model, to measure its growth instead")
    parser.add_argument("--port", type=int, default=18700, help="first of two ports to use")


def run(args: argparse.Namespace) -> None:
    os.sched_setaffinity(0, servers.OTHERS)
    if args.updates or args.noisy:
        _grow(args) if args.updates else _beside_noise(args)
        return
    for kind in args.stores:
        for n_models in args.models:
            print(f"\n{kind}, {n_models:,} models")
            with ExitStack() as stack:
                flags = stack.enter_context(servers.store(kind, args.port + 1))
                if args.extras:
                    flags += ["--webhook-urls", RECEIVER]
                stored_bytes = _redis_bytes(args.port + 1) if kind == "redis" else _disk_bytes(flags[1])
                with servers.manylabel(args.port, flags, stop_seconds=STOP_SECONDS) as server:
                    _build(server, n_models, args.extras)
                    line("memory of the server with all models, MB", server.resident_bytes() / 1e6)
                n_bytes = _redis_bytes(args.port + 1) if kind == "redis" else _disk_bytes(flags[1])
                line("bytes a model in the store", (n_bytes - stored_bytes) / n_models)
                _measure(args, kind, flags, n_models)


def _grow(args: argparse.Namespace) -> None:
    for outside in (False, True):
        print(f"\none model, blobs {'in a directory' if outside else 'in Redis'}")
        with servers.store("redis", args.port + 1) as flags, tempfile.TemporaryDirectory() as directory:
            flags += ["--blobs", f"file://{directory}"] if outside else []
            every = ["--snapshot-every-updates", str(args.updates // 50)]
            with (
                servers.manylabel(args.port, [*flags, *every], stop_seconds=STOP_SECONDS),
                connected(args.port) as client,
            ):
                empty = _redis_bytes(args.port + 1)
                timed(client, "POST", "/v1/models", {"name": "m", "algorithm": "falt"})
                for number in range(args.updates // N_EXAMPLES):
                    timed(client, "POST", "/v1/models/m/update", {"examples": _examples(number % 1_000)})
                    learnt = (number + 1) * N_EXAMPLES
                    if learnt % (args.updates // 10) == 0:
                        line(f"{learnt:,} examples: MB of Redis", (_redis_bytes(args.port + 1) - empty) / 1e6)
                        if outside:
                            line("MB in the directory", _disk_bytes(directory) / 1e6)


def _beside_noise(args: argparse.Namespace) -> None:
    for kind in args.stores:
        print(f"\n{kind}, {QUIET} models beside a noisy one")
        with (
            servers.store(kind, args.port + 1) as flags,
            servers.manylabel(args.port, flags),
            connected(args.port) as client,
        ):
            for name in [*map(_name, range(QUIET)), *NOISES]:
                timed(client, "POST", "/v1/models", {"name": name, "algorithm": "falt"})
            for number in range(QUIET):
                timed(client, "POST", f"/v1/models/{_name(number)}/update", {"examples": _examples(number)})
            _now_and_then(client, "alone")
            for name in NOISES:
                noise = multiprocessing.Process(target=_make_noise, args=(args.port, name))
                noise.start()
                try:
                    time.sleep(3)
                    before = _learnt(client, name)
                    _now_and_then(client, f"beside {name}")
                    line(f"examples a second of {name}", (_learnt(client, name) - before) / NOISY_SECONDS)
                finally:
                    noise.terminate()
                    noise.join()


def _now_and_then(client: http.client.HTTPConnection, when: str) -> None:
    """Predict and learn with the quiet models, a request each 10 ms, and print the durations."""
    rng = random.Random(2)
    took: dict[str, list[float]] = {"predict": [], "update": []}
    until = time.monotonic() + NOISY_SECONDS
    while time.monotonic() < until:
        number = rng.randrange(QUIET)
        example = _examples(number)[0]
        body = {"predict": {"x": example["x"]}, "update": example}
        call = rng.choice(("predict", "update"))
        took[call].append(timed(client, "POST", f"/v1/models/{_name(number)}/{call}", body[call]))
        time.sleep(0.01)
    for call, milliseconds in took.items():
        spread(f"{call}, {when}, ms", milliseconds)


def _make_noise(port: int, name: str) -> None:
    """Send updates until the process is ended: 50 of 100 texts a second, or one example with many features after the
    other."""
    rng = random.Random(3)
    with connected(port) as client:
        due = time.monotonic()
        for number in itertools.count():
            if name == "stream":
                body: object = {"examples": _examples(number % 50)}
                due += 0.02
                time.sleep(max(0.0, due - time.monotonic()))
            else:
                body = {"x": {f"f{rng.randrange(1 << 30)}": 1.0 for _ in range(50_000)}, "y": ["a"]}
            timed(client, "POST", f"/v1/models/{name}/update", body)


def _learnt(client: http.client.HTTPConnection, name: str) -> int:
    client.request("GET", f"/v1/models/{name}")
    return int(json.loads(client.getresponse().read())["updates"])


def _build(server: servers.Server, n_models: int, extras: bool) -> None:
    """Create and train the models, and print what the last of them took."""
    with connected(server.port) as client:
        created, learnt, busy, tenth = [], [], [server.cpu_seconds()], max(1, n_models // 10)
        if extras:
            webhook = {"url": f"{RECEIVER}/events", "events": ["label"], "models": [f"{_name(0)[:8]}*"]}
            timed(client, "POST", "/v1/webhooks", webhook)
        for number in range(n_models):
            spec: dict[str, object] = {"name": _name(number), "algorithm": "falt"}
            if extras and number % 10 == 0:
                spec["promise"] = {"precision": 0.9}
            created.append(timed(client, "POST", "/v1/models", spec))
            if extras and number % 10 == 0:
                follower = {
                    "name": f"follower-{number}",
                    "algorithm": "falt",
                    "follow": {"model": _name(number), "from": "start"},
                }
                timed(client, "POST", "/v1/models", follower)
            learnt.append(timed(client, "POST", f"/v1/models/{_name(number)}/update", {"examples": _examples(number)}))
            if (number + 1) % tenth == 0:
                busy.append(server.cpu_seconds())
        for which, begin, end in (("second", busy[1], busy[2]), ("last", busy[-2], busy[-1])):
            line(f"processor time a model, the {which} tenth, ms", 1e3 * (end - begin) / tenth)
        spread("creation, the first models, ms", created[:SAMPLE])
        spread("creation, the last models, ms", created[-SAMPLE:], at_most=10.0)
        spread("update of 100 examples, the last models, ms", learnt[-SAMPLE:])


def _measure(args: argparse.Namespace, kind: str, flags: Sequence[str], n_models: int) -> None:
    started = time.perf_counter()
    with servers.manylabel(args.port, [*flags, "--preload", "false"], stop_seconds=STOP_SECONDS) as server:
        line("start to ready, s", time.perf_counter() - started, at_most=5.0)
        line("memory when ready, MB", server.resident_bytes() / 1e6)
        time.sleep(SETTLE_SECONDS)
        calls = _redis_calls(args.port + 1) if kind == "redis" else 0
        busy = server.cpu_seconds()
        time.sleep(args.idle_seconds)
        line("idle, % of a core", 100 * (server.cpu_seconds() - busy) / args.idle_seconds, at_most=2.0)
        if kind == "redis":
            calls_per_minute = 60 * (_redis_calls(args.port + 1) - calls) / args.idle_seconds
            line("idle, calls to Redis a minute", calls_per_minute)
        with connected(args.port) as client:
            _predict(client, n_models)
            line(f"memory with {min(SAMPLE, n_models)} models, MB", server.resident_bytes() / 1e6)
            busy = server.cpu_seconds()
            time.sleep(args.idle_seconds)
            line("idle with these in memory, % of a core", 100 * (server.cpu_seconds() - busy) / args.idle_seconds)
            for name, query in (
                ("first page of 100, ms", "limit=100"),
                ("page of 100 in the middle, ms", f"limit=100&after={_name(n_models // 2)}"),
                ("page of the 100 latest used, ms", "limit=100&sort=used"),
                ("page of a prefix, ms", f"limit=100&prefix={_name(n_models // 2)[:-1]}"),
            ):
                spread(name, [timed(client, "GET", f"/v1/models?{query}") for _ in range(20)])
            made = [timed(client, "POST", "/v1/models", {"name": f"x{i}", "algorithm": "falt"}) for i in range(SAMPLE)]
            spread("creation of one more, ms", made, at_most=10.0)
            spread("its deletion, ms", [timed(client, "DELETE", f"/v1/models/x{i}") for i in range(SAMPLE)])
            spread("scrape of /metrics, ms", [timed(client, "GET", "/metrics") for _ in range(10)])


def _predict(client: http.client.HTTPConnection, n_models: int) -> None:
    asked = random.Random(1).sample(range(n_models), min(SAMPLE, n_models))
    for name, at_most in (("first prediction, ms", 50.0), ("later prediction, ms", None)):
        bodies = [(number, {"x": _examples(number)[0]["x"]}) for number in asked]
        spread(name, [timed(client, "POST", f"/v1/models/{_name(n)}/predict", body) for n, body in bodies], at_most)


def _name(number: int) -> str:
    return f"group-{number % 10}-customer-{number // 10:05}"


def _examples(number: int) -> list[dict[str, object]]:
    rng = random.Random(number)
    words = [f"w{rng.randrange(100_000)}" for _ in range(VOCABULARY)]
    return [
        {"x": {"text": " ".join(rng.choices(words, k=N_WORDS))}, "y": [f"label {rng.randrange(N_LABELS)}"]}
        for _ in range(N_EXAMPLES)
    ]


def _disk_bytes(directory: str) -> int:
    return sum(path.stat().st_size for path in Path(directory).rglob("*") if path.is_file() and path.name != "reserve")


def _redis_bytes(port: int) -> int:
    return _redis_info(port, "memory", "used_memory:")


def _redis_calls(port: int) -> int:
    return _redis_info(port, "stats", "total_commands_processed:")


def _redis_info(port: int, section: str, field: str) -> int:
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(f"INFO {section}\r\n".encode())
        text = b""
        while not text.endswith(b"\r\n") or len(text) < 100:
            text += connection.recv(1 << 16)
    return int(next(line for line in text.decode().splitlines() if line.startswith(field)).removeprefix(field))
