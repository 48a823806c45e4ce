"""Output of jobs and trainers."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from manylabel_clients.command.output.measures import measure_rows
from manylabel_clients.command.output.progress import fold_text
from manylabel_clients.command.output.tables import listing, print_facts, print_table, print_text
from manylabel_clients.command.output.text import short_time
from manylabel_clients.http.resources.jobs import JobStatus
from manylabel_clients.http.responses import JobResult, LogLine, Trainer

print_jobs = listing(
    {
        "job": "id",
        "state": "state",
        "trainer": "trainer",
        "model": "model",
        "data": lambda job: data_text(job.data),
        "created": lambda job: short_time(job.created),
    },
    words=6,
    empty="no jobs; manylabel jobs submit submits one",
)


def print_job(job: JobStatus) -> None:
    """Print the details of one job."""
    facts = {
        "job": job.id,
        "state": job.state if job.error is None else f"{job.state}: {job.error.detail} ({job.error.code})",
        "trainer": f"{job.trainer} ({_params(job.params)})",
        "data": data_text(job.data),
        "sampled": job.sampled["text"] if job.sampled else "",
        "model": job.model,
        "created": job.created,
        "started": job.started,
        "ended": job.ended,
        "attempt": job.attempt,
    }
    if job.progress is not None and not job.has_ended:
        gap = "" if job.progress.gap is None else f", gap {job.progress.gap:.2g}"
        where = fold_text(job.progress.fold, job.progress.folds)
        facts["progress"] = f"{where}iteration {job.progress.iteration:,}{gap}, {job.progress.seconds:.0f} s"
    print_facts(facts)
    if isinstance(job.result, JobResult):
        print_result(job.result)


def print_result(result: JobResult) -> None:
    """Print the result of a job."""
    print_text(f"version {result.version} of {result.model}, from {result.rows:,} rows in {result.seconds:.1f} s")
    if result.not_promoted_because is not None:
        print_text(
            f"it is not served: {result.not_promoted_because}; manylabel models promote {result.model} {result.version}"
        )
    if result.worse is not None:
        print_text(f"it is served, although {result.worse}")
    if result.trials:
        print_text(f"best of {len(result.trials)} trials: {_params(_varied(result))}")
    if result.held_out is not None:
        columns = ("held out", f"{result.held_out['rows']:,} rows", "baseline")
        print_table(columns, measure_rows(result.held_out["measures"], result.held_out["baseline"]))


def print_log(lines: Sequence[LogLine]) -> None:
    """Print the log of a job."""
    for line in lines:
        click.echo(f"{line.time}  {line.text}")


def print_trainers(trainers: Sequence[Trainer]) -> None:
    """Print each trainer with its parameters."""
    for one in trainers:
        print_text(f"{one.name}: {one.title}")
        print_text(f"learns from {one.needs}", "  ")
        rows = [
            (name, _type(schema), _plain(schema.get("default"))) for name, schema in one.params["properties"].items()
        ]
        print_table(("parameter", "allowed", "default"), rows, words=3)
        further = f"; with the kernel rbf also {_space(one.rbf_search)}" if one.rbf_search else ""
        print_text(f"--search default tries {_space(one.search)}{further}", "  ")


def _varied(result: JobResult) -> dict[str, Any]:
    """Return the parameters that a search selected."""
    return {name: result.params[name] for name in result.trials[0]["params"]}


def _space(values: Mapping[str, Sequence[Any]]) -> str:
    return "; ".join(f"{name}: {', '.join(map(_plain, each))}" for name, each in values.items())


def _params(params: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_plain(value)}" for name, value in params.items())


def _plain(value: Any) -> str:
    return "none" if value is None else str(value)


def data_text(data: dict[str, Any]) -> str:
    """Return a description of the training data of a job or a version."""
    if "stream" in data:
        return f"the last {data['last']:,} examples of {data['stream']}"
    return f"{data['dataset']} ({data['split']})" if data.get("split") else str(data["dataset"])


def _type(schema: dict[str, Any]) -> str:
    """Return a short description of a JSON schema."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return ", ".join(map(str, schema.get("enum", [schema.get("const")])))
    bounds = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}
    limits = " and ".join(f"{sign} {schema[name]:g}" for name, sign in bounds.items() if name in schema)
    return f"{schema.get('type', 'anything')} {limits}".strip()
