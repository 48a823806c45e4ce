"""The manifests for Kubernetes follow its schemas, and agree with each other, the compose file and the server."""

import importlib.util
import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi import FastAPI
from starlette.routing import Route
from tests.support.cases import for_each
from tests.support.lazy import lazy

from manylabel_service.app import create_app
from manylabel_service.settings import Settings
from manylabel_service.storage import open_store

kubernetes_validate = lazy("kubernetes_validate")

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / "deploy" / "kubernetes"
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PAGE = (ROOT / "docs" / "deployment.md").read_text()
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((DIRECTORY / "kustomization.yaml").read_text())

Object = dict[str, Any]


def objects() -> Iterator[Object]:
    """What `kubectl apply --kustomize` would send, as far as this kustomization goes."""
    images = {image["name"]: f"{image['newName']}:{image['newTag']}" for image in KUSTOMIZATION["images"]}
    for name in KUSTOMIZATION["resources"]:
        for one in yaml.safe_load_all((DIRECTORY / name).read_text()):
            if one["kind"] != "Namespace":
                assert "namespace" not in one["metadata"], "the kustomization says it"
                one["metadata"]["namespace"] = KUSTOMIZATION["namespace"]
            for container in pod_of(one).get("containers", []):
                container["image"] = images.get(container["image"], container["image"])
            yield one


def pod_of(one: Object) -> Object:
    """The spec of the pods that an object makes; empty for others."""
    template: Object = one.get("spec", {}).get("template", {})
    return template.get("spec", {})


OBJECTS = list(objects())
NAMED = {f"{one['kind']} {one['metadata']['name']}": one for one in OBJECTS}
MAKERS = {name: one for name, one in NAMED.items() if pod_of(one)}
"""Objects that make pods."""
CONTAINERS = {name: pod_of(one)["containers"][0] for name, one in MAKERS.items()}


def pods_of(selector: Object) -> set[str]:
    """Return the workloads, of every kind, whose pods a selector chooses."""

    def chosen(labels: Object) -> bool:
        wanted = selector.get("matchLabels", selector if "matchExpressions" not in selector else {})
        of_some = selector.get("matchExpressions", [])
        assert all(one["operator"] == "In" for one in of_some)
        return wanted.items() <= labels.items() and all(labels.get(one["key"]) in one["values"] for one in of_some)

    return {name for name, one in MAKERS.items() if chosen(one["spec"]["template"]["metadata"]["labels"])}


REPLICA, WORKER, REDIS = "Deployment replica", "Deployment worker", "StatefulSet redis"


@pytest.mark.usefixtures("dev_extra")
@for_each("version", ["1.30", "latest"])
@for_each("name", NAMED)
def test_every_object_follows_the_schema(name: str, version: str) -> None:
    at = kubernetes_validate.latest_version() if version == "latest" else version
    kubernetes_validate.validate(NAMED[name], at, strict=True)


@pytest.mark.usefixtures("dev_extra")
def test_unknown_fields_are_found() -> None:
    misspelt = deepcopy(NAMED[REPLICA])
    pod_of(misspelt)["terminationGraceSeconds"] = 75
    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGraceSeconds"):
        kubernetes_validate.validate(misspelt, kubernetes_validate.latest_version(), strict=True)


def test_the_kustomization_has_every_file() -> None:
    assert KUSTOMIZATION.keys() == {"apiVersion", "kind", "namespace", "resources", "images"}
    files = {path.name for path in DIRECTORY.iterdir()}
    assert {*KUSTOMIZATION["resources"], "kustomization.yaml"} == files
    assert len(NAMED) == len(OBJECTS), "two objects have the same name"
    assert MAKERS.keys() == {REPLICA, WORKER, REDIS}
    assert KUSTOMIZATION["namespace"] == NAMED["Namespace manylabel"]["metadata"]["name"]


def test_selectors_select_the_intended_pods() -> None:
    for name, one in MAKERS.items():
        assert pods_of(one["spec"]["selector"]) == {name}
    assert pods_of(NAMED["Service manylabel"]["spec"]["selector"]) == {REPLICA}
    assert pods_of(NAMED["Service redis"]["spec"]["selector"]) == {REDIS}
    assert NAMED[REDIS]["spec"]["serviceName"] == "redis"
    budget = NAMED["PodDisruptionBudget replica"]["spec"]
    assert pods_of(budget["selector"]) == {REPLICA}
    assert budget["minAvailable"] < NAMED[REPLICA]["spec"]["replicas"], "or no node could be drained"
    (spread,) = pod_of(NAMED[REPLICA])["topologySpreadConstraints"]
    assert pods_of(spread["labelSelector"]) == {REPLICA}


def test_only_necessary_connections_are_allowed() -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in OBJECTS if one["kind"] == "NetworkPolicy"}
    assert policies.pop("nothing") == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    allowed = {
        (name, kind, way): spec
        for name, spec in policies.items()
        for kind in ("ingress", "egress")
        for way in pods_of(spec["podSelector"])
        if kind in spec
    }
    assert {(kind, pods) for _, kind, pods in allowed} == {
        ("ingress", REPLICA), ("ingress", REDIS), ("egress", REPLICA), ("egress", WORKER),
    }  # fmt: skip
    (to_redis,) = policies["to-redis"]["ingress"]
    assert [pods_of(peer["podSelector"]) for peer in to_redis["from"]] == [{REPLICA, WORKER}]
    assert to_redis["ports"] == [{"protocol": "TCP", "port": "redis"}]
    (to_replicas,) = policies["to-replicas"]["ingress"]
    (label,) = to_replicas["from"][0]["namespaceSelector"]["matchLabels"].items()
    assert f"{label[0]}={label[1]}" in PAGE
    store, names = policies["from-replicas-and-workers"]["egress"]
    assert [pods_of(peer["podSelector"]) for peer in store["to"]] == [{REDIS}]
    assert {one["port"] for one in names["ports"]} == {53}


