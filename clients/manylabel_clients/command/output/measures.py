"""Output of metrics and drift alarms."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click

from manylabel_clients.command.output.tables import print_facts, print_table
from manylabel_clients.command.output.text import MAX_LABELS
from manylabel_clients.http.responses import TITLES, BySeen, Drift, Metrics, MetricsHistory, Reliability


def print_metrics(metrics: Metrics, title: str = "predicted before learnt") -> None:
    """Print prequential metrics, overall and over the window, next to the baseline."""
    both = (metrics.cumulative, metrics.window)
    columns = (title, "all", "baseline", _last(metrics), "baseline")
    counts = ("examples", *(cell for measures in both for cell in (f"{measures.examples:,}", "")))
    print_table(columns, [counts, *measure_rows(*(asdict(one) for each in both for one in (each, each.baseline)))])
    print_by_seen(metrics.by_seen)
    if metrics.drift is not None:
        print_drift(metrics.drift)


def print_by_seen(by_seen: BySeen) -> None:
    """Print metrics of labels by the number of earlier examples."""
    groups = (
        ("never", by_seen.never),
        ("1 to 4 times", by_seen.below_5),
        ("5 to 19 times", by_seen.below_20),
        ("20 times or more", by_seen.more),
    )
    rows = [
        (
            title,
            f"{one.true:,.10g}",
            *(number(each if one.true else None) for each in (one.precision, one.recall, one.f1)),
        )
        for title, one in groups
    ]
    print_table(("label seen before", "true", "precision", "recall", "F1"), rows)


def print_promises(accounts: Mapping[str, Any]) -> None:
    """Print the accounts of the promises that the model has: of precision and of parity."""
    if accounts.get("precision") is not None:
        print_promise(accounts)
    if accounts.get("parity") is not None:
        print_parity(accounts["parity"])


def print_parity(account: Mapping[str, Any]) -> None:
    """Print the account of a promise of parity: answers without the teacher, audits and their disagreements."""
    n_served, saved, empty = account["answered"] + account["asked"], account["calls_saved"], account["empty_share"]
    wrong, spread = f"{account['estimated_wrong']:,.4g}", f"{account['spread']:,.3g}"
    audits = f"{account['audits']:,}, {account['audits_waiting']:,} waiting"
    what = {"exact": "equal", "f1": "mean F1"}[account["agreement"]]
    print_facts(
        {
            "promise": f"in the long run, answers agree with {account['of']} at {_percent(account['parity'])} ({what})",
            "teacher": f"{account['state']}: asked for {_percent(account['audit_rate_now'])} of sure examples",
            "answered": f"{account['answered']:,} of {n_served:,} alone" + ("" if saved is None else f" ({saved:.1%})"),
            "without a label": "-" if empty is None else f"{empty:.1%} of the answers",
            "audits": f"{audits}, {account['audits_without_answer']:,} without an answer",
            "estimated wrong": f"{wrong} ± {spread}; allowed {account['allowed']:,.4g}",
            **_by_people(account["people"]),
        }
    )
    differ = [(one["label"], f"{one['added']:,}", f"{one['missed']:,}") for one in account["labels"][:MAX_LABELS]]
    if differ:
        print_table(("labels that differ in audits", "added", "missed"), differ)


def _by_people(people: Mapping[str, Any]) -> dict[str, str]:
    """Return the results of labels by people; empty if people labelled nothing."""
    model, teacher = ((people[f"{who}_wrong"], people[f"{who}_right"]) for who in ("model", "teacher"))
    found = {}
    if sum(model) + sum(teacher):
        told = [f"{who} wrong {one[0]:,} of {sum(one):,}" for who, one in (("model", model), ("teacher", teacher))]
        found["found by people"] = ", ".join(told)
    if people["checked"]:
        low, high = people["right_low"], people["right_high"]
        found["drawn checks"] = f"{people['right_share']:.1%} of {people['checked']:,} right ({low:.1%} to {high:.1%})"
    return found


def print_promise(account: Mapping[str, Any]) -> None:
    """Print the account of a promise of precision: labels applied unseen, remaining ones, and possible coverage."""
    total, last, gate, settled = (account[part] for part in ("total", "last_1000", "gate", "settled_gate"))
    wrong = f"wrong {total['wrong']:,}{_of(total['wrong'], total['applied'])}"
    print_facts(
        {
            "promise": f"in the long run, at least {_percent(account['precision'])} of the labels applied are right",
            "account": f"applied {total['applied']:,}, {wrong}; allowed {_percent(1 - account['precision'])}",
            "labels": f"{gate['state']}: {gate['why']}",
            "examples": "all need review" if settled is None else f"{settled['state']}: {settled['why']}",
        }
    )
    rows = [
        (title, *(_cell(numbers[field], field) for numbers in (total, last)))
        for field, title in (
            ("applied", "labels applied"),
            ("wrong", "wrong"),
            ("precision", "precision"),
            ("recall", "of all true labels"),
            ("settled_share", "examples without review"),
            ("settled_right", "of these, entirely right"),
            ("missed_share", "true labels missed"),
        )
    ]
    rows.append(("settled and audited", f"{account['audited']:,}", ""))
    print_table(("applied unseen", "all", "last 1,000"), rows)
    worst = [
        (one["label"], f"{one['applied']:,}", f"{one['wrong']:,}", number(one["precision"]))
        for one in account["labels"][:MAX_LABELS]
    ]
    if worst:
        print_table(("least precise labels", "applied", "wrong", "precision"), worst)
    curve = [(_percent(point["precision"]), number(point["recall"])) for point in account["curve"]]
    print_table(("at a precision of", "recall about"), curve)


def _cell(value: float | None, field: str) -> str:
    return f"{value:,}" if field in ("applied", "wrong") else number(value)


def _of(part: int, whole: int) -> str:
    return f" ({part / whole:.1%})" if whole else ""


def _percent(share: float) -> str:
    return f"{100 * share:.6g} %"


MAX_POINTS = 16
"""Maximum number of points of the history shown to a person; JSON has all."""


def print_history(history: MetricsHistory) -> None:
    """Print the history of micro-F1, overall and over the window, next to the baseline, and the drift alarms."""
    parts = (history.cumulative, history.window)
    columns = [column for part in parts for column in (part.micro_f1, part.baseline.micro_f1)]
    last = len(history.examples) - 1
    shown = sorted({round(last * at / (MAX_POINTS - 1)) for at in range(MAX_POINTS)}) if last >= 0 else []
    rows = [(f"{history.examples[at]:,}", *(number(column[at]) for column in columns)) for at in shown]
    print_table(("micro-F1 after", "all", "baseline", f"last {history.window.size:,}", "baseline"), rows)
    if history.drift is not None and history.drift.examples:
        alarms = zip(history.drift.labels, history.drift.examples, strict=True)
        latest = [("(all labels)" if label is None else label, f"{after:,}") for label, after in alarms][-MAX_LABELS:]
        print_table(("drift of", "after examples"), latest)


def print_reliability(reliability: Reliability) -> None:
    """Print the reliability diagram and its summaries."""
    there = [each for each in reliability.bins if each.count]
    rows = [
        (
            f"{each.from_:.2f} to {each.to:.2f}",
            number(each.mean_probability),
            number(each.share_true),
            f"{each.count:,.10g}",
        )
        for each in there
    ]
    print_table(("probability", "mean", "true", "labels"), rows)
    errors = [
        ("expected calibration error", number(reliability.expected_calibration_error)),
        ("Brier score", number(reliability.brier_score)),
    ]
    print_table(("error", "mean"), errors)


def _last(metrics: Metrics) -> str:
    """Return the heading of the window, with the number of examples that it covers."""
    size, covered = metrics.window.size, metrics.window.examples
    return f"last {size:,}" if covered >= size else f"last {size:,} ({covered:,} so far)"


def print_drift(drift: Drift) -> None:
    """Print the drift alarms; labels in order of their number of alarms."""
    ranked = sorted(drift.labels.items(), key=lambda label: -label[1].alarms)
    detectors = [("(all labels)", drift), *ranked[:MAX_LABELS]]
    rows = [(name, f"{one.alarms:,}", "never" if one.last is None else f"{one.last:,}") for name, one in detectors]
    print_table(("drift of", "alarms", "last after examples"), rows)
    if len(ranked) > MAX_LABELS:
        click.echo(f"and {len(ranked) - MAX_LABELS} labels with fewer alarms; --json has all")


def measure_rows(*measures: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a row per available metric, with a column per set."""
    known = [name for name in TITLES if name in measures[0]]
    return [(TITLES[name], *(number(one[name]) for one in measures)) for name in known]


def number(measure: float | None, decimals: int = 4) -> str:
    """Return a metric as text; a dash without examples."""
    return "-" if measure is None else f"{measure:.{decimals}f}"
