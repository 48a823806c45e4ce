"""Predictions of both kinds of models: of an example, of a batch, and the result of a request."""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from manylabel_core.parity import Deferral
from manylabel_core.promise import Decision
from manylabel_service import ulid
from manylabel_service.hosting.explanations import Explanations


class Prediction(NamedTuple):
    """Labels and scores of one example.

    `scores` has the score minus threshold of every known label; a label with a value above 0 is in `labels`.
    `probabilities` of all known labels, and `explanations` of predicted labels, are present only if requested. If the
    model promises a precision, `auto` has the labels that may be applied unseen, and `review` is whether the example
    needs review. `decision` has the values that are needed to count them later. If the model promises parity, `undrawn`
    is the deferral before the draw of an audit, and a stored prediction has the `deferral` after the draw; `check` says
    whether people should check the answer. `stored` is false for a prediction that is not stored, because it needs no
    labels.
    """

    labels: list[str]
    scores: dict[str, float]
    threshold: float
    probabilities: dict[str, float] | None = None
    explanations: Explanations | None = None
    auto: list[str] | None = None
    review: bool | None = None
    decision: Decision | None = None
    undrawn: Deferral | None = None
    deferral: Deferral | None = None
    check: bool = False
    stored: bool = True

    def drawn(self, id: str, asked: bool = False) -> "Prediction":
        """Return the prediction to store with this id; the id determines whether it is an audit. With `asked`, it is
        stored only if the teacher is asked, or people should check it."""
        if self.undrawn is None:
            return self
        chance = ulid.chance(id)
        deferral = self.undrawn.drawn(chance)
        check = deferral.to_check(chance)
        return self._replace(deferral=deferral, check=check, stored=deferral.ask or check or not asked)

    @property
    def margins(self) -> NDArray[np.float64]:
        """The scores, in the order of the labels."""
        return np.fromiter(self.scores.values(), dtype=np.float64, count=len(self.scores))


class MadePredictions(Sequence[Prediction]):
    """Predictions that are computed at each access, so that only the scores of a long batch are in memory."""

    def __init__(self, makers: Sequence[Callable[[], Prediction]]) -> None:
        self._makers = makers

    def __len__(self) -> int:
        return len(self._makers)

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> "MadePredictions": ...
    def __getitem__(self, index: int | slice) -> "Prediction | MadePredictions":
        return MadePredictions(self._makers[index]) if isinstance(index, slice) else self._makers[index]()


class DrawnPredictions(Sequence[Prediction]):
    """Predictions to store with these ids; see `Prediction.drawn`."""

    def __init__(self, predictions: Sequence[Prediction], ids: Sequence[str], asked: bool = False) -> None:
        self._predictions, self._ids, self._asked = predictions, ids, asked

    def __len__(self) -> int:
        return len(self._predictions)

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> "DrawnPredictions": ...
    def __getitem__(self, index: int | slice) -> "Prediction | DrawnPredictions":
        if isinstance(index, slice):
            return DrawnPredictions(self._predictions[index], self._ids[index], self._asked)
        return self._predictions[index].drawn(self._ids[index], self._asked)


class Predictions(Sequence[Prediction]):
    """Predictions created lazily from raw scores, so that long batches do not block."""

    def __init__(
        self,
        scores: Sequence[NDArray[np.float64]],
        label_names: Sequence[str],
        probabilities: Sequence[NDArray[np.float64]] | None = None,
        hidden: Collection[str] = (),
        decisions: Sequence[NDArray[np.int32]] | None = None,
    ) -> None:
        self._decisions = decisions
        self._scores = scores
        self._hidden = hidden
        self._label_names = label_names
        self._probabilities = probabilities

    def __len__(self) -> int:
        return len(self._scores)

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> "Predictions": ...
    def __getitem__(self, index: int | slice) -> "Prediction | Predictions":
        likely = self._probabilities
        if isinstance(index, slice):
            own = None if likely is None else likely[index]
            decided = None if self._decisions is None else self._decisions[index]
            return Predictions(self._scores[index], self._label_names, own, self._hidden, decided)
        row = None if likely is None else likely[index]
        one = prediction(self._scores[index], self._label_names, row, self._hidden)
        if self._decisions is None:
            return one
        review, *columns = self._decisions[index].tolist()
        auto = [name for column in columns if (name := self._label_names[column]) in one.scores]
        return one._replace(auto=auto, review=bool(review))


def prediction(
    row: NDArray[np.float64],
    label_names: Sequence[str],
    probabilities: NDArray[np.float64] | None = None,
    hidden: Collection[str] = (),
    decision: Decision | None = None,
    undrawn: Deferral | None = None,
) -> Prediction:
    """Return the prediction of raw scores: the threshold, then one for each of the first labels. None for `hidden`."""
    margins = row[1:] - row[0]
    scores = dict(zip(label_names, margins.tolist(), strict=False))
    for name in hidden:
        scores.pop(name, None)
    relevant = [name for column in (margins > 0).nonzero()[0].tolist() if (name := label_names[column]) in scores]
    likely = None if probabilities is None else dict(zip(label_names, probabilities.tolist(), strict=False))
    if likely is not None:
        for name in hidden:
            likely.pop(name, None)
    if decision is None:
        return Prediction(relevant, scores, float(row[0]), likely, undrawn=undrawn)
    auto = [label_names[column] for column in decision.applied]
    return Prediction(relevant, scores, float(row[0]), likely, None, auto, decision.review, decision, undrawn)


class PredictResult(NamedTuple):
    """The result of a request to predict.

    `position` is the position of the state that predicted the last example. While the store is unavailable,
    `stale_seconds` is the time for which updates of other processes may be missing. `version` is the version of a
    trained model.
    """

    predictions: Sequence[Prediction]
    position: str
    stale_seconds: float | None = None
    version: int | None = None
