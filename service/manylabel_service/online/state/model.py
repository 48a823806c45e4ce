"""State of a model: a pure function of its spec and its log.

This code does not wait, does no I/O, reads no clock and does not depend on server settings, so two processes that apply
the same entries have identical bits.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core import Prequential, Vocabulary
from manylabel_core.alike import AlikeNames
from manylabel_core.label_structure import Contradiction, Group
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.parity import Deferral, ParityTarget
from manylabel_core.promise import Decision, Target
from manylabel_core.records import TextSettings
from manylabel_core.rows import VECTOR_COLUMNS, Rows
from manylabel_core.state import DamagedState, NewerState, State
from manylabel_service.errors import ExampleNotFound, InvalidField, LabelExists, LabelNotFound, LabelsDeclared
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.hosting.explanations import Explainer, Explanations
from manylabel_service.hosting.kernels import GATE
from manylabel_service.hosting.predictions import Prediction, prediction
from manylabel_service.hosting.selection import Learning
from manylabel_service.online.spec.limits import UNLIMITED, check_labels, most_of, take_labels
from manylabel_service.online.spec.spec import MAX_NAME_BYTES, ModelSpec
from manylabel_service.online.spec.tiers import tiers_of_arrays, tiers_of_spec
from manylabel_service.online.spec.trained import TRAINED, TrainedSpec
from manylabel_service.online.state.corrections import Corrections, Corrects, Place, undone
from manylabel_service.online.state.dismissals import Dismissals
from manylabel_service.online.state.feature_space import Columns, FeatureSpace
from manylabel_service.online.state.groups import Groups, check_written, places
from manylabel_service.online.state.idempotency_window import IdempotencyWindow
from manylabel_service.online.state.integrity import check_names, check_position, check_rollbacks
from manylabel_service.online.state.label_details import DetailsOfLabels, Edit
from manylabel_service.online.state.label_table import LabelFacts, drift_to_json, learning, measured
from manylabel_service.online.state.labelled_ids import LabelledIds
from manylabel_service.online.state.old_names import OldNames
from manylabel_service.online.state.partial_truths import PartialLabels
from manylabel_service.online.state.promises import Promises, check_parity, check_target
from manylabel_service.online.state.served_metrics import NothingLearnt, ServedMetrics
from manylabel_service.online.state.source_metrics import SourceMetrics
from manylabel_service.online.state.stream_offsets import StreamOffsets
from manylabel_service.online.state.title_words import TitleWords
from manylabel_service.online.state.uncertainty import counting, uncertainty
from manylabel_service.online.state.unseen_words import UnseenWords
from manylabel_service.release import FORMAT
from manylabel_service.storage import SEED, START, position_key

_FORMAT = 1
"""Number of the state format."""

MAX_ROLLBACKS = 1_000
"""Maximum number of rollbacks remembered per model; the oldest are dropped."""

MAX_HEADER_BYTES = 2**18
"""Maximum bytes of JSON in a state: a spec without names, arrays, and rollbacks. Parsing holds the interpreter lock."""

MAX_ALIKE = 100
"""Maximum number of groups of alike labels listed, and of labels listed in a group."""

MAX_UPDATES = 2**53
"""Upper bound of the number of examples of a stream."""
_EXAMPLES = ("scaling.count", "drift.seen")
"""Names of state arrays of a learner whose first element is the number of learnt examples."""
_LABELS = "calibration.existing"
"""Name of the array with the number of labels."""


class Truth(NamedTuple):
    """True labels of an example by column, see `Targets`."""

    columns: list[int]
    signs: NDArray[np.int8]
    complete: bool


class OnlineModel:
    """Learner with the names of its features and labels, its metrics, and the state of its requests.

    A rollback restores the learner, the metrics, `updates` and the count of ignored features. Names and columns stay,
    unless the rollback returns to a state before the first feature. The state of requests (`keys`, `labelled`,
    `streams`, `rollbacks`) also stays, because a request is applied only once, even if its effect is undone later. Only
    the metrics of partial labels are rolled back.

    A change that raises an error has changed nothing. Raises NotCompiled.

    Attributes
    ----------
    position : position of the last applied entry.
    updates : number of examples learnt.
    scaled_before : number of examples from which the initial scaling of a model initialised from a version was
        computed.
    limits : limits of features and labels.
    words : share of unseen words in texts.
    keys : idempotency keys seen, with the responses.
    labelled : stored predictions for which all or some labels have arrived.
    answers : metrics of a trained model by version; None for an online model. A trained model learns nothing here.
    streams : last learnt line of each stream.
    retired : labels that are no longer learnt or predicted; they keep their columns.
    paused : labels that are not learnt or predicted until they are resumed.
    renamed : columns of labels that were renamed.
    details : titles, descriptions and URIs of labels.
    titles : words of titles and descriptions as evidence for the learner; None if they are not used.
    groups : groups and parents of labels; they are not rolled back, like names.
    promises : promises of precision and parity, if any; a rollback also restores the state that was learnt for them.
    sources : metrics of labels that are not from people.
    corrections : corrected examples, and labels that were confirmed.
    dismissals : suggestions for labels that a person has dismissed; they are not rolled back, like names.
    old_names : names of labels before they were renamed or merged.
    alike : names of labels by their common form; not part of the state.
    relabels : number of times that this process renamed, merged or retired a label, or changed groups.
    rollbacks : position of each rollback and of its target, in log order. A replay from before a rollback needs the
        target.
    """

    def __init__(self, spec: ModelSpec | TrainedSpec, *, grow: bool = True) -> None:
        GATE.require(tiers_of_spec(spec))
        self.spec = spec
        self.limits = spec.limits or UNLIMITED
        self.features = FeatureSpace(spec.features, self.limits.features)
        self.words = UnseenWords(_text_of(spec))
        self.labels = Vocabulary()
        self.labels.add(spec.labels or ())
        self.ignored_labels = 0
        self.learner: OnlineLearner | NothingLearnt = spec.learner() if isinstance(spec, ModelSpec) else NothingLearnt()
        self.answers = None if isinstance(spec, ModelSpec) else ServedMetrics()
        if grow:  # otherwise a restored state does so
            # Declared labels have scores from the start. Memory for features is allocated when they are learnt.
            self.learner.pipeline.grow(0, len(self.labels))
        self.prequential = Prequential(window=spec.window)
        self.keys = IdempotencyWindow()
        self.labelled = LabelledIds()
        self.streams = StreamOffsets()
        self.rollbacks: list[tuple[str, str]] = []
        self.retired: set[str] = set()
        self.paused: set[str] = set()
        self.renamed: set[int] = set()
        self.old_names = OldNames()
        self.details = DetailsOfLabels()
        self.titles = TitleWords.of(spec, self.learner)
        self.groups = Groups()
        self.promises = Promises()
        self.sources = SourceMetrics()
        self.corrections = Corrections()
        self.dismissals = Dismissals()
        self.alike = AlikeNames()
        self.relabels = 0
        self.position = START
        self.updates = self.scaled_before = 0

    @property
    def nbytes(self) -> int:
        """Memory of the state in bytes."""
        return self.learner.pipeline.nbytes + self._nbytes_of_others

    def nbytes_after(
        self, n_features: int, n_labels: int, n_examples: int, n_values: int, n_distinct: int | None = None
    ) -> int:
        """Return the maximum memory in bytes with these numbers of columns, after learning n_values values."""
        grown = self.learner.pipeline.nbytes_after(n_features, n_labels, n_examples, n_values, n_distinct)
        return grown + self._nbytes_of_others

    @property
    def _nbytes_of_others(self) -> int:
        """Bytes of everything except the learner."""
        names = (self.features, self.labels, self.old_names, self.details, self.groups)
        requests = (self.keys, self.labelled, self.streams, self.corrections, self.dismissals)
        optional = sum(part.nbytes for part in (self.answers, self.titles, self.promises) if part is not None)
        return optional + sum(part.nbytes for part in (*names, self.prequential, *requests))

    def predict(self, xs: Sequence[Features], probabilities: bool = False) -> list[Prediction]:
        """Predict with the current state; features that were never learnt are omitted.

        The examples must have passed `features.check`; probabilities need a learner with calibration.
        """
        names, hidden = self.labels.names, self.hidden
        raw = self._predicted(xs, probabilities)
        return [prediction(row, names, own, hidden, decided, deferral) for row, own, decided, deferral in raw]

    def predicting(self, xs: Sequence[Features], probabilities: bool = False) -> list[Callable[[], Prediction]]:
        """Predict like `predict`; return functions that make the predictions, each from the current state."""
        names, hidden = self.labels.names, frozenset(self.hidden)
        raw = self._predicted(xs, probabilities)
        return [partial(prediction, row, names, own, hidden, decided, deferral) for row, own, decided, deferral in raw]

    def _predicted(
        self, xs: Sequence[Features], probabilities: bool
    ) -> Iterable[tuple[NDArray[np.float64], NDArray[np.float64] | None, Decision | None, Deferral | None]]:
        """Return the scores, the probabilities if requested, and the decisions of the promises of precision and
        parity."""
        scores = self._score(xs)
        promise, parity = self.promises.promise, self.promises.parity
        likely = self.learner.pipeline.probabilities(scores) if probabilities or self.promises else None
        if (shown := self.groups.shown) is not None:
            shown.decide(scores)
            if likely is not None:
                shown.agree(likely)
        rows = repeat(None) if likely is None or not probabilities else likely
        decisions: Iterable[Decision | None] = repeat(None)
        deferrals: Iterable[Deferral | None] = repeat(None)
        if self.promises and likely is not None:
            likely, scores_of_promise, parents = self.for_promise(likely, scores)
            if promise is not None:
                decisions = promise.decide(likely, scores_of_promise, parents)
            if parity is not None:
                deferrals = parity.defer(likely, scores_of_promise)
        return zip(scores, rows, decisions, deferrals, strict=False)

    def factor(self, source: str) -> float:
        """Return the factor of the weight of examples whose labels come from a source; 0: they are not learnt."""
        if source == "human":
            return 1.0
        return self.spec.sources.factor(source) if isinstance(self.spec, ModelSpec) else 0.0

    def learns(self, example: Example) -> bool:
        """Return whether an example is learnt, given its weight and the source of its labels."""
        return example.source == "human" or example.weight * self.factor(example.source) > 0.0

    def score_unlearnt(
        self, xs: Sequence[Features], probabilities: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Return raw scores and probabilities (or None) of examples that are not learnt."""
        scores = self._score(xs)
        return scores, self.learner.pipeline.probabilities(scores) if probabilities else None

    def for_promise(
        self, probabilities: NDArray[np.float64], scores: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int32]]:
        """Return the inputs of a promise: probabilities (0 for hidden labels), scores, and parents by column."""
        if hidden := self.hidden_columns:
            probabilities = probabilities.copy()
            probabilities[:, hidden] = 0.0
        return probabilities, scores, self.groups.parent_columns

    def explain(self, x: Features, labels: Sequence[str], explainer: Explainer) -> Explanations:
        """Return why the current state predicts labels for an example; raises InvalidField."""
        (row, words), columns = self._rows([x]), self.labels.lookup(labels)
        learner, name_of = self.learner, self.features.name_in(x)
        assert isinstance(learner, OnlineLearner)
        x = self.features.complete(x)
        return explainer.explain(x, labels, lambda k: learner.pipeline.explain(row, columns, k, words), name_of)

    def _score(self, xs: Sequence[Features]) -> NDArray[np.float64]:
        return self.learner.pipeline.score(*self._rows(xs))

    def _rows(self, xs: Sequence[Features]) -> tuple[Rows, NDArray[np.int64] | None]:
        """Return examples to predict; if titles are used, with the words of features that were never learnt.

        Such a feature gets a separate column in each example.
        """
        found = [self.features.find(x) for x in xs]
        if not self.titles:
            return as_rows(found), None
        first, names, new = self.learner.n_features_, self.features.names, list[str]()
        for row, (x, (columns, values)) in enumerate(zip(xs, found, strict=True)):
            known = int(np.searchsorted(columns, first))
            end = int(np.searchsorted(columns, VECTOR_COLUMNS))
            if known == end:
                continue
            own = self.features.complete(x).names
            unknown = [] if own is None else [*names.newest(len(names) - first), *names.unknown(own)]
            at = first + len(new) + np.arange(end - known, dtype=np.int32)
            new += [
                unknown[column] if column < len(unknown) else "" for column in (columns[known:end] - first).tolist()
            ]
            found[row] = np.concatenate([columns[:known], at, columns[end:]]), values
        return as_rows(found), self.titles.numbers(new)

    def uncertainties(self, xs: Sequence[Features]) -> list[float]:
        """Return the uncertainty of each example (see `uncertainty`); NaN for examples that do not fit the model."""
        fitting = [place for place, x in enumerate(xs) if self.features.fits(x)]
        found = np.full(len(xs), np.nan)
        if fitting:
            scores = self._score([xs[place] for place in fitting])
            if self.groups.shown is not None:
                self.groups.shown.decide(scores)
            seen = self.prequential.labels().relevant
            examples = np.zeros(scores.shape[1] - 1, dtype=np.int64)
            examples[: len(seen)] = seen  # declared labels without examples have not been seen
            columns = counting(examples, self.hidden_columns)
            found[fitting] = uncertainty(scores[:, 1 + columns] - scores[:, :1])
        listed: list[float] = found.tolist()
        return listed

    def measures(self) -> dict[str, Any]:
        """Return the number of examples learnt, the prequential metrics, and the drift alarms."""
        others = {**self.sources.to_json(), **self.promises.to_metrics(self.labels.names)}
        if self.corrections.count:
            others["corrections"] = self.corrections.count
        return {"updates": self.updates, **measured(self.prequential), **others, **self.drift()}

    def drift(self) -> dict[str, Any]:
        """Return the field `drift` with the drift alarms; no field for a model without detectors."""
        if self.learner.drift is None:
            return {}
        return {"drift": drift_to_json(*self.learner.alarms(), self.labels.names)}

    @property
    def online_spec(self) -> ModelSpec:
        """Spec of an online model."""
        assert isinstance(self.spec, ModelSpec), f"{self.spec.name!r} is trained by jobs"
        return self.spec

    @property
    def label_facts(self) -> LabelFacts:
        """Facts about the labels."""
        alarms = None if self.learner.drift is None else self.learner.alarms()
        curves, old_names = self.learner.pipeline.curves(), self.old_names.by_column()
        names, measured, details = self.labels.names, self.prequential, self.details
        return LabelFacts(names, measured, self.retired, curves, alarms, old_names, details, self.paused)

    def alike_to(self, label: str) -> str | None:
        """Return the first label that is like a new label (see `manylabel_core.alike`), or None."""
        self.alike.read(self.labels)
        return self.alike.earlier(label, self.retired)

    def alike_labels(self) -> list[list[str]]:
        """Return at most `MAX_ALIKE` groups of at most as many alike labels, each with the most frequent label first.

        Retired labels are not included.
        """
        self.alike.read(self.labels)
        if not (groups := self.alike.groups(self.retired)[:MAX_ALIKE]):
            return []
        seen = self.prequential.labels().relevant
        examples = dict(zip(self.labels.names, seen.tolist(), strict=False))
        return [sorted(group, key=lambda label: -examples.get(label, 0.0))[:MAX_ALIKE] for group in groups]

    def learning(self) -> Learning:
        """Return, by name, whether each label is still being learnt (see `label_table.learning`)."""
        examples = self.prequential.labels().relevant

        def learning_of(label: str) -> dict[str, float] | None:
            column = self.labels.get(label)
            if column is None:
                return None
            seen = examples[column] if column < len(examples) else 0.0
            return learning(float(seen), self.details[column].title)

        return learning_of

    def roll_back(self, target: "OnlineModel", to: str, position: str) -> None:
        """Return to the state `target` at `to`, by an entry at `position`; consumes the target.

        Later features and labels keep their columns, without weights. The features are replaced only if the target has
        no features, or different ones; if it has none, the input kind is undetermined again. Raises ValueError for the
        state of another position or model.
        """
        if target.position != to or target.spec != self.spec or not self._continues(target.labels.names):
            found = f"{target.spec.name!r} at {target.position}"
            raise ValueError(f"the target must be the state of {self.spec.name!r} at {to}, not of {found}")
        if target.features.layout.kind is None or not self.features.continues(target.features):
            self.features = target.features
        else:
            self.features.roll_back(target.features)
        # Memory for hashed features is allocated when they are learnt.
        has_features = target.updates > 0 or target.learner.n_features_ > 0
        target.learner.pipeline.grow(self.features.n_columns if has_features else 0, len(self.labels))
        if has_features:
            target.learner.pipeline.grow_vectors(self.features.layout.vector_lengths)
            target.learner.pipeline.pair(self.features.pairs)
        self.learner, self.prequential = target.learner, target.prequential
        self.hide()
        if self.titles is not None:
            self.titles.give_all(self.details.by_column(), len(self.labels))
            self.give_titles(len(self.features.names))
        self.promises.roll_back(target.promises)
        self.sources, self.corrections = target.sources, target.corrections
        self.labelled.parts.roll_back(target.labelled.parts)
        self.features.ignored, self.ignored_labels = target.features.ignored, target.ignored_labels
        self.words = target.words
        self.updates = target.updates
        self.position = position
        self.rollbacks = [*self.rollbacks, (position, to)][-MAX_ROLLBACKS:]

    def take_requests(self, other: "OnlineModel") -> None:
        """Take over the state of requests from another state of the same log, without metrics; consumes the other
        state."""
        self.keys, self.labelled, self.streams = other.keys, other.labelled, other.streams
        self.promises.waiting = {} if self.promises.parity is None else other.promises.waiting
        self.labelled.parts.roll_back(PartialLabels())

    def _continues(self, labels: Sequence[str]) -> bool:
        """Return whether the labels of the model begin with these, apart from renamed labels."""
        first = self.labels.names[: len(labels)]
        differ = [column for column, pair in enumerate(zip(first, labels, strict=False)) if pair[0] != pair[1]]
        return len(first) == len(labels) and self.renamed.issuperset(differ)

    def rename(self, label: str, to: str) -> None:
        """Rename a label; later updates can still use its old name. Raises LabelNotFound, LabelExists, LabelsDeclared
        or LimitExceeded."""
        column = self._live_column(label)
        if self.spec.labels is not None:
            raise LabelsDeclared(self.spec.name)
        if to in self.labels:
            raise LabelExists(to)
        self.old_names.check(to, column)
        self.labels.rename(label, to)
        self.alike = AlikeNames()
        self.old_names.rename(label, to, column)
        self.renamed.add(column)
        if label in self.paused:
            self.paused = self.paused - {label} | {to}
        self.groups.build(self.labels.names, self.paused)
        self.relabels += 1

    def merge(self, label: str, into: str) -> None:
        """Merge a label: retire it; in later updates, its names mean the other label. Raises LabelNotFound,
        LabelExists, LimitExceeded or InvalidField."""
        column, other = self.check_merge(label, into)
        self.old_names.merge(label, column, other)
        self.retire(label)

    def check_merge(self, label: str, into: str) -> tuple[int, int]:
        """Check that the first label can be merged into the second, and return their columns. Raises the errors of
        `merge`."""
        column, other = self._live_column(label), self._live_column(into)
        if column == other:
            raise LabelExists(into)
        self._check_ungrouped(label, column)
        self.old_names.check(label, other)
        return column, other

    def retire(self, label: str) -> None:
        """Retire a label; raises LabelNotFound, and InvalidField if a group or a parent names it."""
        self._check_ungrouped(label, self._live_column(label))
        self.retired.add(label)
        self.paused.discard(label)
        self.hide()
        self.relabels += 1

    def pause(self, label: str, paused: bool) -> None:
        """Pause a label, or resume it; raises LabelNotFound."""
        self._live_column(label)
        if paused:
            self.paused.add(label)
        else:
            self.paused.discard(label)
        self.hide()
        self.groups.build(self.labels.names, self.paused)

    def _check_ungrouped(self, label: str, column: int) -> None:
        if column in self.groups.columns:
            raise InvalidField(
                ("label",), f"{label!r} is named by groups or parents: remove the label from groups and parents first"
            )

    def regroup(self, groups: Sequence[Group], parents: Mapping[str, str]) -> list[str]:
        """Replace the groups and parents of labels; return newly declared labels. Raises InvalidField.

        The learner has no columns for the new labels before it grows.
        """
        check_written(groups, parents)
        new: dict[str, None] = {}
        for label, path in places(groups, parents):
            if label in self.retired:
                raise InvalidField(path, f"{label!r} is a retired label")
            if label in self.labels:
                continue
            if label in self.old_names:
                raise InvalidField(path, f"{label!r} is an old name: use the current name of the label")
            if self.spec.labels is not None:
                raise InvalidField(path, f"{label!r} is not one of the labels declared for this model")
            new[label] = None
            if (limit := self.limits.labels) is not None and len(self.labels) + len(new) > limit.most:
                raise InvalidField(path, f"{label!r} exceeds the limit of {limit.most} labels of this model")
        self.labels.add(new)
        self.groups.set(groups, parents, self.labels)
        self.groups.build(self.labels.names, self.paused)
        self.relabels += 1
        return list(new)

    def set_promise(self, target: Target | None, parity: ParityTarget | None = None) -> None:
        """Set or end (None) the promises of precision and parity. Raises InvalidField, also if the model has no
        probabilities, or does not learn from the teacher."""
        if target is not None:
            check_target(target)
        if parity is not None:
            check_parity(parity)
            if self.factor(parity.of) <= 0.0:
                raise InvalidField(("of",), f"must be learnt: the weight of {parity.of!r} in sources of the model is 0")
        if (target or parity) is not None and not self.learner.calibrate:
            raise InvalidField((), "needs probabilities, which this model does not have because calibrate is false")
        self.promises.set(target, parity)

    def describe(self, edits: Mapping[str, Edit]) -> list[str]:
        """Change titles, descriptions and URIs of labels; return newly declared labels.

        The learner has no columns for the new labels before it grows; `give_titles` must follow. Raises LabelNotFound,
        LabelExists or InvalidField.
        """
        new = self.labels.unknown(edits)
        for label in edits:
            if label in self.retired:
                raise LabelNotFound(label)
            if label in self.old_names and label not in self.labels:
                raise LabelExists(label)
        if new and self.spec.labels is not None:
            raise InvalidField(("labels", new[0]), "is not one of the labels declared for this model")
        if (limit := self.limits.labels) is not None and (room := limit.most - len(self.labels)) < len(new):
            raise InvalidField(("labels", new[room]), f"exceeds the limit of {limit.most} labels of this model")
        for column, edit in zip(self.labels.add(edits), edits.values(), strict=True):
            before = self.details[column]
            self.details.edit(column, edit)
            if self.titles is not None:
                self.titles.change(column, before, self.details[column])
        if self.learner.n_labels_ == len(self.labels):
            self.give_titles(len(self.features.names))
        return new

    def give_titles(self, n_known: int) -> None:
        """Pass changed titles to the learner, and the words of all features after the first `n_known`."""
        if self.titles is not None and isinstance(self.learner, OnlineLearner):
            self.titles.give(self.learner.pipeline, self.features.names, n_known)

    def check_correction(self, corrects: Corrects, position: str) -> None:
        """Raise ExampleNotFound or LabelNotFound unless an entry at a position can correct an example."""
        if position_key(corrects.position) >= position_key(position):
            raise ExampleNotFound(self.spec.name, *corrects.place, "it is not an earlier entry")
        if undone(corrects.position, self.rollbacks):
            raise ExampleNotFound(self.spec.name, *corrects.place, "a rollback has undone the entry")
        self.check_learnt(corrects.place)
        for label in corrects.labels or ():
            self._live_column(self.old_names.current(label, self.labels.names))

    def check_learnt(self, place: Place) -> None:
        """Raise ExampleNotFound if the model remembers that it did not learn this example."""
        if self.corrections.is_unlearnt(place):
            raise ExampleNotFound(self.spec.name, *place, "it was rejected, or learnt from an earlier entry")

    def check_label(self, label: str) -> None:
        """Raise LabelNotFound unless the model has a label of this name that is not retired."""
        self._live_column(label)

    def corrected(self, example: Example, y: Labels) -> Example | None:
        """Return a learnt example with the true labels that a person states; None if the example already has them.

        Partial labels replace those of the example; its other labels stay. Names without a current label are omitted.
        """
        own, y = self.resolve(example.y), self.resolve(y)
        live = {
            name: sign
            for name, sign in zip(own.names, own.signs.tolist(), strict=True)
            if name in self.labels and name not in self.retired
        }
        stated = dict(zip(y.names, y.signs.tolist(), strict=True))
        new = _labels(stated if y.complete else live | stated, own.complete or y.complete)
        with suppress(Contradiction):  # the groups are contradicted; the dry run of the example reports this
            if self._truth(new) == self._truth(_labels(live, own.complete)):
                return None
        return example._replace(y=new, source="human")

    def _truth(self, y: Labels) -> tuple[dict[int, int], bool]:
        """Return true labels of known names, completed by groups and parents, as signs by column."""
        columns = self.labels.lookup(y.names)
        implied, signs, complete = self.implied(list(columns), y.signs, y.complete)
        relevant = dict(zip(implied, signs.tolist(), strict=True))
        return {column: sign for column, sign in relevant.items() if sign > 0 or not complete}, complete

    def correct(self, corrects: Corrects, position: str | None) -> None:
        """Remember a correction that was learnt by the entry at a position, or confirmed labels (None)."""
        columns = None
        if corrects.labels is not None:
            names = self.labels.names
            columns = self.labels.lookup([self.old_names.current(label, names) for label in corrects.labels])
        before = self.corrections.find(corrects.place)
        if before.corrected_at is None and before.columns is not None and (position is not None or columns is None):
            self.promises.count_correction(corrects.source, right=position is None)
        self.corrections.add(corrects.place, position, columns)

    def dismiss(self, kind: str, label: str, other: str | None) -> None:
        """Remember a suggestion that a person has dismissed. Raises LabelNotFound, or LabelExists if both names mean
        the same label."""
        column = self._live_column(label)
        column_of_other = None if other is None else self._live_column(other)
        if column == column_of_other:
            raise LabelExists(label)
        examples = self.prequential.labels().relevant
        columns = (column,) if column_of_other is None else (column, column_of_other)
        fewest = min(float(examples[each]) if each < len(examples) else 0.0 for each in columns)
        self.dismissals.add(kind, column, column_of_other, fewest)

    def _live_column(self, label: str) -> int:
        """Return the column of a label that is not retired; raises LabelNotFound."""
        column = self.labels.get(label)
        if column is None or label in self.retired:
            raise LabelNotFound(label)
        return column

    def resolve(self, y: Labels) -> Labels:
        """Return true labels with the current names of the labels."""
        return self.old_names.resolve(y, self.labels.names) if len(self.old_names) else y

    @property
    def hidden(self) -> Collection[str]:
        """Names of retired and paused labels, which are not predicted."""
        return self.retired | self.paused if self.paused else self.retired

    @property
    def hidden_columns(self) -> list[int]:
        """Ascending columns of retired and paused labels."""
        return self._columns(hidden) if (hidden := self.hidden) else []

    def hide(self) -> None:
        """Exclude retired and paused labels from the mean over labels; call this after a label was retired, paused or
        resumed."""
        self.prequential.hidden = self.hidden_columns

    def _columns(self, labels: Collection[str]) -> list[int]:
        return sorted(self.labels.lookup(labels))

    @property
    def ignored(self) -> dict[str, int]:
        """Numbers of times that features and labels were omitted from learnt examples."""
        return {"features": self.features.ignored, "labels": self.ignored_labels}

    def take_labels(self, y: Labels) -> tuple[list[int], NDArray[np.int8]]:
        """Return columns and signs of the labels of an example to learn, without labels above the limit."""
        columns, signs = take_labels(self.labels, y, self.limits.labels)
        self.ignored_labels += len(y.names) - len(columns)
        return columns, signs

    def implied(self, columns: list[int], signs: NDArray[np.int8], complete: bool, id: str | None = None) -> Truth:
        """Return true labels completed by groups and parents.

        For a stored prediction, identified by its id, the result omits labels that were submitted earlier.
        """
        if self.groups.all is None:
            return Truth(columns, signs, complete)
        implied, all_signs = self.groups.all.imply(columns, signs, complete)
        if id is not None and id in self.labelled.parts and (known := set(self.labelled.parts.repeated(id, implied))):
            kept = [place for place, column in enumerate(implied) if column not in known]
            implied, all_signs = [implied[place] for place in kept], all_signs[kept]
        return Truth(implied, all_signs, complete)

    def without_paused(self, columns: list[int], signs: NDArray[np.int8], complete: bool) -> Truth:
        """Return the true labels of an example to learn, with paused labels as unknown."""
        if not self.paused:
            return Truth(columns, signs, complete)
        every = np.full(len(self.labels), -1 if complete else 0, dtype=np.int8)
        every[columns] = signs
        every[self.labels.lookup(self.paused)] = 0
        known = np.flatnonzero(every)
        return Truth(known.tolist(), every[known], complete=False)

    def seed(self, name: str) -> memoryview:
        """Return this state as bytes for a new model, without the state of requests. Raises ValueError for an invalid
        name."""
        seed = OnlineModel(type(self.spec).model_validate({**self.spec.model_dump(mode="json"), "name": name}))
        # The parts are shared until one of the models changes them.
        seed.learner, seed.prequential, seed.answers = self.learner, self.prequential, self.answers
        seed.features, seed.labels, seed.words = self.features, self.labels, self.words
        seed.ignored_labels, seed.updates = self.ignored_labels, self.updates
        seed.retired, seed.paused = self.retired, self.paused
        seed.old_names, seed.details, seed.groups = self.old_names, self.details, self.groups
        seed.dismissals = self.dismissals
        seed.promises, seed.sources = self.promises.without_waiting(), self.sources
        seed.corrections.count = self.corrections.count  # the positions are those of another log
        seed.scaled_before = self.scaled_before
        seed.position = SEED
        return seed.to_buffer()

    def to_bytes(self) -> bytes:
        """Serialise the state. This only reads, so predictions may run concurrently, but updates may not."""
        return bytes(self.to_buffer())

    def to_buffer(self) -> memoryview:
        """Return the state like `to_bytes`, but with only one copy in memory; other threads can run meanwhile."""
        return State(*self._state()).to_buffer()

    def checksum(self) -> str:
        """Return the checksum that `to_buffer` writes to the header."""
        return State(*self._state()).checksum()

    def _state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        features, layout = self.features.state()
        arrays = {
            **_prefixed("learner", self.learner.pipeline.arrays()),
            **_prefixed("features", features),
            **_prefixed("labels", self.labels.state()),
            **_prefixed("prequential", self.prequential.state()),
            "retired": np.array(self._columns(self.retired), dtype=np.int32),
            "paused": np.array(self._columns(self.paused), dtype=np.int32),
            "renamed": np.array(sorted(self.renamed), dtype=np.int32),
            **_prefixed("old_names", self.old_names.state()),
            "details": self.details.to_array(),
            "groups": self.groups.to_array(),
            "promise": self.promises.to_array(),
            "sources": self.sources.counts,
            "keys": self.keys.to_array(),
            "labelled": self.labelled.to_array(),
            "parts": self.labelled.parts.to_array(),
            "streams": self.streams.to_array(),
        }
        if self.answers is not None:
            arrays["answers"] = self.answers.to_array()
        if self.corrections:
            arrays["corrections"] = self.corrections.to_array()
        if self.dismissals:
            arrays["dismissals"] = self.dismissals.to_array()
        # The names that a spec declares are also in the arrays.
        declared = {kind for kind in ("features", "labels") if isinstance(getattr(self.spec, kind), list)}
        header = {
            "version": _FORMAT,
            "spec": self.spec.model_dump(mode="json", exclude=declared),
            "declared": sorted(declared),
            "position": self.position,
            "updates": self.updates,
            "scaled_before": self.scaled_before,
            "layout": layout,
            "words": self.words.state(),
            "labelled_floor": bool(self.labelled.floor),
            "rollbacks": self.rollbacks,
        }
        if most_of(self.limits.labels, "ignore") is not None:
            header["ignored_labels"] = self.ignored_labels
        return arrays, header

    @classmethod
    def from_bytes(
        cls,
        data: bytes | memoryview,
        check: Callable[[Mapping[str, NDArray[Any]]], None] | None = None,
        requests: bool = True,
    ) -> "OnlineModel":
        """Return the model from the output of `to_bytes`.

        The bytes are untrusted: this checks everything on which a kernel or a request relies.

        Parameters
        ----------
        data : bytes of the state; a writable buffer may be changed, which saves a copy.
        check : callback with the arrays before anything is built from them, which may raise.
        requests : whether to load the state of requests; a new model with this initial state does not need it.

        Raises
        ------
        manylabel_core.state.DamagedState
            The bytes are not a result of `to_bytes`.
        NotCompiled
        """
        arrays, header = State.from_bytes(data, MAX_HEADER_BYTES)
        if check is not None:
            check(arrays)
        version = header.get("version")
        if type(version) is int and version > FORMAT:
            raise NewerState(f"of format {version}; this release reads up to format {FORMAT}")
        try:
            return cls._restored(arrays, header, requests)
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise DamagedState(f"not the state of a model: {error}") from error

    @classmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]], header: dict[str, Any], requests: bool) -> "OnlineModel":
        if header.get("version") != _FORMAT:
            raise ValueError(f"the header must have the version {_FORMAT}")
        spec = {**header["spec"], **_declared(arrays, header["declared"])}
        model = cls((TrainedSpec if spec.get("algorithm") == TRAINED else ModelSpec).model_validate(spec), grow=False)
        GATE.require(tiers_of_arrays(arrays))
        model.learner.pipeline.restore(_group("learner", arrays))
        n_labels = len(arrays["labels.offsets"]) - 1
        if "corrections" in arrays:
            model.corrections = Corrections.from_array(arrays["corrections"], n_labels)
        if "dismissals" in arrays:
            model.dismissals = Dismissals.from_array(arrays["dismissals"], n_labels)
        for given, due in zip((arrays, header), model._state(), strict=True):
            check_names(set(given), set(due))
        model.features.restore(_group("features", arrays), header["layout"])
        model.learner.pipeline.pair(model.features.pairs)
        model.words.restore(header["words"])
        model.labels = Vocabulary.from_state(_group("labels", arrays))
        model.ignored_labels = check_labels(model.labels, header.get("ignored_labels", 0), model.limits.labels)
        model.retired = {model.labels.names[column] for column in _columns_of("retired", arrays, model.labels)}
        model.paused = {model.labels.names[column] for column in _columns_of("paused", arrays, model.labels)}
        model.renamed = set(_columns_of("renamed", arrays, model.labels)) if requests else set()
        model.old_names = OldNames.from_state(_group("old_names", arrays), len(model.labels))
        model.details = DetailsOfLabels.from_array(arrays["details"], len(model.labels))
        if model.titles is not None:
            model.titles.restore(model.details.by_column())
        model.groups = Groups.from_array(arrays["groups"], model.labels.names, (model.paused, model.retired))
        model.sources = SourceMetrics.from_array(arrays["sources"])
        model.promises = Promises.from_array(arrays["promise"], len(model.labels), requests)
        if model.promises and not model.learner.calibrate:
            raise ValueError("promise: the model has no probabilities")
        model.prequential.restore(_group("prequential", arrays))
        model.hide()
        model.position = header["position"]
        if model.answers is not None:
            model.answers = ServedMetrics.from_array(arrays["answers"])
        model.updates = header["updates"]
        model.scaled_before = header["scaled_before"]
        if requests:
            model.keys = IdempotencyWindow.from_array(arrays["keys"])
            model.labelled = LabelledIds.from_arrays(arrays["labelled"], header["labelled_floor"], arrays["parts"])
            model.streams = StreamOffsets.from_array(arrays["streams"])
            model.rollbacks = check_rollbacks(header["rollbacks"], MAX_ROLLBACKS)
        _check_facts(model, arrays)
        return model


