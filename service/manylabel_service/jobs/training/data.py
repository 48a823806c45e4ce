"""Training rows and evaluation rows from the files of a request."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from manylabel_core.batch.catalogue import TRAINERS
from manylabel_core.datasets import Dataset
from manylabel_core.datasets.aligning import aligned, with_views
from manylabel_core.datasets.dataset import stored
from manylabel_core.splitting import held_out
from manylabel_service.jobs.training.request import FitRequest, Part


class TrainingData(NamedTuple):
    """Training rows and evaluation rows of a fit.

    Attributes
    ----------
    learnt : labelled training rows.
    unlabelled : unlabelled training rows, without weights; may be empty.
    held : labelled evaluation rows, or None.
    """

    learnt: Dataset
    unlabelled: Dataset
    held: Dataset | None


def load(request: FitRequest, directory: Path) -> TrainingData:
    """Read the files of a request and choose the rows. Raises ValueError or manylabel_core.state.DamagedState."""
    files = {part.file for part in (request.rows, request.held, request.unlabelled) if isinstance(part, Part)}
    sets = {file: Dataset.from_bytes((directory / file).read_bytes()) for file in files}
    whole = _chosen(sets, request.rows)
    if request.unlabelled is not None:
        whole = with_views(whole, _chosen(sets, request.unlabelled))
    labelled, others = whole.take(whole.labelled), whole.take(~whole.labelled)
    held = None
    if isinstance(request.held, Part):
        held = aligned(_chosen(sets, request.held), labelled)
        held = held.take(held.labelled)
    elif request.held is not None:
        learnt, kept = held_out(labelled.n_rows, request.held, request.seed)
        labelled, held = labelled.take(learnt), labelled.take(kept)
    if request.unlabelled is not None:
        others = stacked(others, aligned(_chosen(sets, request.unlabelled), labelled, for_labels=False))
    if labelled.n_rows == 0 or labelled.n_labels == 0:
        raise ValueError(
            f"there is nothing to learn: the data have {labelled.n_rows} labelled rows and {labelled.n_labels} labels"
        )
    if labelled.weights is not None and not TRAINERS[request.trainer].weights:
        raise ValueError(f"{request.trainer} accepts no row weights, but the data have weights")
    return TrainingData(labelled, _without_labels(others), held)


def stacked(one: Dataset, other: Dataset) -> Dataset:
    """Return the combined rows of two datasets with the same columns."""
    views = {name: _stacked(view, other.views[name]) for name, view in one.views.items()}
    Y: Any = _stacked(one.Y, other.Y)
    labelled = np.concatenate([one.labelled, other.labelled])
    missing = {name: np.concatenate([_missing(one, name), _missing(other, name)]) for name in views}
    weights = None
    if one.weights is not None or other.weights is not None:
        weights = np.concatenate([_weights(one), _weights(other)])
    others = one.text, weights, one.label_details
    return Dataset(views, Y, one.label_names, dict(one.feature_names), {}, labelled, missing, *others)


def _missing(data: Dataset, view: str) -> Any:
    return data.missing.get(view, np.zeros(data.n_rows, dtype=bool))


def _weights(data: Dataset) -> Any:
    return np.ones(data.n_rows) if data.weights is None else data.weights


def _chosen(sets: Mapping[Any, Dataset], part: Part) -> Dataset:
    return sets[part.file].split(part.split)


def _without_labels(data: Dataset) -> Dataset:
    none: Any = sp.csr_array(data.Y.shape, dtype=np.int8)
    return replace(data, Y=none, labelled=np.zeros(data.n_rows, dtype=bool), weights=None)


def _stacked(one: Any, other: Any) -> Any:
    """Return the rows of both matrices."""
    if sp.issparse(one) or sp.issparse(other):
        rows: Any = [stored(one), stored(other)]
        return sp.csr_array(sp.vstack(rows, format="csr"))
    return np.vstack([one, other])
