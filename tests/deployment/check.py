"""Builds and runs the deployment of docker-compose.yml, kills its parts under load, and looks whether anything is lost.

    python -m tests.deployment.check [--build-network host] [--seconds 60]

Needs Docker with Compose, and Python 3.11 or later with nothing installed. It has a project name, a volume, a network
and a port of its own, and removes them at the end. The exit status is 0 only if every acknowledged update is in, once,
on both replicas, a job has outlived its worker, and a lost volume of Redis costs no more than the archive may lose.
"""

import argparse
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.deployment.access import Caller
from tests.deployment.containers import ARCHIVE_SECONDS, REPLICAS, ROOT, Deployment
from tests.deployment.training import Job, has_checkpoint, has_succeeded
from tests.deployment.users import Client, example, traffic
from tests.support.waiting import eventually

TAKEOVER_SECONDS = 10.0
"""Until another replica archives, if the one that did is gone."""
MODELS = [f"model-{number}" for number in range(6)]
STARTED = time.monotonic()


def say(text: str) -> None:
    sys.stdout.write(f"{time.monotonic() - STARTED:6.1f} s  {text}\n")
    sys.stdout.flush()


def compare(deployment: Deployment, clients: list[Client]) -> dict[str, Any]:
    """Every replica has all that was acknowledged, once, and all answer alike to the last bit.

    Returns
    -------
    dict
        What each model answers, to be compared with later answers.
    """
    probes = {"examples": [{"x": example(random.Random(number))[0]} for number in range(20)]}
    answers: dict[str, Any] = {}
    for client in clients:
        path = f"/v1/models/{client.model}"
        for replica in REPLICAS:
            predicted = deployment.ask(replica, "POST", f"{path}/predict?at_least={client.position}", probes)
            updates = deployment.ask(replica, "GET", path)["updates"]
            if updates != client.acknowledged:
                raise RuntimeError(
                    f"{client.model}: {replica} has {updates} updates, {client.acknowledged} were acknowledged"
                )
            if answers.setdefault(client.model, predicted) != predicted:
                raise RuntimeError(f"{client.model}: the replicas differ")
    total = sum(client.acknowledged for client in clients)
    say(f"both replicas have all {total:,} acknowledged updates, each once, and answer alike to the last bit")
    return answers


def disturb(deployment: Deployment, clients: list[Client], seconds: float) -> None:
    """Kill and restart parts, one after the other."""

    def restart(service: str) -> None:
        deployment.compose("restart", service)

    steps: list[tuple[str, Callable[[str], None], list[str]]] = [
        ("kill -9 in", deployment.kill, ["replica-1"]),
        ("kill -9 in", deployment.kill, ["redis"]),
        ("restarted", restart, ["replica-2"]),
        ("restarted", restart, ["redis"]),
        ("kill -9 in", deployment.kill, [*REPLICAS, "redis"]),
    ]
    for what, do, services in steps:
        time.sleep(seconds / len(steps) / 2)  # of undisturbed traffic, as below
        started, before = time.monotonic(), [deployment.restarts(service) for service in services]
        for client in clients:
            client.longest_seconds = 0.0
        for service in services:
            do(service)
        say(f"{what} {', '.join(services)}")
        for service, count in zip(services, before, strict=True):
            if do == deployment.kill:
                eventually(partial(deployment.was_restarted, service, count))
        deployment.wait(*services, *REPLICAS)
        took = time.monotonic() - started
        time.sleep(seconds / len(steps) / 2)
        longest = max(client.longest_seconds for client in clients)
        say(f"    well again after {took:.1f} s; longest wait for an update's answer: {longest:.1f} s")


def train(deployment: Deployment) -> None:
    """A job goes on after the kill of its worker."""
    job = Job(deployment.port, deployment.key, "trained")
    before = job.wait(has_checkpoint)["progress"]["iteration"]
    killed = time.monotonic()
    deployment.kill("worker")
    say(f"kill -9 in worker, which was at iteration {before} of a job")
    job.wait(lambda told: told["attempt"] > 1 and told["state"] == "running")
    say(f"    the job was taken up again after {time.monotonic() - killed:.1f} s")
    done = job.wait(has_succeeded)
    say(f"    it succeeded in attempt {done['attempt']}, after {time.monotonic() - killed:.1f} s")