def _labels(signs: Mapping[str, int], complete: bool) -> Labels:
    """Return true labels by their signs."""
    if complete:
        return Labels.all_of([name for name, sign in signs.items() if sign > 0])
    return Labels(tuple(signs), np.array(list(signs.values()), dtype=np.int8), complete=False)


def as_rows(columns: Sequence[Columns]) -> Rows:
    """Return the columns and values of examples as CSR arrays."""
    indptr = np.zeros(len(columns) + 1, dtype=np.int64)
    if len(columns) == 1:  # the common case needs no copies
        indices, values = columns[0]
        indptr[1] = len(indices)
        return Rows(indptr, indices, values)
    np.cumsum([len(indices) for indices, _ in columns], out=indptr[1:])
    return Rows(
        indptr,
        np.concatenate([indices for indices, _ in columns]),
        np.concatenate([values for _, values in columns]),
    )


def _text_of(spec: ModelSpec | TrainedSpec) -> TextSettings | None:
    """Return the text options of a model; None if it is trained by jobs, or does not store all feature names."""
    limit = None if spec.limits is None else spec.limits.features
    if not isinstance(spec, ModelSpec) or spec.text is None or (limit is not None and limit.policy != "reject"):
        return None
    return spec.text.settings()


def _declared(arrays: Mapping[str, NDArray[Any]], kinds: Any) -> dict[str, list[str]]:
    """Return the names of features and of labels that a spec declares."""
    if not isinstance(kinds, list) or any(kind not in ("features", "labels") for kind in kinds):
        raise ValueError("declared must be a list of features and labels")
    return {kind: list(Vocabulary.from_state(_group(kind, arrays)).names) for kind in kinds}


