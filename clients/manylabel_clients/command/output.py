"""What the commands print: tables for people, JSON for scripts."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import typer

from manylabel_clients.http.types import Metrics, ModelStatus, ModelSummary, Prediction

MOST_SCORES = 20
"""Labels shown to a person; JSON has all."""

MEASURES = {
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "hamming_loss": "Hamming loss",
    "one_error": "one-error",
    "ranking_loss": "ranking loss",
    "subset_accuracy": "subset accuracy",
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


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """A table whose first column is words and whose others are numbers."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title and escape(title), title_justify="left", box=box.SIMPLE_HEAD)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    Console().print(table)


def print_models(models: Sequence[ModelSummary]) -> None:
    """A line for each model."""
    columns = ("model", "algorithm", "updates", "labels", "features", "size", "micro-F1")
    print_table(columns, [_row(model) for model in models])


def _row(model: ModelSummary) -> tuple[str, ...]:
    if not isinstance(model, ModelStatus):  # not in the server's memory, so nobody has counted
        return (model.name, model.algorithm, "", "", "", "", "")
    counts = (f"{count:,}" for count in (model.updates, model.labels, model.features))
    micro_f1 = f"{model.metrics.cumulative.micro_f1:.4f}" if model.updates else ""
    return (model.name, model.algorithm, *counts, _size(model.bytes), micro_f1)


def print_status(status: ModelStatus) -> None:
    """All there is to know about one model."""
    params = ", ".join(f"{name}={value}" for name, value in status.params.items())
    facts = {
        "algorithm": f"{status.algorithm} ({params})",
        "scaling": status.scaling,
        "durability": status.durability,
        "updates": f"{status.updates:,} (position {status.position})",
        "labels": f"{status.labels:,}",
        "features": f"{status.features:,}",
        "size": _size(status.bytes),
    }
    typer.echo(f"model       {status.name}")
    for name, fact in facts.items():
        typer.echo(f"{name:<12}{fact}")
    print_metrics(status.metrics)


def print_metrics(metrics: Metrics) -> None:
    """Prequential measures, overall and over the window."""
    both = (metrics.cumulative, metrics.window)
    columns = ("predicted before learnt", "all", f"last {metrics.window.size:,}")
    counts = ("examples", *(f"{measures.examples:,}" for measures in both))
    print_table(columns, [counts, *measure_rows(*map(asdict, both))])


def measure_rows(*measures: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row for each measure, a column for each set of them."""
    return [(title, *(f"{one[name]:.4f}" for one in measures)) for name, title in MEASURES.items()]


def print_prediction(prediction: Prediction) -> None:
    """One prediction with the scores behind it, highest first."""
    typer.echo(", ".join(prediction.labels) or "(no label)")
    ranked = sorted(prediction.scores.items(), key=lambda score: -score[1])
    print_table(("label", "score - threshold"), [(label, f"{score:+.4f}") for label, score in ranked[:MOST_SCORES]])
    if len(ranked) > MOST_SCORES:
        typer.echo(f"and {len(ranked) - MOST_SCORES} labels with lower scores; --json has all")


def _size(size_bytes: int) -> str:
    """Bytes in the unit that leaves few digits."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
