"""Evaluation of Makupalat by `annif eval`: Annif's tfidf and omikuji, ManyLabel behind the backend `http`, and an
ensemble.
"""

import argparse
import json
import resource
import tempfile
import time
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.data_sets import load_records
from benchmarks.http import servers
from benchmarks.integrations.typed import server, typed

URI = "http://urn.example/ykl/"
MODEL = {
    "name": "ykl-fi",
    "algorithm": "falt",
    "text": {"fields": ["text"], "chars": 5},
    "limits": {"features": {"most": 50_000, "policy": "hash"}},
}
PROJECTS = """\
[tfidf]
name=TF-IDF
language=fi
backend=tfidf
analyzer=snowball(finnish)
vocab=ykl

[omikuji]
name=Omikuji Parabel
language=fi
backend=omikuji
analyzer=snowball(finnish)
vocab=ykl

[manylabel]
name=ManyLabel
language=fi
backend=http
endpoint={url}/annif/v1/projects/ykl-fi/suggest?limit=100
vocab=ykl

[ensemble]
name=Omikuji and ManyLabel
language=fi
backend=ensemble
sources=omikuji,manylabel
vocab=ykl
"""
SHOWN = ("F1@5", "NDCG", "NDCG@5", "Precision@1", "Documents evaluated")
BATCH = 500


def run(args: argparse.Namespace) -> None:
    """Learn the training documents with each, and evaluate all by Annif's own metrics on the test documents."""
    records = load_records(args.data, "makupalat")
    parts = {part: [each for each in records if each["split"] == part] for part in ("train", "test")}
    tags = sorted({tag for each in records for tag in each["tags"]})
    print(f"makupalat: {len(parts['train']):,} training and {len(parts['test'])} test documents, {len(tags)} subjects")
    with tempfile.TemporaryDirectory() as directory, server(args.port) as (url, started):
        folder, seconds = Path(directory), {}
        (folder / "projects.cfg").write_text(PROJECTS.format(url=url))
        (folder / "ykl.tsv").write_text("".join(f"<{_uri(tag)}>\t{tag}\n" for tag in tags))
        for part, own in parts.items():
            (folder / f"{part}.tsv").write_text("".join(map(_line, own)))
        print(f"$ cat projects.cfg\n{PROJECTS.format(url=url)}")
        program = [str(Path(args.annif).resolve()) if "/" in args.annif else args.annif]
        typed(program, "annif", "load-vocab", "ykl", "ykl.tsv", "--language", "fi", folder=folder, wanted=_nothing)
        for project in ("tfidf", "omikuji"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            waited = typed(program, "annif", "train", project, "train.tsv", folder=folder, wanted=_nothing)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            seconds[project] = f"{used:.1f} s of processor time, {waited:.1f} s elapsed"
        seconds["manylabel"] = _teach(url, started, tags, parts["train"])
        for project in ("tfidf", "omikuji", "manylabel", "ensemble"):
            typed(program, "annif", "eval", project, "test.tsv", folder=folder, wanted=_is_shown)
    print("\nseconds to learn, with the start of the program for Annif, with the calls of the client for ManyLabel")
    for project, took in seconds.items():
        print(f"{project:12}{took}")


def _nothing(line: str) -> bool:
    return False


def _is_shown(line: str) -> bool:
    return line.partition(":")[0].strip() in SHOWN


def _uri(tag: str) -> str:
    return URI + urllib.parse.quote(tag, safe="")


def _line(record: dict[str, Any]) -> str:
    text = " ".join(f"{record.get('title', '')} {record['text']}".split())
    return f"{text}\t{' '.join(f'<{_uri(tag)}>' for tag in record['tags'])}\n"


def _teach(url: str, started: servers.Server, tags: Sequence[str], records: Sequence[dict[str, Any]]) -> str:
    """Create the model, send the vocabulary, and learn over Annif's interface; return the seconds of learning."""
    from annif_client import AnnifClient

    print(f"$ curl -X POST {url}/v1/models -H 'Content-Type: application/json' -d '{json.dumps(MODEL)}'")
    servers.post(started.port, "/v1/models", json.dumps(MODEL).encode())
    for first in range(0, len(tags), 1_000):
        labels = {tag: {"uri": _uri(tag)} for tag in tags[first : first + 1_000]}
        servers.post(
            started.port, f"/v1/models/{MODEL['name']}/labels", json.dumps({"labels": labels}).encode(), method="PATCH"
        )
    print(f">>> annif = AnnifClient('{url}/annif/v1/')")
    print(
        f">>> annif.learn('{MODEL['name']}', documents), {BATCH} documents a call; again after 429",
        flush=True,
    )
    client, began, used = AnnifClient(f"{url}/annif/v1/"), time.monotonic(), started.cpu_seconds()
    for first in range(0, len(records), BATCH):
        own = records[first : first + BATCH]
        documents = [
            {"text": _line(each).partition("\t")[0], "subjects": [{"uri": _uri(tag)} for tag in each["tags"]]}
            for each in own
        ]
        while not _learn(client, documents):
            pass
    while json.loads(servers.get(started.port, f"/v1/models/{MODEL['name']}"))["updates"] < len(records):
        time.sleep(0.1)
    used = started.cpu_seconds() - used
    return f"{used:.1f} s of the server's processor time, {time.monotonic() - began:.1f} s elapsed"


def _learn(client: Any, documents: Sequence[dict[str, Any]]) -> bool:
    """Send documents; return False, after a pause, if the server's queue was full."""
    from requests import HTTPError

    try:
        client.learn(MODEL["name"], documents)
    except HTTPError as error:
        if error.response.status_code != 429:
            raise
        time.sleep(float(error.response.headers["Retry-After"]))
        return False
    return True
