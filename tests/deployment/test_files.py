"""The files of the deployment agree with each other and with the server; `make deploy-check` runs them for real."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from fastapi import FastAPI
from starlette.routing import Route
from tests.deployment.containers import FIRST_KEY

from manylabel_clients.command.app import app
from manylabel_clients.command.server.paperless import TOKEN_VARIABLE
from manylabel_service.access.__main__ import parser
from manylabel_service.app import create_app
from manylabel_service.settings import Settings, option_names
from manylabel_service.storage import open_store

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
MONITORING = (ROOT / "deploy" / "monitoring" / "compose.yml").read_text()
PAPERLESS = (ROOT / "deploy" / "paperless.yml").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()
NGINX = (ROOT / "deploy" / "nginx.conf").read_text()
EXAMPLE = (ROOT / "deploy" / "env.example").read_text()


def test_every_variable_has_an_example_with_its_default() -> None:
    used = dict(re.findall(r"\$\{(\w+):[-?]([^}]*)\}", COMPOSE + MONITORING + PAPERLESS))
    example = dict(re.findall(r"^(\w+)=(.*)$", EXAMPLE, re.MULTILINE))
    for secret in ("REDIS_PASSWORD", "GRAFANA_PASSWORD", "PAPERLESS_URL", "PAPERLESS_TOKEN"):
        assert example.pop(secret) == "", "a password of everybody's is none"
        assert used.pop(secret) == "set it in .env"
    assert example == used


def test_no_secret_has_a_default() -> None:
    assert set(re.findall(r"\$\{REDIS_PASSWORD[^}]*\}", COMPOSE)) == {"${REDIS_PASSWORD:?set it in .env}"}
    assert set(re.findall(r"\$\{GRAFANA_PASSWORD[^}]*\}", MONITORING)) == {"${GRAFANA_PASSWORD:?set it in .env}"}
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()


def test_every_variable_of_the_server_is_a_setting() -> None:
    used = set(re.findall(r"\bMANYLABEL_([A-Z_]+)\b", COMPOSE + MONITORING + DOCKERFILE))
    assert {name.lower() for name in used} <= Settings.model_fields.keys()


def test_the_options_of_the_paperless_services_exist() -> None:
    services = yaml.safe_load(PAPERLESS)["services"]
    server, sidecar = services["manylabel"]["command"], services["sidecar"]["command"]
    assert importlib.util.find_spec(server[3]) is not None
    assert {flag for flag in server[4:] if flag.startswith("--")} <= option_names().keys()
    program, name, *options = sidecar
    assert program == "manylabel"
    assert isinstance(app.commands[name], click.Command)
    known = {option for parameter in app.commands[name].params for option in parameter.opts}
    assert {option for option in options if option.startswith("--")} <= known
    variables = {str(each.envvar) for each in app.commands[name].params} | {TOKEN_VARIABLE}
    assert services["sidecar"]["environment"].keys() <= variables
    assert services["manylabel"]["networks"] == ["inside"], "it has no key, and nothing else reaches it"


def test_the_balancer_knows_every_replica() -> None:
    replicas = dict(re.findall(r"^  (replica-\d+):\n    <<: \*replica\n    .*\}(\.\d+)\"", COMPOSE, re.MULTILINE))
    assert len(replicas) > 1
    assert dict(re.findall(r'"(replica-\d+):\$\{NETWORK[^}]*\}(\.\d+)"', COMPOSE)) == replicas
    assert set(re.findall(r"server (replica-\d+):8000 ", NGINX)) == replicas.keys()


def test_workers_and_replicas_share_the_settings() -> None:
    (worker,) = re.findall(r"^  worker:\n((?:    .*\n)+)", COMPOSE, re.MULTILINE)
    assert "<<: *replica\n" in worker
    assert "environment:" not in worker
    assert "    MANYLABEL_JOB_RUNNER: rq " in COMPOSE
    (command,) = re.findall(r"command: (.*)", worker)
    assert importlib.util.find_spec(json.loads(command)[-1]) is not None


def test_the_first_key_is_created_before_other_services_start() -> None:
    (service,) = re.findall(r"^  first-key:\n((?:    .*\n)+)", COMPOSE, re.MULTILINE)
    (command,) = re.findall(r"command: (.*)", service)
    python, safely, module, name, *arguments = json.loads(command)
    assert (python, safely, module) == ("python", "-P", "-m")
    assert importlib.util.find_spec(name) is not None
    given = parser().parse_args(arguments)
    assert (given.command, given.if_none, str(given.file), given.flags) == ("init", True, FIRST_KEY, ())
    assert FIRST_KEY.startswith(re.findall(r"MANYLABEL_DATA_DIR=(\S+)", DOCKERFILE)[0]), "the directory of its user"
    assert f"first-key:{Path(FIRST_KEY).parent}" in service
    assert "first-key: {condition: service_completed_successfully}" in COMPOSE
    assert COMPOSE.count(FIRST_KEY) == 2  # once in the service, once in the comment on how to read the key


def test_the_balancer_does_not_buffer_endless_responses(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    app: FastAPI = create_app(settings, open_store(settings))
    endless = [
        route.path for route in app.routes if isinstance(route, Route) and re.search("/(stream|events)$", route.path)
    ]
    assert len(endless) > 2
    unbuffered = re.findall(r"location ~ (\S+) \{\s+proxy_buffering off;\s+proxy_request_buffering off;", NGINX)
    for path in endless:
        assert any(re.fullmatch(pattern.strip("^$"), re.sub(r"\{\w+\}", "x", path)) for pattern in unbuffered), path


@pytest.mark.usefixtures("programs")
def test_the_check_of_the_deployment_needs_no_package() -> None:
    """`make deploy-check` runs with a Python with nothing installed."""
    command = [sys.executable, "-S", "-m", "tests.deployment.check", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_build_context_has_exactly_the_copied_files() -> None:
    copied = set(" ".join(re.findall(r"^COPY (?!--)(.*) \S+$", DOCKERFILE, re.MULTILINE)).split())
    let_through = set(re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert copied == let_through
    assert all((ROOT / name).exists() for name in copied)
