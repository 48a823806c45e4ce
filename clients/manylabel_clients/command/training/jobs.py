"""`manylabel jobs`: submit, list, show, watch, cancel, retry."""

import contextlib
from typing import Annotated, Any, cast, get_args

import click

from manylabel_clients.command.declaring import Argument, Option, group
from manylabel_clients.command.failures import REFUSED
from manylabel_clients.command.options import AsJson, Holdout, Params, Seed, named_values, remote
from manylabel_clients.command.output.jobs import print_job, print_jobs, print_log, print_result, print_trainers
from manylabel_clients.command.output.progress import FitBar
from manylabel_clients.command.output.text import print_json
from manylabel_clients.http.client import Client
from manylabel_clients.http.errors import Conflict
from manylabel_clients.http.resources.jobs import Job, JobEvent, JobStatus, Promote
from manylabel_clients.http.responses import JobResult, LogLine, Trainer

DEFAULT_SEARCH = "default"
"""Value of the option that searches the values that the trainer suggests."""

JobId = Annotated[str, Argument(metavar="JOB", help="Id of the job.")]


@remote(print_jobs)
def list_jobs(
    client: Client,
    state: Annotated[str | None, Option(help="State: queued, running, succeeded, failed or cancelled.")] = None,
) -> list[JobStatus]:
    """List the training jobs of a server, newest first; submit, show, watch, cancel or retry one."""
    return client.jobs(state=state)


@remote()
def submit(
    client: Client,
    model: Annotated[str, Option(metavar="NAME", help="Model that gets the next version.")],
    trainer: Annotated[str, Option(help="Trainer; manylabel jobs trainers lists them.")] = "m3l",
    dataset: Annotated[str | None, Option(metavar="NAME", help="Dataset to learn from.")] = None,
    split: Annotated[
        str | None, Option(help="Split: train, test or all. Default: train if it has train and test, else all.")
    ] = None,
    stream: Annotated[
        str | None, Option(metavar="MODEL", help="Train on the examples of this online model instead of a dataset.")
    ] = None,
    last: Annotated[int, Option(min=1, help="With --stream: number of most recent examples.")] = 10_000,
    minimum: Annotated[
        int | None,
        Option(
            min=1,
            help="With --stream: fail with fewer examples than this. Default: --last, or the number of learnt "
            "examples if lower.",
        ),
    ] = None,
    param: Params = None,
    holdout: Holdout = None,
    search: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=VALUES",
            help="Search for the best value of a parameter first, by cross-validation: C=[0.1,1,10], or with --trials "
            'a range, C={"low": 0.001, "high": 1000, "log": true}. Repeatable. Or: default, the values that manylabel '
            "jobs trainers lists.",
        ),
    ] = None,
    trials: Annotated[int | None, Option(min=1, help="Number of random combinations to search. Default: all.")] = None,
    folds: Annotated[int, Option(min=2, help="Number of cross-validation folds.")] = 5,
    metric: Annotated[str, Option(help="Metric that the search maximises, such as micro_f1.")] = "micro_f1",
    seed: Seed = 0,
    promote: Annotated[
        str,
        Option(
            type=click.Choice(get_args(Promote)),
            help="When to serve the result. if_better: if the fit converged, and the version was evaluated, has the "
            "features of the served version, and is not worse on the same held-out rows.",
        ),
    ] = "if_better",
    detach: Annotated[bool, Option("--detach", "-d", help="Do not wait for the job; print its id.")] = False,
    as_json: AsJson = False,
) -> None:
    """Submit a training job and watch it. Ctrl-C asks whether to cancel it.

    Example: `manylabel jobs submit --dataset songs --trainer mlrl --param lam=0.001 --holdout 0.2 --model songs`
    """
    if (dataset is None) == (stream is None):
        raise click.BadParameter("give either --dataset or --stream", param_hint="--dataset")
    if stream is None and minimum is not None:
        raise click.BadParameter("only with --stream", param_hint="--minimum")
    data = {"dataset": dataset, "split": split} if dataset else {"stream": stream, "last": last, "minimum": minimum}
    searched = search_of(search, trials, folds, metric)
    job = client.train(
        trainer,
        {name: value for name, value in data.items() if value is not None},
        model,
        params=named_values(param),
        holdout=holdout,
        search=searched,
        seed=seed,
        promote=cast("Promote", promote),
    )
    if detach:
        click.echo(job.id)
    else:
        follow(job, as_json)


