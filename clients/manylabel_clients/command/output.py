"""What the commands print: tables for people, JSON for scripts."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import typer

from manylabel_clients.http.types import AnyStatus, AnySummary, Drift, Metrics, ModelStatus, Prediction, TrainedStatus

MOST_SCORES = 20
"""Labels shown to a person; JSON has all."""

MEASURES = {
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "f1": "F1",
    "example_f1": "example F1",
    "precision": "precision",
    "recall": "recall",
    "hamming_loss": "Hamming loss",
    "one_error": "one-error",
    "ranking_loss": "ranking loss",
    "subset_accuracy": "subset accuracy",
    "average_precision": "average precision",
    "coverage": "coverage",
    "macro_auc": "macro-AUC",
}
"""Measures in the order shown, with their names for people."""


def as_json(value: Any) -> str:
    """A value, or a dataclass, on one line."""
    if hasattr(value, "__dataclass_fields__"):
        value = asdict(value)
    return json.dumps(value, ensure_ascii=False)


def print_json(value: Any) -> None:
    """One line of JSON, at once: something may wait for it at the other end of a pipe."""
    typer.echo(as_json(value))
    sys.stdout.flush()


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None, words: int = 1
) -> None:
    """A table whose first columns are words, so many, and whose others are numbers."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title and escape(title), title_justify="left", box=box.SIMPLE_HEAD)
    for number, column in enumerate(columns):
        # The first column names what the row is about, and is copied from here: it stays in one piece.
        table.add_column(column, justify="left" if number < words else "right", overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*map(escape, row))
    Console().print(table)


def print_models(models: Sequence[AnySummary]) -> None:
    """A line for each model."""
    columns = ("model", "algorithm", "updates", "labels", "features", "size", "micro-F1")
    print_table(columns, [_row(model) for model in models])


def _row(model: AnySummary) -> tuple[str, ...]:
    if isinstance(model, TrainedStatus):
        measure = "" if model.measures is None else f"{model.measures['micro_f1']:.4f}"
        counts = (f"{count:,}" for count in (model.labels, model.features))
        return (model.name, f"{model.algorithm} ({model.trainer})", "", *counts, human_size(model.bytes), measure)
    if not isinstance(model, ModelStatus):  # not in the server's memory, so nobody has counted
        return (model.name, model.algorithm, "", "", "", "", "")
    counts = (f"{count:,}" for count in (model.updates, model.labels, model.features))
    micro_f1 = f"{model.metrics.cumulative.micro_f1:.4f}" if model.updates else ""
    return (model.name, model.algorithm, *counts, human_size(model.bytes), micro_f1)


def print_status(status: AnyStatus) -> None:
    """All there is to know about one model."""
    if isinstance(status, TrainedStatus):
        print_facts(_of_trained(status))
        if status.measures is not None:
            print_table(("held out", f"version {status.version}"), measure_rows(status.measures))
        return
    facts = {
        "model": status.name,
        "algorithm": f"{status.algorithm} ({_params(status.params)})",
        "scaling": status.scaling,
        "durability": status.durability,
        "updates": f"{status.updates:,} (position {status.position})",
        "labels": f"{status.labels:,}",
        "features": f"{status.features:,}",
        "limits": ", ".join(_limits(status)),
        "size": _size(status),
    }
    print_facts(facts)
    print_metrics(status.metrics)


def _of_trained(status: TrainedStatus) -> dict[str, str]:
    return {
        "model": status.name,
        "algorithm": status.algorithm,
        "trainer": f"{status.trainer} ({_params(status.params)})" if status.trainer else "",
        "version": f"{status.version or 'none'} (served), of {status.versions:,}",
        "labels": f"{status.labels:,}",
        "features": f"{status.features:,}",
        "size": human_size(status.bytes),
    }


def _limits(status: ModelStatus) -> Iterator[str]:
    """Most features and labels, the policy, and how much has been ignored."""
    for kind, limit in (status.limits or {}).items():
        if limit is not None:
            ignored = f" ({status.ignored[kind]:,} ignored)" if status.ignored.get(kind) else ""
            yield f"{limit['most']:,} {kind}, {limit['policy']}{ignored}"


def _size(status: ModelStatus) -> str:
    most = "" if status.bytes_at_most is None else f" (at most {human_size(status.bytes_at_most)})"
    return human_size(status.bytes) + most


def _params(params: dict[str, Any] | None) -> str:
    return ", ".join(f"{name}={value}" for name, value in (params or {}).items())


def print_facts(facts: Mapping[str, str]) -> None:
    """A line for each fact that there is."""
    for name, fact in facts.items():
        if fact:
            typer.echo(f"{name:<12}{fact}")


def print_metrics(metrics: Metrics) -> None:
    """Prequential measures, overall and over the window."""
    both = (metrics.cumulative, metrics.window)
    columns = ("predicted before learnt", "all", f"last {metrics.window.size:,}")
    counts = ("examples", *(f"{measures.examples:,}" for measures in both))
    print_table(columns, [counts, *measure_rows(*map(asdict, both))])
    if metrics.drift is not None:
        print_drift(metrics.drift)


def print_drift(drift: Drift) -> None:
    """How often the detectors of drift have sounded, those of single labels by their number of alarms."""
    ranked = sorted(drift.labels.items(), key=lambda label: -label[1].alarms)
    sounded = [("(all labels)", drift), *ranked[:MOST_SCORES]]
    rows = [(name, f"{one.alarms:,}", "never" if one.last is None else f"{one.last:,}") for name, one in sounded]
    print_table(("drift of", "alarms", "last after examples"), rows)
    if len(ranked) > MOST_SCORES:
        typer.echo(f"and {len(ranked) - MOST_SCORES} labels with fewer alarms; --json has all")


def measure_rows(*measures: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row for each measure that there is, a column for each set of them."""
    known = [name for name in MEASURES if name in measures[0]]
    return [(MEASURES[name], *(f"{one[name]:.4f}" for one in measures)) for name in known]


def print_prediction(prediction: Prediction) -> None:
    """One prediction with the scores behind it, highest first, and probabilities if it has them."""
    typer.echo(", ".join(prediction.labels) or "(no label)")
    ranked = sorted(prediction.scores.items(), key=lambda score: -score[1])
    likely = prediction.probabilities
    columns = ("label", "score - threshold") if likely is None else ("label", "score - threshold", "probability")
    rows = [
        (label, f"{score:+.4f}", *(() if likely is None else (f"{likely[label]:.4f}",)))
        for label, score in ranked[:MOST_SCORES]
    ]
    print_table(columns, rows)
    if len(ranked) > MOST_SCORES:
        typer.echo(f"and {len(ranked) - MOST_SCORES} labels with lower scores; --json has all")


def labels_shown(prediction: Prediction) -> list[str]:
    """The labels predicted, each with its probability if there are some."""
    likely = prediction.probabilities
    if likely is None:
        return prediction.labels
    return [f"{label} ({likely[label]:.2f})" for label in prediction.labels]


def human_size(size_bytes: int) -> str:
    """Bytes in the unit that leaves few digits."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
