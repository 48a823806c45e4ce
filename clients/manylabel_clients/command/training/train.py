"""`manylabel train`: train a model from a labelled file, on this machine and without a server."""

import os
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Annotated, Any

import click

from manylabel_clients.command.data.files import PLAIN, File, RowOptions, TrainingLabels, ZeroBased, read_file
from manylabel_clients.command.data.reports import DryRun, report_of
from manylabel_clients.command.declaring import Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.options import AsJson, Holdout, Params, Seed, named_values
from manylabel_clients.command.output.measures import measure_rows
from manylabel_clients.command.output.reports import note_warnings, print_report
from manylabel_clients.command.output.tables import print_table
from manylabel_clients.command.output.text import alternatives, print_as, print_json
from manylabel_clients.http.responses import TRAINERS

if TYPE_CHECKING:
    from manylabel_core.datasets import Dataset


def train(
    file: File,
    trainer: Annotated[str, Option(help=f"{alternatives(TRAINERS)}.")] = "m3l",
    param: Params = None,
    labels: TrainingLabels = None,
    zero_based: ZeroBased = False,
    table: RowOptions = PLAIN,
    test: Annotated[
        Path | None, Option(exists=True, dir_okay=False, metavar="FILE", help="Labelled file for evaluation.")
    ] = None,
    holdout: Holdout = None,
    out: Annotated[
        Path | None, Option(dir_okay=False, metavar="FILE", help="File for the model, such as model.safetensors.")
    ] = None,
    seed: Seed = 0,
    threads: Annotated[
        int | None,
        Option(
            min=1, max=1024, help="Number of threads; the last digits of a model can depend on it. Default: all cores."
        ),
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Train a model from a labelled file on this machine, without a server.

    It is evaluated on held-out rows (--holdout), on another file (--test), or on the test rows of the file, if it has
    any. Ctrl-C stops the fit and saves the model so far. --dry-run shows what each column is read as, and trains
    nothing.

    Example: `manylabel train songs.arff --labels songs.xml --trainer mlrl --param lam=0.001 --out songs.safetensors`
    """
    if test is not None and holdout is not None:
        raise click.BadParameter("use --test or --holdout, not both", param_hint="--holdout")
    if out is not None:
        _check_writable(out, [file] if test is None else [file, test])
    whole = read_file(file, labels, zero_based, table)
    if dry_run:
        print_as(as_json, report_of(whole), print_report)
        return
    other = None if test is None else read_file(test, labels, zero_based, table.kinds_of(whole))
    note_warnings(() if whole.report is None else whole.report.warnings)
    learnt, measured = _divided(whole, other, holdout, seed)
    threads = threads or os.cpu_count() or 1

    from manylabel_clients.command.training.fitting import baseline_of, fitted, measures_of

    model, stopped = fitted(trainer, named_values(param), learnt, seed=seed, threads=threads, visible=not as_json)
    if out is not None:
        _keep(model.to_bytes(), out)
    measures = None if measured is None else measures_of(model, trainer, measured)
    baseline = None if measured is None else baseline_of(learnt, measured)
    _print(learnt, measures, baseline, measured, out, as_json)
    if stopped:
        click.echo("stopped early", err=True)
        raise click.exceptions.Exit(130)


def _divided(
    whole: "Dataset", other: "Dataset | None", holdout: float | None, seed: int
) -> "tuple[Dataset, Dataset | None]":
    """Return the training rows and the evaluation rows."""
    if other is not None:
        from manylabel_core.datasets.aligning import aligned

        try:
            return whole, _labelled(aligned(other, whole))
        except ValueError as error:
            raise Failure(f"the file of --test does not match: {error}") from error
    if holdout is not None:
        return _held_out(whole, holdout, seed)
    if {"train", "test"} <= whole.splits.keys():
        return whole.split("train"), _labelled(whole.split("test"))
    return whole, None


def _held_out(whole: "Dataset", share: float, seed: int) -> "tuple[Dataset, Dataset]":
    """Hold out a share of the labelled rows; the other rows, including unlabelled ones, are training rows."""
    import numpy as np

    from manylabel_core.splitting import held_out

    labelled = np.flatnonzero(whole.labelled)
    try:
        _, held = held_out(len(labelled), share, seed)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--holdout") from error
    return whole.take(np.setdiff1d(np.arange(whole.n_rows), labelled[held])), whole.take(labelled[held])


def _labelled(dataset: "Dataset") -> "Dataset":
    if not dataset.labelled.any():
        raise Failure("none of the evaluation rows has labels")
    return dataset.take(dataset.labelled)


def _check_writable(out: Path, files: list[Path]) -> None:
    """Reject, before training, a path to which the model cannot be written."""
    if any(out.exists() and out.samefile(file) for file in files):
        raise click.BadParameter(f"{out} is an input file: choose another file for the model", param_hint="--out")
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise click.BadParameter(f"the command cannot write a file to {out.parent}", param_hint="--out")


def _keep(data: bytes, path: Path) -> None:
    """Replace the file atomically; only its owner can read the new file."""
    descriptor, draft = mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _print(
    learnt: "Dataset",
    measures: dict[str, Any] | None,
    baseline: dict[str, Any] | None,
    measured: "Dataset | None",
    out: Path | None,
    as_json: bool,
) -> None:
    if as_json:
        found = {"measures": measures, "baseline": baseline}
        print_json({"rows": learnt.n_rows, "labels": learnt.n_labels, **found, "out": out and str(out)})
        return
    click.echo(f"{learnt.n_rows:,} rows learnt, {learnt.n_features:,} features, {learnt.n_labels:,} labels")
    if measures is not None and baseline is not None and measured is not None:
        print_table(("metric", f"{measured.n_rows:,} held-out rows", "baseline"), measure_rows(measures, baseline))
    click.echo(f"saved to {out}" if out is not None else "model not saved; use --out FILE")
