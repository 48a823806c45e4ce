"""The command as a whole: its subcommands, its version and completion, and the exit status of errors."""

import sys
from typing import NoReturn

import click

from manylabel_clients.command.completion import install_completion, show_completion
from manylabel_clients.command.data.consume import consume
from manylabel_clients.command.data.datasets import datasets
from manylabel_clients.command.data.feed import feed
from manylabel_clients.command.declaring import Commands
from manylabel_clients.command.failures import REFUSED, UNREACHABLE, Failure
from manylabel_clients.command.models.compare import compare
from manylabel_clients.command.models.doubts import doubts
from manylabel_clients.command.models.evaluate import evaluate
from manylabel_clients.command.models.export_model import export_model
from manylabel_clients.command.models.forgetting import forget, verify
from manylabel_clients.command.models.health import health, undo
from manylabel_clients.command.models.models import models
from manylabel_clients.command.models.predict import predict
from manylabel_clients.command.models.replay import replay
from manylabel_clients.command.models.snapshots import log, rollback, snapshots
from manylabel_clients.command.models.teach import teach
from manylabel_clients.command.models.update import label, update
from manylabel_clients.command.server.demo import demo
from manylabel_clients.command.server.keys import keys
from manylabel_clients.command.server.mcp import mcp
from manylabel_clients.command.server.paperless import paperless
from manylabel_clients.command.server.program import backup, move_blobs, restore, serve, upgrade_store, worker
from manylabel_clients.command.server.replicas import replicas
from manylabel_clients.command.server.webhooks import webhooks
from manylabel_clients.command.training.jobs import jobs
from manylabel_clients.command.training.train import train
from manylabel_clients.http.errors import ConnectionFailed, ManyLabelError, Unauthorized, Unavailable
from manylabel_extras import MissingExtra

NAME = "manylabel"

app = Commands(
    NAME,
    help="Multi-label models that learn from a stream, served over HTTP.",
    epilog="Exit status: 0 success, 1 rejected or failed, 2 wrong usage, 3 server unreachable or not ready.",
    params=[show_completion, install_completion],
    context_settings={"help_option_names": ["-h", "--help"]},
)
click.version_option(package_name=NAME, prog_name=NAME, message="%(prog)s %(version)s")(app)
app.add(serve, worker, replicas, backup, restore, move_blobs, upgrade_store, demo)
app.add(models, snapshots, rollback, log, doubts, health, undo, forget, verify, predict, update, label, export_model)
app.add(feed, consume, teach, evaluate, compare, replay, train, datasets, jobs, keys, webhooks, mcp, paperless)


def main() -> NoReturn:
    """Run the command and exit with its status; an expected error is printed as one line, without a traceback."""
    try:
        app(prog_name=NAME)
    except MissingExtra as error:
        _leave(str(MissingExtra(f"`{_called()}`", error.extra)), REFUSED)
    except (ManyLabelError, Failure, OSError) as error:
        hints = ["give --api-key-file, or MANYLABEL_API_KEY"] if isinstance(error, Unauthorized) else []
        message = "; ".join([str(error), *getattr(error, "__notes__", []), *hints])
        _leave(message, UNREACHABLE if isinstance(error, ConnectionFailed | Unavailable) else REFUSED)
    sys.exit(0)


def _leave(message: str, status: int) -> NoReturn:
    sys.stderr.write(f"{NAME}: {message}\n")
    sys.exit(status)


def _called() -> str:
    """Return the names of the groups and of the command that was called, without arguments."""
    found: click.Command | None = app
    words = [NAME]
    for word in sys.argv[1:]:
        found = found.commands.get(word) if isinstance(found, click.Group) else None
        if found is None:
            break
        words.append(word)
    return " ".join(words)