def test_named_ports_exist() -> None:
    ports = {(name, one["name"]): one["containerPort"] for name, c in CONTAINERS.items() for one in c.get("ports", [])}
    assert ports == {(REPLICA, "http"): 8000, (REDIS, "redis"): 6379}
    assert "MANYLABEL_PORT=8000" in DOCKERFILE
    for service, maker in (("manylabel", REPLICA), ("redis", REDIS)):
        (port,) = NAMED[f"Service {service}"]["spec"]["ports"]
        assert (maker, port["targetPort"]) in ports


def test_probes_need_no_key(tmp_path: Path) -> None:
    """Alive restarts, ready routes: a replica that waits for its Redis must not be restarted."""
    replica = CONTAINERS[REPLICA]
    paths = {name: replica[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: one["path"] for name, one in paths.items()} == {
        "startup": "/livez", "liveness": "/livez", "readiness": "/readyz",
    }  # fmt: skip
    assert {one["port"] for one in paths.values()} == {"http"}
    settings = Settings(data_dir=tmp_path)
    app: FastAPI = create_app(settings, open_store(settings))
    assert {"/livez", "/readyz"} <= {route.path for route in app.routes if isinstance(route, Route)}
    assert not [name for name in CONTAINERS[WORKER] if name.endswith("Probe")]
    assert COMPOSE["worker"]["healthcheck"] == {"disable": True}
    redis = CONTAINERS[REDIS]
    assert redis["readinessProbe"]["exec"]["command"][-1] == COMPOSE["redis"]["healthcheck"]["test"][-1]
    assert redis["startupProbe"]["exec"] == redis["readinessProbe"]["exec"]


@pytest.mark.parametrize(("maker", "service"), [(REPLICA, "replica-1"), (WORKER, "worker"), (REDIS, "redis")])
def test_pods_match_the_containers_of_the_compose_file(maker: str, service: str) -> None:
    pod, container, composed = pod_of(NAMED[maker]), CONTAINERS[maker], COMPOSE[service]
    assert f"{pod['terminationGracePeriodSeconds']}s" == composed["stop_grace_period"]
    assert pod["shareProcessNamespace"] is composed["init"] is True
    assert container["image"].rpartition(":")[0].endswith(composed["image"].rpartition(":")[0] or composed["image"])
    assert container.get("command") == composed.get("command") or maker == REDIS
    rights = container["securityContext"]
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert rights["allowPrivilegeEscalation"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False, "MANYLABEL_PORT of the Service manylabel is no port"
    assert {one["name"] for one in container["volumeMounts"]} <= {
        *(one["name"] for one in pod.get("volumes", [])),
        *(one["metadata"]["name"] for one in NAMED[maker]["spec"].get("volumeClaimTemplates", [])),
    }
    if service != "redis":
        assert f"useradd --uid {pod['securityContext']['runAsUser']} " in DOCKERFILE
        assert set(composed["cap_drop"]) == {"ALL"}
        assert container["volumeMounts"][0]["mountPath"] in re.findall(r"MANYLABEL_DATA_DIR=(\S+)", DOCKERFILE)


def test_redis_is_started_as_in_the_compose_file() -> None:
    def flags(words: list[str]) -> dict[str, str]:
        assert words[0] == "redis-server"
        return dict(zip(words[1::2], words[2::2], strict=True))

    here, composed = flags(CONTAINERS[REDIS]["args"]), flags(COMPOSE["redis"]["command"])
    assert here.pop("--requirepass") == "$(REDISCLI_AUTH)"
    composed.pop("--requirepass")
    assert composed.pop("--appendfsync") == f"${{APPENDFSYNC:-{here.pop('--appendfsync')}}}"
    assert here == composed


def test_replicas_and_workers_have_the_settings_of_the_compose_file() -> None:
    settings = NAMED["ConfigMap settings"]["data"]
    composed = COMPOSE["worker"]["environment"]
    section = PAGE.partition("\n## Kubernetes\n")[2].partition("\n## ")[0]
    others = composed.keys() - settings.keys() - {"MANYLABEL_REDIS_PASSWORD"}
    assert [name for name in others if name not in section] == [], "the page says where these settings are"
    assert settings.keys() <= composed.keys()
    assert {name: settings[name] for name in ("MANYLABEL_STORE", "MANYLABEL_JOB_RUNNER")}.items() <= composed.items()
    assert {name.removeprefix("MANYLABEL_").lower() for name in settings} <= Settings.model_fields.keys()
    hosts = settings["MANYLABEL_ALLOWED_HOSTS"].split(",")
    assert {"manylabel", f"manylabel.{KUSTOMIZATION['namespace']}"} <= set(hosts)
    for maker in (REPLICA, WORKER):
        assert CONTAINERS[maker]["envFrom"] == [{"configMapRef": {"name": "settings"}}]
        assert [one["name"] for one in CONTAINERS[maker]["env"]] == ["MANYLABEL_REDIS_PASSWORD"]
    assert importlib.util.find_spec(CONTAINERS[WORKER]["command"][-1]) is not None


def test_no_secret_is_in_a_file_and_the_page_says_how_it_is_made() -> None:
    assert "Secret" not in {one["kind"] for one in OBJECTS}
    wanted = [env["valueFrom"]["secretKeyRef"] for container in CONTAINERS.values() for env in container.get("env", [])]
    assert len(wanted) == 3
    assert wanted == [{"name": "redis", "key": "password"}] * 3
    assert "create secret generic redis --from-file=password=" in PAGE
    assert not re.search(r"(?i)(password|secret|key)\"?: \"?\w*\d", json.dumps(OBJECTS))
