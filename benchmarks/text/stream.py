"""Records per second through one NDJSON stream: debtags, predicted and learnt by FALT on a server with one core."""

import argparse
import json
import statistics

from benchmarks.data_sets import load_records
from benchmarks.http import servers
from benchmarks.http.stream import measure
from benchmarks.output import spread, verdict
from benchmarks.text.quality import FIELDS, TAGS

AIM = 3_000
"""Minimum records per second."""


def run(args: argparse.Namespace) -> None:
    """Print the median of runs with a new model each."""
    records = load_records(args.data, "debtags")
    lines = [json.dumps({"y": record.pop(TAGS), "x": record}).encode() + b"\n" for record in records]
    rates = []
    with servers.sqlite() as store, servers.manylabel(args.port, store) as server:
        for repeat in range(args.repeats):
            spec = {"name": f"m{repeat}", "algorithm": "falt", "text": {"fields": FIELDS}}
            servers.post(args.port, "/v1/models", json.dumps(spec).encode())
            rates.append(measure(server, lines, len(lines), str(spec["name"])))
    per_second = [rate for rate, _ in rates[1:] or rates]  # the first is a warm-up
    cpu, aim = statistics.median(cpu for _, cpu in rates), verdict(statistics.median(per_second), at_least=AIM)
    print(f"\nNDJSON stream of debtags (sqlite, log), {len(lines):,} records a run: a second ", end="")
    print(f"{spread(per_second, ',.0f')}, {cpu:.0f} us of the processor a record; {aim}", flush=True)
