"""`manylabel paperless`: a sidecar of paperless-ngx."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import click

from manylabel_clients.command.declaring import Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.options import address, read_key, remote
from manylabel_clients.command.output.terminal import printable
from manylabel_clients.command.teachers import DEFAULTS, TEACHER_HELP, TeacherFields, TeacherOptions, open_teacher
from manylabel_clients.http.client import Client
from manylabel_clients.http.errors import ConnectionFailed, ManyLabelError, Unavailable
from manylabel_clients.http.resources.models import Model
from manylabel_clients.integrations.paperless.alike import ADVICE, alike_lines
from manylabel_clients.integrations.paperless.archive import Archive, PaperlessError
from manylabel_clients.integrations.paperless.listener import listening
from manylabel_clients.integrations.paperless.sidecar import NoParity, Sidecar, Teacher, Teaching
from manylabel_clients.integrations.teacher.endpoint import Label

TOKEN_VARIABLE = "PAPERLESS_TOKEN"
MIN_SECONDS = 1.0
"""Minimum seconds between two polls of paperless, regardless of webhooks."""


@remote()
def paperless(
    client: Client,
    paperless_url: Annotated[
        str, Option("--paperless", envvar="PAPERLESS_URL", metavar="URL", help="Address of paperless-ngx.")
    ],
    model: Annotated[str, Option(help="Name of the model, which is created if it does not exist.")] = "paperless",
    token_file: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="File with the token of a user of paperless. Default: the variable PAPERLESS_TOKEN."
        ),
    ] = None,
    sure: Annotated[
        float,
        Option(min=0, max=1, help="Probability from which a label is applied, if the model promises no precision."),
    ] = 0.8,
    state: Annotated[
        Path, Option(dir_okay=False, metavar="FILE", help="File with the progress of the sidecar.")
    ] = Path("manylabel-paperless.json"),
    every: Annotated[float, Option(min=1, metavar="SECONDS", help="Poll interval of paperless in seconds.")] = 60.0,
    listen: Annotated[
        str | None, Option(metavar="HOST:PORT", help="Address for webhooks of paperless; each triggers a poll.")
    ] = None,
    once: Annotated[bool, Option(help="Poll once, then exit.")] = False,
    teacher: Annotated[
        str | None,
        Option(
            metavar="COMMAND|URL",
            help=f"Teacher that labels the documents of which the model is not sure. {TEACHER_HELP}",
        ),
    ] = None,
    asking: TeacherOptions = DEFAULTS,
    parity: Annotated[
        float, Option(min=0.01, max=0.999, help="Agreement with the teacher that a new model promises.")
    ] = 0.95,
    dry_run: Annotated[bool, Option(help="Learn, and print what would be assigned, but change nothing.")] = False,
    alike: Annotated[
        bool, Option(help="Print the tags, correspondents and types that look alike, and exit; nothing is changed.")
    ] = False,
) -> None:
    """Learn from the documents of paperless-ngx, and assign sure labels to new ones.

    Example: `PAPERLESS_TOKEN=... manylabel paperless --paperless http://localhost:8010 --api-key-file paperless.key`
    """
    if not paperless_url.startswith(("http://", "https://")):
        raise click.BadParameter("must start with http:// or https://", param_hint="--paperless")
    token = os.environ.get(TOKEN_VARIABLE) if token_file is None else read_key(token_file).text
    if not token:
        raise Failure(f"a token of paperless is needed: give --token-file, or {TOKEN_VARIABLE}")
    wake = threading.Event()
    with ExitStack() as stack:
        archive = Archive(paperless_url, token)
        stack.callback(archive.close)
        if alike:
            return _print_alike(archive, client.model(model))
        try:
            teaching = None if teacher is None else Teaching(_teacher_for(stack, teacher, asking), parity)
            sidecar = Sidecar(archive, client, model, state, sure, dry_run, _told, teaching)
        except PaperlessError as error:
            raise Failure(str(error)) from error
        if listen is not None:
            host, port = address(listen, "--listen", "127.0.0.1:8011", least=0)
            stack.enter_context(listening(host, port, wake))
        while True:
            wake.clear()
            try:
                sidecar.sync()
            except PaperlessError as error:
                if once:
                    raise Failure(str(error)) from error
                click.echo(printable(f"paperless: {error}; trying again"), err=True)
            except ManyLabelError as error:
                if once or not isinstance(error, ConnectionFailed | Unavailable):
                    raise
                click.echo(f"{error}; trying again", err=True)
            except NoParity as error:
                raise Failure(f"{error}; run manylabel models set-promise {model} --parity {parity}") from error
            if once:
                return None
            time.sleep(MIN_SECONDS)
            wake.wait(every)


def _print_alike(archive: Archive, model: Model) -> None:
    try:
        lines = list(alike_lines(archive.catalogue(), model))
    except PaperlessError as error:
        raise Failure(str(error)) from error
    for line in lines:
        _told(line)
    click.echo(ADVICE if lines else "nothing looks alike")


def _teacher_for(stack: ExitStack, teacher: str, options: TeacherFields) -> Callable[[Mapping[str, str]], Teacher]:
    """Return a function that opens a teacher for given titles of labels, and closes the previous teacher."""
    current = stack.enter_context(ExitStack())

    def opened(titles: Mapping[str, str]) -> Teacher:
        current.close()
        return open_teacher(current, teacher, options, {label: Label(title) for label, title in titles.items()})

    return opened


def _told(line: str) -> None:
    click.echo(printable(line))
