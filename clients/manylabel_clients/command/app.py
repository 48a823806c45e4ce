"""The command as a whole: its subcommands, and the exit status of errors."""

import sys
from typing import NoReturn

import typer

from manylabel_clients.command.data import datasets, feed
from manylabel_clients.command.failures import REFUSED, UNREACHABLE, Failure
from manylabel_clients.command.models import evaluate, models, predict, snapshots, update
from manylabel_clients.command.server import audit, demo, keys, replicas, serve, transfer, worker
from manylabel_clients.command.training import jobs, train
from manylabel_clients.http.errors import ConnectionFailed, ManyLabelError, Unauthorized, Unavailable

app = typer.Typer(
    name="manylabel",
    help="Multi-label models that learn from a stream, served over HTTP.",
    epilog="Exit status: 0 done, 1 refused or failed, 2 wrong usage, 3 no server there or not ready.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # reflows the paragraphs of the help
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    serve,
    worker,
    replicas,
    transfer,
    demo,
    models,
    snapshots,
    predict,
    update,
    feed,
    evaluate,
    train,
    datasets,
    jobs,
    audit,
    keys,
):
    module.register(app)


def main() -> NoReturn:
    """Run the command and leave with its exit status; an expected error is one line, without a traceback."""
    try:
        app()
    except (ManyLabelError, Failure, OSError) as error:
        hints = ["give --api-key-file, or MANYLABEL_API_KEY"] if isinstance(error, Unauthorized) else []
        message = "; ".join([str(error), *getattr(error, "__notes__", []), *hints])
        sys.stderr.write(f"manylabel: {message}\n")
        sys.exit(UNREACHABLE if isinstance(error, ConnectionFailed | Unavailable) else REFUSED)
    sys.exit(0)