def _prefixed(part: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"{part}.{name}": array for name, array in arrays.items()}


def _group(part: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    prefix = f"{part}."
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}


def _columns_of(name: str, arrays: Mapping[str, NDArray[Any]], labels: Vocabulary) -> list[int]:
    columns = arrays[name]
    if columns.ndim != 1 or columns.dtype != np.int32 or (np.diff(columns) <= 0).any():
        raise ValueError(f"{name}: columns must ascend")
    if len(columns) and not 0 <= columns[0] <= columns[-1] < len(labels):
        raise ValueError(f"{name}: columns must belong to existing labels")
    listed: list[int] = columns.tolist()
    return listed


# -- checks of untrusted states ------------------------------------------------------------------


def _check_facts(model: OnlineModel, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise ValueError unless the parts of a restored model agree."""
    check_position(model.position)
    if type(model.updates) is not int or not 0 <= model.updates < MAX_UPDATES:
        raise ValueError("updates must be an integer of at least 0")
    if type(model.scaled_before) is not int or not 0 <= model.scaled_before < MAX_UPDATES:
        raise ValueError("scaled_before must be an integer of at least 0")
    if model.rollbacks and position_key(model.rollbacks[-1][0]) > position_key(model.position):
        raise ValueError("rollbacks must not be after the position of the state")
    _check_columns(model)
    _check_counts(model, arrays)
    for part in ("features", "labels", "old_names"):
        lengths = np.diff(arrays[f"{part}.offsets"])
        if not ((lengths >= 1) & (lengths <= MAX_NAME_BYTES)).all():
            raise ValueError(f"{part}: a name must have 1 to {MAX_NAME_BYTES} bytes")


def _check_columns(model: OnlineModel) -> None:
    learner, due = model.learner, (model.features.n_columns, len(model.labels))
    untouched = model.updates == learner.n_features_ == 0  # memory for features is allocated when they are learnt
    if learner.n_labels_ != due[1] or not (untouched or learner.n_features_ == due[0]):
        raise ValueError(f"the learner has {learner.n_features_} features and {learner.n_labels_} labels, not {due}")
    if not untouched and learner.pipeline.vectors != model.features.layout.vector_lengths:
        raise ValueError(
            f"the learner has vectors of {learner.pipeline.vectors}, not {model.features.layout.vector_lengths}"
        )
    if not model.paused.isdisjoint(model.retired):
        raise ValueError("paused: a paused label must not be retired")
    if any(name in model.old_names for name in model.labels.names if name not in model.retired):
        raise ValueError("old_names: an old name must not be the name of a current label")
    declared = model.spec.labels
    if declared is not None and model.labels.names != tuple(declared):
        raise ValueError("labels must be the declared labels")
    if not untouched and model.features.layout.kind is None:
        raise ValueError("layout must be known if examples have been learnt")


def _check_counts(model: OnlineModel, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Check the counts of labels and of examples; labels may lack metrics after a rollback."""
    counts = {"measures": len(arrays["prequential.seen"])}
    if (existing := arrays.get(f"learner.{_LABELS}")) is not None:
        counts[_LABELS] = existing[0]
    n_labels = len(model.labels) if model.updates else 0
    for part, count in counts.items():
        if count > n_labels:
            raise ValueError(f"{part}: {count} labels, but the model has {n_labels}")
    parts = model.labelled.parts
    parts.check(len(model.labels))
    if model.answers is not None:
        model.answers.check(model.updates, parts)
    elif model.prequential.given + model.sources.learnt + model.corrections.count != model.updates:
        raise ValueError("the metrics do not match the number of examples learnt")
    else:
        model.prequential.check_parts(parts.measured.values())
    for name in _EXAMPLES:
        before = model.scaled_before if name.startswith("scaling") else 0
        # An example without any known truth does not count.
        if (counted := arrays.get(f"learner.{name}")) is not None and not 0 <= counted[0] - before <= model.updates:
            raise ValueError(f"{name} must be from {before} to {before + model.updates}, not {counted[0]}")