def ask_trained(deployment: Deployment) -> Any:
    """Return the answers of both replicas for the model trained by the job."""
    probes = {"examples": [{"x": example(random.Random(number))[0]} for number in range(20)]}
    answers = [deployment.ask(replica, "POST", "/v1/models/trained/predict", probes) for replica in REPLICAS]
    if answers[0] != answers[1]:
        raise RuntimeError("the replicas answer differently for the trained model")
    say("both replicas serve the trained model, and answer alike to the last bit")
    return answers[0]


def lose_store(deployment: Deployment, clients: list[Client], seconds: float) -> None:
    """Remove the volume of Redis under load, restore from the archive, and look what was lost."""
    for client in clients:
        client.updates.clear()
    with traffic(clients):
        time.sleep(max(seconds / 4, 5 * ARCHIVE_SECONDS))  # of undisturbed traffic, as below
        began = time.monotonic()
        deployment.lose_store()
        removed = time.monotonic()
        say("Redis removed with its volume under load, then the replicas and the worker; only the archive is left")
        told = deployment.restore()
        deployment.up()
        say(f"    well again after {time.monotonic() - began:.1f} s: {told.splitlines()[0]}")
        time.sleep(seconds / 4)
    lost_at = []
    for client in clients:
        there = set(client.log())
        lost_at += (gone := [update.at for update in client.updates if update.position not in there])
        client.acknowledged -= len(gone)
        kept = next(update for update in client.updates if update.position in there)
        again = client.insist("POST", client.update_path, kept.body, kept.key)
        if again["position"] != kept.position:
            raise RuntimeError(f"{client.model}: a retry from before the loss was not recognised")
    oldest = began - min(lost_at, default=began)
    say(f"{len(lost_at)} updates were lost, the oldest {oldest:.1f} s before; retries from before were recognised")
    if oldest > ARCHIVE_SECONDS + TAKEOVER_SECONDS or max(lost_at, default=began) > removed:
        raise RuntimeError("updates were lost that the archive should have")
    compare(deployment, clients)


def check(deployment: Deployment, seconds: float) -> None:
    """Start, drive, kill and compare; restart everything, and compare again."""
    deployment.up()
    say("started: balancer, Redis, a worker and two replicas, which are ready")
    train(deployment)
    trained = ask_trained(deployment)
    n_calls = Caller(deployment.port, deployment.key).check_all()
    say(f"every call with every kind of key, {n_calls} in all, was answered through the balancer as it should")
    clients = [Client(deployment.port, deployment.key, model) for model in MODELS]
    for client in clients:
        client.create()
    say(f"{len(clients)} models created; a client of each learns and predicts from now on")
    with traffic(clients):
        disturb(deployment, clients, seconds)
    statuses = sum((client.answers for client in clients), Counter[str]())
    say("answers: " + ", ".join(f"{status}: {n:,}" for status, n in sorted(statuses.items())))
    if unexpected := statuses.keys() - {"200", "201", "502", "503", "504", "none"}:
        raise RuntimeError(f"answers that should not come: {unexpected}")
    before = compare(deployment, clients)

    deployment.compose("down")
    say("all containers removed; only the volume is left")
    deployment.up()
    say("started again")
    if compare(deployment, clients) != before or ask_trained(deployment) != trained:
        raise RuntimeError("the answers are not those from before")
    say("and the answers are those from before")
    lose_store(deployment, clients, seconds)
    # The position differs, because it belongs to the store.
    if ask_trained(deployment)["predictions"] != trained["predictions"]:
        raise RuntimeError("the trained model answers differently after the restore")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=18800, help="for the balancer")
    parser.add_argument("--network", default="10.213.78", help="first three numbers of the private network")
    parser.add_argument("--seconds", type=float, default=60.0, help="of undisturbed traffic, between the disturbances")
    parser.add_argument("--build-network", default="default", help="as docker build --network")
    arguments = parser.parse_args()
    deployment = Deployment(arguments.port, arguments.network)
    build = ["docker", "build", "--network", arguments.build_network, "--tag", "manylabel", "."]
    say("building the image")
    subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    try:
        check(deployment, arguments.seconds)
    except (AssertionError, RuntimeError) as error:
        say(f"FAILED: {error}")
        return 1
    finally:
        deployment.compose("down", "--volumes")
    say("nothing was lost that should not be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
