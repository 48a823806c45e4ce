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
    inputs : by name, the number of columns of each matrix of numbers that an example has a row of; None where an
        example may be of any form: numbers by name or by column, a record, a text.
    labels : those that a prediction has scores for, in their order.
    has_probabilities : whether a prediction may have probabilities.
    records : the encoder of records; None if it takes numbers only.
    version : its number, of a trained model.
    versions : the numbers of all that can be asked, of a trained model.
    views : the names of the views of a trained model; empty if it has none.
    vectors : the fields of records that are vectors; they are inputs too.
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
