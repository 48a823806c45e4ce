"""Dry run of a suggested change of labels in a training process: the metrics of a replay without and with it."""

from __future__ import annotations

from manylabel_core.label_health import Change, Labels, Trial, TrialMetrics, try_change
from manylabel_core.label_structure import Group
from manylabel_service.jobs.spec.schemas import DryRunResult, LabelInDryRun, MetricsOfDryRun, TriedSuggestion
from manylabel_service.jobs.training.examples import ExamplesRun
from manylabel_service.online.spec.spec import ModelSpec


class LabelDryRun(ExamplesRun):
    """Dry run of one request, whose params are the fields of a `DryRunSpec`, and the spec of the model."""

    def run(self) -> None:
        """Try the change, and report the result."""
        facts, params, names = self.facts, self.request.params, self.facts["labels"]
        spec = ModelSpec.from_bytes(params["spec"].encode())
        columns = [None if label is None else _column(names, label) for label in (params["label"], params["other"])]
        assert columns[0] is not None
        groups = [Group(group["name"], tuple(group["labels"]), group["choose"]) for group in facts["groups"]["groups"]]
        trial = try_change(
            self.rows,
            self.targets,
            Change(params["kind"], columns[0], columns[1]),
            Labels(names, self.arrays["listed"], groups, facts["groups"]["parents"]),
            lambda n_labels: self.grown(spec.learner().pipeline, n_labels),
            self.progress,
        )
        result = DryRunResult(
            suggestion=TriedSuggestion(kind=params["kind"], label=params["label"], other=params["other"]),
            position=facts["position"],
            examples=len(facts["places"]),
            changes=trial.changed,
            conflicts=list(_conflicts(trial)),
            before=_metrics(trial.before),
            after=_metrics(trial.after),
        )
        self.report("result", result.model_dump())


def _column(names: list[str], label: str) -> int:
    if label not in names:
        raise ValueError(f"the label {label!r} was renamed; begin again")
    return names.index(label)


def _conflicts(trial: Trial) -> list[str]:
    texts = []
    if trial.opposed:
        texts.append(f"examples that state one of the labels as true and the other as false: {trial.opposed:,}")
    if trial.contradicting:
        texts.append(f"examples that would contradict the groups and parents: {trial.contradicting:,}")
    return texts


def _metrics(found: TrialMetrics) -> MetricsOfDryRun:
    labels = {name: LabelInDryRun(**each._asdict()) for name, each in found.labels.items()}
    return MetricsOfDryRun(
        micro_f1=found.micro_f1, macro_f1=found.macro_f1, labels=labels, either_name=found.either_name
    )
