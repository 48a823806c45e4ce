"""Output of models and predictions."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import click

from manylabel_clients.command.output.measures import measure_rows, number, print_metrics
from manylabel_clients.command.output.tables import print_facts, print_table, print_text
from manylabel_clients.command.output.text import MAX_LABELS, human_size
from manylabel_clients.http.resources.model_status import AnyStatus, AnySummary
from manylabel_clients.http.responses import ModelStatus, Prediction, TrainedStatus

_UNCLEAR = re.compile(r'[,"\r\n]|^\s|\s$|\(\d\.\d\d\)$')
"""Pattern of characters in a name that could be mistaken for the separators of a list of names."""

SHOWN_ALIKE = 5
"""Number of groups of alike labels that the command shows."""

MANY_UNSEEN = 0.25
"""Share of unseen words above which the command advises parts of words as features."""


def print_models(models: Sequence[AnySummary], prefix: str | None = None) -> None:
    """Print a line for each model. `prefix` is the beginning of names by which models were selected, if any."""
    if not models and prefix:
        return click.echo(f"no model's name begins with {prefix}")
    if not models:
        return click.echo("no models; manylabel models create NAME creates one")
    columns = ("model", "algorithm", "updates", "labels", "features", "size", "micro-F1")
    return print_table(columns, [_row(model) for model in models])


def _row(model: AnySummary) -> tuple[str, ...]:
    if isinstance(model, TrainedStatus):
        measure = f"{model.measures['micro_f1']:.4f}" if model.measures else "not measured" if model.version else ""
        measure += ", not converged" if model.converged is False else ""
        counts = (f"{count:,}" for count in (model.labels, model.features))
        return (model.name, f"{model.algorithm} ({model.trainer})", "", *counts, human_size(model.bytes), measure)
    if not isinstance(model, ModelStatus):  # a model that is not in the server's memory has no counts
        return (model.name, model.algorithm, "", "", "", "", "")
    counts = (f"{count:,}" for count in (model.updates, model.labels, model.features))
    micro_f1 = number(model.metrics.cumulative.micro_f1) if model.updates else ""
    return (model.name, model.algorithm, *counts, human_size(model.bytes), micro_f1)


def print_status(status: AnyStatus) -> None:
    """Print the details of one model."""
    if isinstance(status, TrainedStatus):
        print_facts(_facts_of_trained(status))
        if status.measures is not None:
            columns = ("held out", f"version {status.version}", "baseline")
            print_table(columns, measure_rows(status.measures, status.baseline or dict.fromkeys(status.measures)))
        if status.metrics is not None and status.metrics.cumulative.examples:
            print_metrics(status.metrics, f"version {status.version} as served")
        return
    facts = {
        "model": status.name,
        "algorithm": f"{status.algorithm} ({_params(status.params)})",
        "follows": _followed(status.follow),
        "scaling": status.scaling if status.missing is None else f"{status.scaling} (missing: {status.missing})",
        "text": text_facts(status.text or {}),
        "updates": f"{status.updates:,} (position {status.position})",
        "labels": status.labels,
        "features": status.features,
        "limits": list(_limits(status)),
        "size": human_size(status.bytes),
    }
    print_facts(facts)
    print_fields(status)
    print_metrics(status.metrics)
    print_advice(status)


def print_fields(status: ModelStatus) -> None:
    """Print the fields of the records of a model, and their warnings."""
    if not status.fields:
        return
    rows = [
        (
            each.name,
            each.kind,
            ", ".join(f"{value:g}" if isinstance(value, float) else value for value in each.examples),
            "" if each.share is None else f"{100 * each.share:.0f} %",
        )
        for each in status.fields
    ]
    print_table(("field", "kind", "such as", "examples"), rows, words=3)
    if status.n_fields > len(rows):
        click.echo(f"and {status.n_fields - len(rows):,} fields that fewer examples have")
    for each in status.fields:
        for warning in each.warnings:
            print_text(f"{each.name}: {warning}")


def print_advice(status: AnyStatus) -> None:
    """Advise to use parts of words if new texts have many unseen words, and to merge labels that are alike."""
    if not isinstance(status, ModelStatus):
        return
    if (status.unseen_words or 0.0) >= MANY_UNSEEN:
        click.echo(
            f"{status.unseen_words:.0%} of the words in new texts were never seen before: "
            'compare a model that reads parts of words (text: {"chars": 5})'
        )
    for alike in status.alike_labels[:SHOWN_ALIKE]:
        click.echo(f"labels {', '.join(map(repr, alike))} differ only in case, spaces or Unicode form")
    if status.alike_labels:
        click.echo(f"manylabel models merge-label {status.name} --alike merges such labels")


def _facts_of_trained(status: TrainedStatus) -> dict[str, str]:
    return {
        "model": status.name,
        "algorithm": status.algorithm,
        "trainer": f"{status.trainer} ({_params(status.params)})" if status.trainer else "",
        "version": f"{status.version or 'none'} (served), of {status.versions:,}",
        "converged": "" if status.converged is None else "yes" if status.converged else "no",
        "labels": f"{status.labels:,}",
        "features": f"{status.features:,}",
        "text": "" if status.text is None else text_facts(status.text),
        "size": human_size(status.bytes),
    }


def _followed(follow: dict[str, Any] | None) -> str:
    if follow is None:
        return ""
    until = "" if follow["until"] is None else f" to {follow['until']}"
    return f"{follow['model'] or 'another model'}, from position {follow['begin']}{until}"


def _limits(status: ModelStatus) -> Iterator[str]:
    """Yield the maximum number of features and of labels, the policy, and the number ignored."""
    for kind, limit in (status.limits or {}).items():
        if limit is not None:
            ignored = f" ({status.ignored[kind]:,} ignored)" if status.ignored.get(kind) else ""
            yield f"{limit['most']:,} {kind}, {limit['policy']}{ignored}"


def text_facts(text: dict[str, Any]) -> str:
    """Return the text fields and the other text options."""
    fields = text.get("fields")
    named = ", ".join(fields) if fields else "no field" if fields == [] else ""
    long = f"strings of more than {text['longer_than']:,} characters" if text.get("longer_than") is not None else ""
    return " and ".join(filter(None, (named, long)))


def _params(params: dict[str, Any] | None) -> str:
    return ", ".join(f"{name}={value}" for name, value in (params or {}).items())


def print_prediction(prediction: Prediction) -> None:
    """Print one prediction with its scores, highest first, and probabilities if it has them."""
    click.echo(", ".join(prediction.labels) or "(no label)")
    ranked = sorted(prediction.scores.items(), key=lambda score: -score[1])
    likely = prediction.probabilities
    columns = ("label", "score") if likely is None else ("label", "score", "probability")
    rows = [
        (label, f"{score:+.4f}", *(() if likely is None else (f"{likely[label]:.4f}",)))
        for label, score in ranked[:MAX_LABELS]
    ]
    print_table(columns, rows)
    if len(ranked) > MAX_LABELS:
        click.echo(f"and {len(ranked) - MAX_LABELS} labels with lower scores; --json has all")
    if prediction.scores_of is not None:
        click.echo(f"the best {len(ranked):,} of {prediction.scores_of:,} labels; --top N has more")


def print_explanations(prediction: Prediction) -> None:
    """Print the explanation of each predicted label, if requested: features for and against it, and the rest."""
    for label, explanation in (prediction.explanations or {}).items():
        parts = [*explanation.for_, *reversed(explanation.against)]
        shown = ["" if part.value is None else f"{part.value:.4g}" for part in parts]
        rows = [(str(part.feature), own, f"{part.contribution:+.4f}") for part, own in zip(parts, shown, strict=True)]
        if explanation.title:
            rows.append(("the title", "", f"{explanation.title:+.4f}"))
        rows.append(("the rest", "", f"{explanation.rest:+.4f}"))
        score = sum(part.contribution for part in parts) + explanation.title + explanation.rest
        rows.append(("score", "", f"{prediction.scores.get(label, score):+.4f}"))
        print_table((label, "value", "contribution"), rows)


def label_texts(prediction: Prediction) -> list[str]:
    """Return the predicted labels, with their probabilities if available. Names that would be ambiguous in a list are
    JSON strings."""
    likely = prediction.probabilities or {}
    return [_listed(label) + (f" ({likely[label]:.2f})" if label in likely else "") for label in prediction.labels]


def _listed(label: str) -> str:
    return json.dumps(label, ensure_ascii=False) if _UNCLEAR.search(label) else label