@remote(print_job)
def show(client: Client, job: JobId) -> JobStatus:
    """Show the progress and the result of a job."""
    return client.job(job).status()


@remote()
def watch(client: Client, job: JobId, as_json: AsJson = False) -> None:
    """Watch a job until it ends. Ctrl-C asks whether to cancel it."""
    follow(client.job(job), as_json)


@remote(print_log)
def log(client: Client, job: JobId) -> list[LogLine]:
    """Print the log of a job."""
    return client.job(job).log()


@remote()
def cancel(client: Client, job: JobId) -> None:
    """Cancel a job, which stops within two seconds without a result."""
    client.job(job).cancel()
    click.echo(f"cancelled {job}")


@remote()
def retry(
    client: Client,
    job: JobId,
    detach: Annotated[bool, Option("--detach", "-d", help="Do not wait for the job.")] = False,
    as_json: AsJson = False,
) -> None:
    """Queue a failed or cancelled job again; it resumes from its last checkpoint."""
    handle = client.job(job)
    handle.retry()
    if detach:
        click.echo(f"queued {job}")
    else:
        follow(handle, as_json)


@remote(print_trainers)
def trainers(client: Client) -> list[Trainer]:
    """List the trainers of the server, with their parameters."""
    return client.trainers()


def search_of(pairs: list[str] | None, trials: int | None, folds: int, metric: str) -> dict[str, Any] | None:
    """Return the search of the options; None without one."""
    if not pairs:
        return None
    kind: dict[str, Any] = {"kind": "grid"} if trials is None else {"kind": "random", "trials": trials}
    space = {} if pairs == [DEFAULT_SEARCH] else {"params": named_values(pairs, "--search")}
    return {**kind, **space, "folds": folds, "measure": metric}


def follow(job: Job, as_json: bool) -> None:
    """Watch a job until it has ended, then print its result; Ctrl-C asks whether to cancel it.

    Raises
    ------
    click.Exit
        If it ends without a result, or the user stops watching.
    """
    try:
        if as_json:
            for event in job.events():
                print_json({"event": event.kind, **event.data})
        else:
            _show(job)
    except KeyboardInterrupt:
        _ask(job)
        raise click.exceptions.Exit(130) from None
    status = job.status()
    if status.state != "succeeded":
        why = f"failed: {status.error.detail} ({status.error.code})" if status.error else f"was {status.state}"
        click.echo(f"job {job.id} {why}", err=True)
        raise click.exceptions.Exit(REFUSED)
    if isinstance(status.result, JobResult) and not as_json:
        print_result(status.result)


def _show(job: Job) -> None:
    status = job.status()
    with FitBar(True, float(status.params.get("tol", 0.0))) as bar:
        bar.print(f"job {job.id}: {status.trainer} for {status.model}")
        for event in job.events():
            _show_event(bar, event)


def _show_event(bar: FitBar, event: JobEvent) -> None:
    data = event.data
    if event.kind == "log":
        bar.print(data["text"])
    elif event.kind == "progress":
        bar.update_fold(data["fold"], data["folds"])
        bar.update(data["iteration"], data["gap"], data["seconds"])
        if data["trials"]:
            best = data["best"] and data["best"]["score"]
            bar.update_trials(data["trials"]["done"], data["trials"]["total"], best)


def _ask(job: Job) -> None:
    """Ask whether to cancel the job; without an answer the job continues."""
    click.echo("", err=True)
    try:
        shall_end = click.confirm(f"Cancel job {job.id}? (If not, it keeps running.)", default=False, err=True)
    except click.Abort:
        shall_end = False
    if not shall_end:
        click.echo(f"the job keeps running; watch it with: manylabel jobs watch {job.id}", err=True)
        return
    with contextlib.suppress(Conflict):  # the job has ended in the meantime
        job.cancel()
    click.echo(f"job {job.id} is {job.status().state}", err=True)


jobs = group("jobs", list_jobs, submit, show, watch, log, cancel, retry, trainers)
