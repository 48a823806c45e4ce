"""`manylabel jobs`: submit, list, show, watch, cancel, retry."""

from typing import Annotated, cast, get_args

import click

from manylabel_clients.command.declaring import Argument, Commands, Option, group
from manylabel_clients.command.options import (
    REMOTE,
    AsJson,
    connect,
    named_values,
    refuse_options_of,
)
from manylabel_clients.command.output.jobs import print_job, print_jobs, print_trainers
from manylabel_clients.command.output.text import print_as
from manylabel_clients.command.training.options import Holdout, Params, Seed, search_of
from manylabel_clients.command.training.watch import follow
from manylabel_clients.http.resources.jobs import Promote

JobId = Annotated[str, Argument(metavar="JOB", help="Id of the job.")]


def register(app: Commands) -> None:
    """Add the commands."""
    jobs = group(list_jobs, "jobs", REMOTE)
    for command in (submit, show, watch, log, cancel, retry, trainers):
        jobs.add(command)
    app.add_command(jobs)


def list_jobs(
    context: click.Context,
    state: Annotated[str | None, Option(help="State: queued, running, succeeded, failed or cancelled.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the training jobs of a server, newest first; submit, show, watch, cancel or retry one."""
    if context.invoked_subcommand is not None:
        return refuse_options_of(context, context.invoked_subcommand)
    with connect() as client:
        found = client.jobs(state=state)
    return print_as(as_json, found, print_jobs)


def submit(
    model: Annotated[str, Option(metavar="NAME", help="Model that gets the next version.")],
    trainer: Annotated[str, Option(help="Trainer; manylabel jobs trainers lists them.")] = "m3l",
    dataset: Annotated[str | None, Option(metavar="NAME", help="Dataset to learn from.")] = None,
    split: Annotated[
        str | None, Option(help="Split: train, test or all. Default: train if it has train and test, else all.")
    ] = None,
    stream: Annotated[
        str | None,
        Option(metavar="MODEL", help="Online model whose examples to learn from, instead of a dataset."),
    ] = None,
    last: Annotated[int, Option(min=1, help="With --stream: number of most recent examples.")] = 10_000,
    minimum: Annotated[
        int | None,
        Option(
            min=1,
            help="With --stream: fail with fewer examples than this. Default: --last, or what the model has learnt if "
            "that is less.",
        ),
    ] = None,
    param: Params = None,
    holdout: Holdout = None,
    search: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=VALUES",
            help="Search the best value of a parameter first, by cross-validation: C=[0.1,1,10], or with --trials a "
            'range, C={"low": 0.001, "high": 1000, "log": true}. Repeatable. Or: default, the values that manylabel '
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
            help="When the result is served. if_better: if its fit converged, it was measured, it takes the same "
            "features as the version served, and it is not worse than that on the same held-out rows.",
        ),
    ] = "if_better",
    detach: Annotated[bool, Option("--detach", "-d", help="Do not wait for the job; print its id.")] = False,
    as_json: AsJson = False,
) -> None:
    """Submit a training job and watch it. Ctrl-C asks whether to cancel it.

    Example: `manylabel jobs submit --dataset songs --trainer mlrl --param lam=0.001 --holdout 0.2 --model songs`
    """
    if (dataset is None) == (stream is None):
        raise click.BadParameter("either --dataset or --stream", param_hint="--dataset")
    if stream is None and minimum is not None:
        raise click.BadParameter("only with --stream", param_hint="--minimum")
    data = {"dataset": dataset, "split": split} if dataset else {"stream": stream, "last": last, "minimum": minimum}
    searched = search_of(search, trials, folds, metric)
    with connect() as client:
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


def show(job: JobId, as_json: AsJson = False) -> None:
    """Show the progress and the result of a job."""
    with connect() as client:
        status = client.job(job).status()
    print_as(as_json, status, print_job)


def watch(job: JobId, as_json: AsJson = False) -> None:
    """Watch a job until it ends. Ctrl-C asks whether to cancel it."""
    with connect() as client:
        follow(client.job(job), as_json)


def log(job: JobId, as_json: AsJson = False) -> None:
    """Print the log of a job."""
    with connect() as client:
        lines = client.job(job).log()
    for line in lines:
        print_as(as_json, line, lambda line: click.echo(f"{line.time}  {line.text}"))


def cancel(job: JobId) -> None:
    """Cancel a job, which stops within two seconds without a result."""
    with connect() as client:
        client.job(job).cancel()
    click.echo(f"cancelled {job}")


def retry(
    job: JobId,
    detach: Annotated[bool, Option("--detach", "-d", help="Do not wait for the job.")] = False,
    as_json: AsJson = False,
) -> None:
    """Queue a failed or cancelled job again; it resumes from its last checkpoint."""
    with connect() as client:
        handle = client.job(job)
        handle.retry()
        if detach:
            click.echo(f"queued {job}")
        else:
            follow(handle, as_json)


def trainers(as_json: AsJson = False) -> None:
    """List the trainers of the server, with their parameters."""
    with connect() as client:
        found = client.trainers()
    print_as(as_json, found, print_trainers)
