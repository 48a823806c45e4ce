"""The rules and the dashboard ask for what a server exposes: every metric, label and state that they name exists."""

import asyncio
import json
import re
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.cases import for_each
from tests.support.server_process import ServerProcess
from tests.support.waiting import eventually

from manylabel_service.api.web.problems import STATUS_AND_TITLE
from manylabel_service.telemetry.metrics import Telemetry
from manylabel_service.telemetry.worker_metrics import WorkerMetrics, join

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
RULES = (MONITORING / "rules.yml").read_text()
DASHBOARD = json.loads((MONITORING / "grafana" / "dashboards" / "manylabel.json").read_text())

PROMETHEUS_OWN = {"up", "ALERTS"}
OF_SCRAPES = {"job", "instance", "worker", "alertname", "alertstate"}
"""Labels that Prometheus adds, or a server with several workers."""
WORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset"}


class Exposed(NamedTuple):
    """Names of the series that a server exposes, and the values of each label of a metric."""

    names: set[str]
    labels: dict[str, dict[str, set[str]]]


@pytest.fixture(scope="module")
def exposed(module_server_process: Callable[..., ServerProcess], tmp_path_factory: pytest.TempPathFactory) -> Exposed:
    """A scrape of a real server whose model has learnt, predicted, kept a prediction and refused a request."""
    server = module_server_process("--archive", f"file://{tmp_path_factory.mktemp('archive')}").start()

    def send(path: str, document: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{server.url}/v1/models{path}", json.dumps(document).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            result: dict[str, Any] = json.load(answer)
            return result

    example = {"x": {"a": 1.0}, "y": ["p"]}
    send("", {"name": "m", "algorithm": "falt"})
    send("/m/update", {"examples": [example] * 20})
    kept = send("/m/predict?keep=true", {"x": {"a": 1.0}})
    send("/m/labels", {"id": kept["id"], "y": ["p"]})
    with pytest.raises(urllib.error.HTTPError):
        send("/m/update", {"x": 1})

    def scrape() -> bytes:
        with urllib.request.urlopen(f"{server.url}/metrics") as answer:
            return bytes(answer.read())

    eventually(lambda: b"manylabel_archive_lag_seconds " in scrape())
    text = scrape()
    assert server.stop() == 0
    several = join([text, at_times(tmp_path_factory.mktemp("workers"))])
    names: set[str] = set()
    labels: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(several.decode()):
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        names |= {family.name + suffix for suffix in suffixes}
        for sample in family.samples:
            for label, value in sample.labels.items():
                labels.setdefault(sample.name, {}).setdefault(label, set()).add(value)
    return Exposed(names, labels)


def at_times(directory: Path) -> bytes:
    """Return the metrics that only a server with several workers, or with a certificate, exposes."""

    async def scrape() -> bytes:
        telemetry = Telemetry(workers := WorkerMetrics(directory, 0, 2))
        telemetry.watch_certificate(lambda: 1.0)
        return await workers.joined(await telemetry.exposition())

    return asyncio.run(scrape())


def recorded() -> set[str]:
    return set(re.findall(r"- record: (\S+)", RULES))


def expressions_of_rules() -> list[str]:
    """The `expr` of each rule: on its line, or folded below it."""
    found = re.findall(r"^( +)expr: (?:>-.*\n((?:\1  .*\n)+)|(.*)\n)", RULES, re.MULTILINE)
    assert len(found) == RULES.count("expr:") > 10
    return [folded or line for _, folded, line in found]


def expressions_of_dashboard() -> list[str]:
    variables = [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    targets = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return [*targets, *variables, *(each["expr"] for each in DASHBOARD["annotations"]["list"])]


EXPRESSIONS = [*expressions_of_rules(), *expressions_of_dashboard()]


def selectors(expression: str) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """The metrics that an expression names, with their matchers: label, operator, value."""
    text = re.sub(r"label_values\((.*), \w+\)", r"\1", expression)
    text = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)", " ", text)
    text = re.sub(r"\[[^]]*\]", " ", text)
    text = re.sub(r"\boffset \w+", " ", text)
    for name, matchers in re.findall(r"(?<![\w.:])([a-zA-Z_:][\w:]*)(?!\w|\s*\()\s*(?:\{([^}]*)\})?", text):
        if name not in WORDS:
            yield name, re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', matchers)


def test_selectors_are_found() -> None:
    found = dict(selectors('sum by (a) (rate(x_total{k="v",l=~"a|b"}[5m])) > 2 * y:z or on (q) w unless w offset 15m'))
    assert found == {"x_total": [("k", "=", "v"), ("l", "=~", "a|b")], "y:z": [], "w": []}


@for_each("expression", EXPRESSIONS)
def test_every_metric_exists(expression: str, exposed: Exposed) -> None:
    named = dict(selectors(expression))
    assert named or "vector" in expression
    assert named.keys() <= exposed.names | PROMETHEUS_OWN | recorded()


def test_every_label_and_its_values_exist(exposed: Exposed) -> None:
    seen = 0
    for expression in EXPRESSIONS:
        for name, matchers in selectors(expression):
            own = exposed.labels.get(name)
            for label, operator, value in matchers:
                if label in OF_SCRAPES or own is None:  # a counter that has not counted has no series
                    continue
                assert label in own, (name, label)
                seen += 1
                if label == "reason":
                    assert set(value.split("|")) <= STATUS_AND_TITLE.keys()
                elif operator == "=":
                    assert value in own[label], (name, label, value)
    assert seen > 20


def test_each_alert_has_a_severity_and_a_summary() -> None:
    alerts = re.split(r"(?=- alert: )", RULES)[1:]
    assert len(alerts) > 10
    for alert in alerts:
        assert re.search(r"labels: \{severity: (critical|warning|info)\}", alert), alert
        assert "summary:" in alert


def test_panels_do_not_overlap_and_have_different_ids() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_mounted_files_exist() -> None:
    mounted = re.findall(r"- \./(deploy/\S+?):", (MONITORING / "compose.yml").read_text())
    mounted.remove("deploy/monitoring/manylabel-key")  # which only its owner has
    assert "deploy/monitoring/manylabel-key" in (MONITORING.parents[1] / ".gitignore").read_text().splitlines()
    assert len(mounted) > 3
    for path in mounted:
        assert (MONITORING.parents[1] / path).exists(), path
