"""Watching of a job until its end, with progress bars, or JSON lines for scripts."""

import contextlib
from typing import Any

import click

from manylabel_clients.command.failures import REFUSED
from manylabel_clients.command.output.jobs import print_result
from manylabel_clients.command.output.text import print_json
from manylabel_clients.http.errors import Conflict
from manylabel_clients.http.resources.jobs import Job, JobEvent


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
    if status.result is not None and not as_json:
        print_result(status.result)


def _show(job: Job) -> None:
    from manylabel_clients.command.output.progress import FitBar

    status = job.status()
    with FitBar(True, float(status.params.get("tol", 0.0))) as bar:
        bar.print(f"job {job.id}: {status.trainer} for {status.model}")
        for event in job.events():
            _show_event(bar, event)


def _show_event(bar: Any, event: JobEvent) -> None:
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
