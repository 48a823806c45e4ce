"""Search for doubtful labels in the log of one model, while the model predicts.

For each store and number of examples: seconds of the search, peak memory of the processes that search, and durations of
predictions alone and during the search. An example is a text of ten words with one or two of 100 labels, of which one
in twenty is random. The server, its search and the client have all cores.
"""

import argparse
import random
import time
from http.client import HTTPConnection

from benchmarks.http import servers
from benchmarks.http.calls import connected, line, send, spread, timed

N_LABELS, N_WORDS, WORDS_OF_LABEL, N_COMMON = 100, 10, 30, 2_000
BATCH = 1_000
PAUSE_SECONDS = 0.01
SAMPLES = 300
"""Number of predictions without a search."""
Example = dict[str, object]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--examples", type=int, nargs="+", default=[15_000, 100_000], help="by default %(default)s")
    parser.add_argument("--stores", choices=["sqlite", "redis"], nargs="+", default=["sqlite", "redis"])
    parser.add_argument("--port", type=int, default=18760, help="first of two ports to use")


def run(args: argparse.Namespace) -> None:
    for kind in args.stores:
        for n_examples in args.examples:
            print(f"\n{kind}, {n_examples:,} examples")
            with (
                servers.store(kind, args.port + 1) as flags,
                servers.manylabel(args.port, [*flags, "--log-level", "error"], cores=servers.CORES) as server,
                connected(args.port) as client,
            ):
                timed(client, "POST", "/v1/models", {"name": "m", "algorithm": "falt"})
                rng = random.Random(1)
                started = time.perf_counter()
                for _ in range(n_examples // BATCH):
                    timed(client, "POST", "/v1/models/m/update", {"examples": [_example(rng) for _ in range(BATCH)]})
                line("learning, s", time.perf_counter() - started)
                time.sleep(2)
                spread("prediction alone, ms", [_predict(client, rng) for _ in range(SAMPLES)])
                _search(client, rng, server, n_examples)


def _search(client: HTTPConnection, rng: random.Random, server: servers.Server, n_examples: int) -> None:
    job = send(client, "POST", "/v1/models/m/doubts", {"top": 100, "last": n_examples})
    started, looked, took, peak = time.perf_counter(), 0.0, [], 0
    while job["state"] not in ("succeeded", "failed", "cancelled"):
        took.append(_predict(client, rng))
        if time.perf_counter() - looked > 1:
            looked = time.perf_counter()
            peak = max(peak, server.children_bytes())
            job = send(client, "GET", f"/v1/jobs/{job['id']}")
    if job["state"] != "succeeded":
        raise RuntimeError(f"the search {job['state']}: {job}")
    line("search, s", time.perf_counter() - started)
    line("memory of the processes beside the server, MB", peak / 1e6)
    spread("prediction during the search, ms", took)
    found = send(client, "GET", "/v1/models/m/doubts?kind=wrong&top=100")
    line("examined examples", found["examined"])


def _predict(client: HTTPConnection, rng: random.Random) -> float:
    body = {"x": _example(rng)["x"]}
    time.sleep(PAUSE_SECONDS)
    return timed(client, "POST", "/v1/models/m/predict", body)


def _example(rng: random.Random) -> Example:
    labels = rng.sample(range(N_LABELS), rng.choice((1, 1, 2)))
    words = [
        f"w{label}x{rng.randrange(WORDS_OF_LABEL)}" if rng.random() < 0.6 else f"c{rng.randrange(N_COMMON)}"
        for label in rng.choices(labels, k=N_WORDS)
    ]
    given = [rng.randrange(N_LABELS) if rng.random() < 0.05 else label for label in labels]
    return {"x": {"text": " ".join(words)}, "y": sorted({f"label {label}" for label in given})}
