"""The containers of docker-compose.yml, as a project of their own."""

import json
import os
import secrets
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
PROJECT = "manylabel-check"
FILES = [ROOT / "docker-compose.yml", Path(__file__).with_name("archive.yml")]
REPLICAS = ["replica-1", "replica-2"]
SERVICES = [*REPLICAS, "worker", "balancer", "redis"]
PATIENCE_SECONDS = 120.0
ARCHIVE_SECONDS = 2.0
"""The interval in archive.yml."""
FIRST_KEY = "/var/lib/manylabel/first-key"
"""File to which the service first-key writes the first key."""

INSIDE = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", 8000, timeout=30)
method, path, key = sys.argv[1:4]
headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
connection.request(method, path, sys.stdin.buffer.read() or None, headers)
answer = connection.getresponse()
sys.stdout.write(f"{answer.status}\\n{answer.read().decode()}")
"""
"""Asks the replica it runs in, past the balancer."""

KILL = 'for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = {name} ] && kill -9 ${{p#/proc/}}; done; true'


class Deployment:
    """The containers.

    Parameters
    ----------
    port : of the balancer, on this machine.
    network : first three numbers of the private network.

    Attributes
    ----------
    key : the first key, once everything was started.
    """

    def __init__(self, port: int, network: str) -> None:
        self.port = port
        self.key = ""
        self._compose = ["docker", "compose"] if _works("docker", "compose", "version") else ["docker-compose"]
        self._containers: dict[str, str] = {}
        self._environment = os.environ | {
            "COMPOSE_PROJECT_NAME": PROJECT,
            "COMPOSE_FILE": os.pathsep.join(map(str, FILES)),
            "REDIS_PASSWORD": secrets.token_hex(16),
            "ADDRESS": "127.0.0.1",
            "PORT": str(port),
            "NETWORK": network,
            "WORKERS": "1",
        }

    def compose(self, *arguments: str) -> str:
        """Run Compose; its output."""
        command = [*self._compose, *arguments]
        done = subprocess.run(command, cwd=ROOT, env=self._environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def up(self) -> None:
        """Start everything, and wait until it is well."""
        self.compose("up", "-d", "--no-build")
        self.key = self.compose("run", "--rm", "--no-deps", "-T", "first-key", "cat", FIRST_KEY).strip()
        self._containers = {service: self.compose("ps", "-q", service).strip() for service in SERVICES}
        self.wait(*SERVICES)

    def kill(self, service: str) -> None:
        """SIGKILL the program in a container; Docker brings the container back."""
        name = "redis-server" if service == "redis" else "python"
        self._execute(service, "sh", "-c", KILL.format(name=name))

    def lose_store(self) -> None:
        """Remove Redis with its volume, then all that used it."""
        for services in (["redis"], [*REPLICAS, "worker"]):
            self.compose("kill", *services)
            self.compose("rm", "--force", *services)
        subprocess.run(["docker", "volume", "rm", f"{PROJECT}_redis-data"], check=True, stdout=subprocess.DEVNULL)

    def restore(self) -> str:
        """Start an empty Redis, and restore into it from the archive; the output of the program."""
        self.compose("up", "-d", "--no-build", "--no-deps", "redis")
        self._containers["redis"] = self.compose("ps", "-q", "redis").strip()
        self.wait("redis")
        return self.compose("run", "--rm", "--no-deps", "-T", "restore")

    def ask(self, replica: str, method: str, path: str, body: Any = None) -> Any:
        """The answer of one replica, past the balancer."""
        given = "" if body is None else json.dumps(body)
        done = self._execute(replica, "python", "-S", "-c", INSIDE, method, path, self.key, given=given)
        status, _, text = done.stdout.partition("\n")
        if status != "200":
            raise RuntimeError(f"{replica}: {method} {path}: {status} {text} {done.stderr}")
        return json.loads(text)

    def wait(self, *services: str) -> None:
        """Wait until each answers for itself: a replica that it is ready, Redis that it has loaded its data."""
        for service in services:
            eventually(
                partial(self._is_well, service),
                PATIENCE_SECONDS,
                otherwise=lambda: self.compose("logs", "--no-color", "--tail=20"),
            )

    def restarts(self, service: str) -> int:
        """How often Docker has restarted it."""
        return int(self._inspect(service, "{{.RestartCount}}"))

    def was_restarted(self, service: str, before: int) -> bool:
        """Return whether Docker has restarted it since it had done so that often."""
        return self.restarts(service) > before

    def _is_well(self, service: str) -> bool:
        if service == "redis":
            return self._execute(service, "redis-cli", "ping").stdout == "PONG\n"
        if service == "worker":  # a worker takes no requests; its jobs show whether it works
            return self._inspect(service, "{{.State.Running}}") == "true"
        if service == "balancer":
            return self._inspect(service, "{{.State.Health.Status}}") == "healthy"
        try:
            return bool(self.ask(service, "GET", "/readyz")["ready"])
        except RuntimeError:
            return False

    def _execute(self, service: str, *command: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        whole = ["docker", "exec", "-i", self._containers[service], *command]
        return subprocess.run(whole, input=given, capture_output=True, text=True, check=False)

    def _inspect(self, service: str, wanted: str) -> str:
        command = ["docker", "inspect", "-f", wanted, self._containers[service]]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _works(*command: str) -> bool:
    return (
        shutil.which(command[0]) is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )
