"""Signatures of models: the inputs that a model currently accepts, and its outputs."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from manylabel_core.records import RecordEncoder

EXAMPLE = "x"
"""Name of the input of a model without views."""


class Signature(NamedTuple):
    """Names of the inputs and labels of a model or of a version.

    Attributes
    ----------
    kind : learner or trainer.
    inputs : number of columns of each input by name; None for an input of any kind: numbers by name or by column, a
        record, or a text.
    labels : labels of a prediction, in the order of its scores.
    has_probabilities : whether a prediction may have probabilities.
    records : encoder of records; None if the model accepts only numbers.
    version : number of the version of a trained model.
    versions : numbers of all versions of a trained model.
    views : names of the views of a trained model; empty without views.
    vectors : fields of records that are vectors; they are inputs too.
    """

    kind: str
    inputs: Mapping[str, int | None]
    labels: Sequence[str]
    has_probabilities: bool
    records: RecordEncoder | None
    version: int | None = None
    versions: Sequence[int] = ()
    views: Collection[str] = ()
    vectors: Collection[str] = ()
