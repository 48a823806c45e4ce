"""Application of log entries to a model, in slices between which a caller can pause.

Consecutive entries share one pass of the compiled learner. Grouping and slicing do not affect the result: columns are
assigned, examples are learnt and results are computed strictly in log order.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.pipeline import Learnt
from manylabel_core.promise import Decision, Promise
from manylabel_core.rows import NO_WEIGHTS, Rows, Targets
from manylabel_service.errors import (
    ExampleNotFound,
    InvalidExample,
    KeyReused,
    LabelNotFound,
    PredictionError,
    ServiceError,
)
from manylabel_service.hosting.examples import Example
from manylabel_service.idempotency import FORGOTTEN, IdempotencyKey
from manylabel_service.online.state.controls import Control, LabelChange, new_labels
from manylabel_service.online.state.dry_run import Checked, DryRun
from manylabel_service.online.state.feature_space import Columns
from manylabel_service.online.state.log_entries import Change, Update
from manylabel_service.online.state.model import OnlineModel, as_rows
from manylabel_service.online.state.outcome import UpdateOutcome
from manylabel_service.storage import START


class Alarm(NamedTuple):
    """Alarm of the drift detector of a label, or of all labels (None).

    `updates` is the number of examples learnt at the alarm.
    """

    updates: int
    label: str | None


class ApplyResult(NamedTuple):
    """Result of applying an entry: an outcome, or the error of its rejection.

    `replayed` means that nothing was done, because an earlier entry had the same key, or all lines had been learnt.
    `learnt` is the number of examples learnt, and `alarms` are the drift alarms at the examples of the entry.
    `previous_position` is the position of the previous entry. `label_changes` are new and changed labels. `openings`
    lists in order whether the gate of a promise of parity opened (True) or closed.
    """

    answer: UpdateOutcome | ServiceError
    replayed: bool = False
    learnt: int = 0
    alarms: tuple[Alarm, ...] = ()
    previous_position: str = START
    label_changes: tuple[LabelChange, ...] = ()
    openings: tuple[bool, ...] = ()


class LogEntry(NamedTuple):
    """Change with its position in the log.

    `checked` is the result of the dry run of its examples; None if there was no dry run.
    """

    position: str
    change: Change
    checked: Checked | None = None


@dataclass(slots=True)
class _Entry:
    """Update in progress. `refusal` is set if none of its examples will be learnt.

    `taken` is the number of processed examples; of these, the first `skipped` had been learnt earlier, and `unlearnt`
    are not learnt.
    """

    logged: LogEntry
    update: Update
    begun: bool = False
    taken: int = 0
    unlearnt: int = 0
    skipped: int = 0
    refusal: ApplyResult | None = None
    scores: list[NDArray[np.float64]] = field(default_factory=list)
    probabilities: list[NDArray[np.float64]] = field(default_factory=list)
    decisions: list[NDArray[np.int32]] = field(default_factory=list)
    alarms: list[tuple[int, str | None]] = field(default_factory=list)
    """Alarms of the entry: number of the example (from 1) and label."""
    new_labels: list[str] = field(default_factory=list)
    openings: list[bool] = field(default_factory=list)


class _Block:
    """Examples to be learnt in one pass, each with its columns, its log entry and its number in the entry."""

    def __init__(self) -> None:
        self.columns: list[Columns] = []
        self.examples: list[Example] = []
        self.entries: list[_Entry] = []
        self.numbers: list[int] = []
        self.n_known: list[int] = []
        self.has_late = self.has_others = self._weighted = False
        self.learns = True
        self.learnt_numbers: list[int] = []
        self._labels: list[int] = []
        self._signs: list[NDArray[np.int8]] = []
        self._complete: list[bool] = []
        self.complete_targets: list[bool] = []
        self.is_first: list[bool] = []
        """Whether the labels are the first of their prediction."""
        self._weights: list[float] = []
        self._label_ends: list[int] = [0]
        self._n_labels: list[int] = []

    def __len__(self) -> int:
        return len(self.examples)

    def takes(self, model: OnlineModel, entry: _Entry) -> bool:
        """Return whether the block can accept the next example of the entry; a block is learnt as a whole."""
        example = entry.update.examples[entry.taken]
        learns = example.source == "human" or model.learns(example)
        if not self.examples:
            self.learns = learns
        return learns == self.learns

    def add(self, model: OnlineModel, entry: _Entry) -> None:
        """Add the entry's next example; new features and labels get columns within the limits."""
        example = entry.update.examples[entry.taken]
        entry.taken += 1
        if not self.learns:
            entry.unlearnt += 1
            self.examples.append(example)
            self.entries.append(entry)
            self.numbers.append(entry.taken)
            self.n_known.append(len(model.labels))
            return
        if entry.update.answered is not None:  # new labels of a follower cause no events
            model.labels.add(entry.update.answered[entry.taken - 1].labels)
        self.examples.append(example)
        weight = example.weight
        if example.source != "human":
            self.has_others = True
            weight *= model.factor(example.source)
        self._weighted = self._weighted or weight != 1.0
        self._weights.append(weight)
        self.learnt_numbers.append(entry.taken - entry.unlearnt)
        self.entries.append(entry)
        self.numbers.append(entry.taken)
        self.n_known.append(len(model.labels))
        model.words.count(example.x.names, model.features.names)
        self.columns.append(model.features.add(example.x))
        labels, signs = model.take_labels(example.y)
        ids = entry.update.prediction_ids
        id = None if ids is None else ids[entry.taken - 1]
        self.is_first.append(id is not None and id not in model.labelled)
        labels, signs, complete = model.implied(labels, signs, example.y.complete, id)
        truth = model.without_paused(labels, signs, complete)
        self._labels.extend(truth.columns)
        self._signs.append(truth.signs)
        self._complete.append(truth.complete)
        self.complete_targets.append(complete)
        self._label_ends.append(len(self._labels))
        self._n_labels.append(len(model.labels))
        if len(model.labels) > self.n_known[-1]:
            entry.new_labels += model.labels.names[self.n_known[-1] :]
        if id is not None:
            self.has_late = True
            model.labelled.add(id, None if complete else labels)

    @cached_property
    def targets(self) -> Targets:
        """True labels of all examples, available when the last example was added."""
        return Targets(
            indptr=np.array(self._label_ends, dtype=np.int64),
            indices=np.array(self._labels, dtype=np.int32),
            signs=np.concatenate(self._signs),
            complete=np.array(self._complete, dtype=np.bool_),
            n_labels=np.array(self._n_labels, dtype=np.int64),
            weights=np.array(self._weights) if self._weighted else NO_WEIGHTS,
        )


LONG_WEIGHTS = 2**18
"""Number of weights whose update takes some tenths of a millisecond, or some milliseconds with the slowest learner."""
CHECKED_AT_ONCE = 256
"""Maximum number of examples that are checked within a slice."""
COPIED_BYTES = 2**22
"""Bytes of a model that can be copied or allocated within a slice."""


class ApplyBatch:
    """Log entries applied to a model by repeated calls of `step`.

    A step has three parts, `take`, `learn` and `finish`. `learn` can run in a thread, and must if `takes_long`; until
    `learn` has ended, no thread may predict with the model. Only `learn` changes the learner and its metrics.

    Attributes
    ----------
    outcomes : ApplyResults of the completed entries, in log order.
    learnt : number of examples learnt so far.
    needed_snapshot : position of the target snapshot if the next entry is a rollback; the batch continues only after
        `roll_back`.
    """

    def __init__(self, model: OnlineModel, entries: Iterable[LogEntry]) -> None:
        self._model = model
        self._waiting: deque[_Entry | LogEntry] = deque(
            _Entry(entry, entry.change) if isinstance(entry.change, Update) else entry for entry in entries
        )
        self.outcomes: list[ApplyResult] = []
        self.learnt = 0
        self.needed_snapshot: str | None = None
        self._block: _Block
        self._done: list[_Entry]
        self._learnt: Learnt | None = None
        self._alone: _Entry | LogEntry | None = None
        """Next entry if `learn` (or `finish` without it) applies or begins it, because this takes long."""

    def step(self, max_examples: int) -> bool:
        """Apply up to `max_examples` examples; return whether examples remain, or a snapshot is needed."""
        self.take(max_examples)
        self.learn()
        return self.finish()

    def take(self, max_examples: int) -> None:
        """Collect up to `max_examples` examples; their new features and labels get columns."""
        block, done = _Block(), list[_Entry]()
        self._block, self._done, self._alone = block, done, None
        alone = False
        while self._waiting and len(block) < max_examples:
            entry = self._waiting[0]
            if isinstance(entry, LogEntry):
                if done:
                    break  # earlier updates are completed first
                if _control(entry).takes_long:
                    self._alone = entry
                    break
                if not self._apply(entry):
                    break  # an earlier state is needed
                continue
            if not entry.begun:
                if done and _repeats_key(entry, done):
                    break  # the earlier entry must be completed first
                if self._begins_long(entry):
                    self._alone = None if done or len(block) else entry
                    break
                self._begin(entry)
            if entry.refusal is None:
                while entry.taken < len(entry.update.examples) and len(block) < max_examples and not alone:
                    if not block.takes(self._model, entry):
                        break
                    alone = entry.update.corrects is not None or (block.learns and self._brings_vectors(entry))
                    if alone and len(block):
                        return
                    block.add(self._model, entry)
                if entry.taken < len(entry.update.examples):
                    break
            self._waiting.popleft()
            done.append(entry)
            if alone:
                break

    def _begins_long(self, entry: _Entry) -> bool:
        """Return whether many examples of an update must be checked before the first is learnt."""
        checked = entry.logged.checked
        return len(entry.update.examples) > CHECKED_AT_ONCE and (
            checked is None or not checked.still_valid(self._model)
        )

    def _brings_vectors(self, entry: _Entry) -> bool:
        """Return whether the next example has the first vector of a field.

        This example is learnt separately, so that the learner knows the field from this example on, regardless of
        grouping.
        """
        x = entry.update.examples[entry.taken].x
        return x.vectors is not None and self._model.features.layout.brings_vectors(x)

    @property
    def takes_long(self) -> bool:
        """True if the collected examples change many weights, or make a large model grow, or an entry takes long."""
        if self._alone is not None:
            return True
        model, n_labels = self._model, len(self._model.labels)
        n_values = sum([len(values) for _, values in self._block.columns])
        if n_values * (1 + n_labels) > LONG_WEIGHTS:
            return True
        learner, n_columns = model.learner, model.features.n_columns
        grows = n_columns > learner.n_features_ or n_labels > learner.n_labels_
        n_new = model.features.layout.n_vector_values - sum(learner.pipeline.vectors)
        if not grows and n_new == 0:
            return False
        n_bytes = learner.pipeline.nbytes_after(n_columns + n_new, n_labels, 0, 0)
        return n_bytes + learner.pipeline.nbytes_of_vectors(n_new, n_columns, n_labels) > COPIED_BYTES

    @property
    def collected(self) -> tuple[Rows, Targets] | None:
        """Collected examples to learn; None without examples."""
        block = self._block
        return (as_rows(block.columns), block.targets) if len(block) and block.learns else None

    @property
    def collected_examples(self) -> list[tuple[int, Example]]:
        """Collected examples, each with its index in its entry."""
        return [(number - 1, each) for number, each in zip(self._block.numbers, self._block.examples, strict=True)]

    def learn(self) -> None:
        """Learn the collected examples, or apply or begin an entry that takes long."""
        if self._alone is not None:
            self._do_alone()
        model, block, pipeline = self._model, self._block, self._model.learner.pipeline
        n_known = model.learner.n_features_
        if (collected := self.collected) is not None:
            pipeline.grow(model.features.n_columns, len(model.labels))
            pipeline.grow_vectors(model.features.layout.vector_lengths)
            pipeline.pair(model.features.pairs)
            model.give_titles(n_known)
            self._learnt = pipeline.learn(*collected, model.learner.calibrate)
            return
        if len(model.labels) > model.learner.n_labels_:  # a change of details or groups may have declared labels
            pipeline.grow(n_known, len(model.labels))
            model.give_titles(n_known)
        if len(block):
            xs = [example.x for example in block.examples]
            self._learnt = Learnt(*model.score_unlearnt(xs, model.learner.calibrate), [])

    def finish(self) -> bool:
        """Complete the learnt entries; return whether entries remain, or a snapshot is needed."""
        if self._alone is not None:
            self._do_alone()
        if self._learnt is not None:
            self.learnt += len(self._block)
            self._spread(self._block, *self._learnt)
            self._learnt = None
        self.outcomes.extend(self._finish(entry) for entry in self._done)
        return bool(self._waiting)

    def _do_alone(self) -> None:
        """Apply or begin the entry that takes long, if any."""
        entry, self._alone = self._alone, None
        if isinstance(entry, _Entry):
            self._begin(entry)
        elif entry is not None:
            self._apply(entry)

    def roll_back(self, target: OnlineModel) -> None:
        """Roll back to the snapshot `needed_snapshot`; the caller must no longer use the target. Raises ValueError for
        another state."""
        entry = self._waiting[0] if self.needed_snapshot is not None else None
        if not isinstance(entry, LogEntry):
            raise ValueError("no snapshot is needed")
        self._apply(entry, target)
        self.needed_snapshot = None

    def _apply(self, entry: LogEntry, target: OnlineModel | None = None) -> bool:
        """Apply the next entry, a control entry; return False if it needs a snapshot first."""
        model, change = self._model, _control(entry)
        outcome = None if change.key is None else self._answered(change.key)
        if outcome is None:
            if change.needs is not None and target is None:
                self.needed_snapshot = change.needs
                return False
            previous, was_open, returns_to = model.position, model.promises.open, change.returns_to(model)
            try:
                changes = tuple(change.apply(model, entry.position, target))
            except ServiceError as error:
                outcome = ApplyResult(error)
            else:
                answer = UpdateOutcome(entry.position, model.updates, None, rolled_back_to=returns_to)
                if change.key is not None:
                    model.keys.add(change.key, answer)
                openings = () if model.promises.open == was_open else (not was_open,)
                outcome = ApplyResult(answer, previous_position=previous, label_changes=changes, openings=openings)
        model.position = entry.position
        self._waiting.popleft()
        self.outcomes.append(outcome)
        return True

    def _begin(self, entry: _Entry) -> None:
        """Decide what to learn from an update: everything, only the new lines of its stream, or nothing if it is
        rejected."""
        model, update = self._model, entry.update
        entry.begun = True
        entry.refusal = None if update.key is None else self._answered(update.key)
        if entry.refusal is None:
            entry.refusal = self._refusal(entry)
        if entry.refusal is not None:
            return
        if len(model.old_names):
            examples = tuple(example._replace(y=model.resolve(example.y)) for example in update.examples)
            entry.update = update._replace(examples=examples)
        if update.stream is not None:
            entry.taken = entry.skipped
            model.streams.add(update.stream)

    def _answered(self, key: IdempotencyKey) -> ApplyResult | None:
        """Return the outcome of an earlier request with the same key."""
        seen = self._model.keys.find(key.key)
        if seen is None:
            return None
        digest, answer = seen
        if digest not in (FORGOTTEN, key.digest):
            return ApplyResult(KeyReused(key.key))
        return ApplyResult(answer, replayed=True)

    def _refusal(self, entry: _Entry) -> ApplyResult | None:
        """Return the error of a rejected update, if any; find the new lines of a stream."""
        model, update = self._model, entry.update
        try:
            if update.prediction_ids is not None:
                model.labelled.check(
                    update.prediction_ids, [model.resolve(y) for _, y, *_ in update.examples], model.labels.lookup
                )
            if update.stream is not None:
                entry.skipped = model.streams.n_learnt(update.stream)
            if update.corrects is not None:
                model.check_correction(update.corrects, entry.logged.position)
            if entry.logged.checked is None or not entry.logged.checked.still_valid(model):
                _check_examples(model, update, entry.skipped)
        except (InvalidExample, PredictionError, ExampleNotFound, LabelNotFound) as error:
            return ApplyResult(error)
        return None

    def _spread(
        self,
        block: _Block,
        scores: NDArray[np.float64],
        probabilities: NDArray[np.float64] | None,
        alarms: Sequence[tuple[int, int]],
    ) -> None:
        """Pass the predictions made just before learning, and the alarms, to the metrics and the entries."""
        model = self._model
        n_given = model.prequential.given
        if (shown := model.groups.shown) is not None:
            scores = np.array(scores, dtype=np.float64)
            shown.decide(scores)
            if probabilities is not None:
                probabilities = probabilities.copy()
                shown.agree(probabilities)
        corrects = any(entry.update.corrects is not None for entry in block.entries)  # then it is the only entry
        if corrects:
            pass  # the metrics and the promises count the example with its first labels
        elif block.learns:
            _measure(model, block, scores, probabilities, block.targets)
        else:
            for row in range(len(block)):
                _measure_other(model, block, row, scores[row])
        if model.promises.parity is not None and block.has_late:
            _count_labels(model, block)
        promise, decisions = model.promises.promise, None
        if promise is not None and probabilities is not None and not corrects:
            decisions = _decide(model, promise, block, scores, probabilities)
        for row, (n_known, entry) in enumerate(zip(block.n_known, block.entries, strict=True)):
            if entry.update.want_predictions:
                entry.scores.append(scores[row, : 1 + n_known].copy())
            if entry.update.want_probabilities and probabilities is not None:
                entry.probabilities.append(probabilities[row, :n_known].copy())
            if entry.update.want_predictions and decisions is not None:
                decision = decisions[row]
                entry.decisions.append(np.array([decision.review, *decision.applied], dtype=np.int32))
        for row, column in alarms:
            label = model.labels.names[column - 1] if column else None
            n_counted = 0 if corrects else sum(example.source == "human" for example in block.examples[: row + 1])
            number = n_given + n_counted
            if number:
                model.prequential.note_alarm(number, column)
            block.entries[row].alarms.append((block.learnt_numbers[row], label))

    def _finish(self, entry: _Entry) -> ApplyResult:
        model, update = self._model, entry.update
        previous, model.position = model.position, entry.logged.position
        n_unlearnt = len(update.examples) if entry.refusal is not None else entry.skipped
        if n_unlearnt and update.corrects is None:
            model.corrections.note_unlearnt(model.position, n_unlearnt)
        if entry.refusal is not None:
            return entry.refusal
        learnt = len(update.examples) - entry.skipped - entry.unlearnt
        alarms = tuple(Alarm(model.updates + number - entry.skipped, label) for number, label in entry.alarms)
        model.updates += learnt
        scores = tuple(entry.scores) if update.want_predictions else None
        probabilities = tuple(entry.probabilities) if update.want_probabilities else None
        decisions = tuple(entry.decisions) if entry.decisions else None
        answer = UpdateOutcome(
            model.position,
            model.updates,
            scores,
            entry.skipped,
            probabilities=probabilities,
            decisions=decisions,
        )
        if update.key is not None:
            model.keys.add(update.key, answer)
        if update.corrects is not None:
            model.correct(update.corrects, model.position if learnt else None)
        return ApplyResult(
            answer,
            replayed=entry.skipped == len(update.examples) and update.corrects is None,
            learnt=learnt,
            alarms=alarms,
            previous_position=previous,
            label_changes=tuple(new_labels(model, entry.new_labels)) if entry.new_labels else (),
            openings=tuple(entry.openings),
        )


def _control(entry: LogEntry) -> Control:
    assert isinstance(entry.change, Control)
    return entry.change


def _measure(
    model: OnlineModel,
    block: _Block,
    scores: NDArray[np.float64],
    probabilities: NDArray[np.float64] | None,
    targets: Targets,
) -> None:
    """Evaluate the prediction of each example: the one just before it was learnt, or, with delayed labels, the served
    one.

    Probabilities are always those just before learning, because the log has no served probabilities.
    """
    n_known = np.array(block.n_known, dtype=np.int64)
    if hidden := model.hidden_columns:  # hidden labels are not evaluated
        scores = scores.copy()
        scores[:, [1 + column for column in hidden]] = np.nan
    if not block.has_late and not block.has_others:
        model.prequential.update(scores, targets, n_known, probabilities)
        return
    for row, (entry, number) in enumerate(zip(block.entries, block.numbers, strict=True)):
        one = slice(row, row + 1)
        update, target = entry.update, targets.part(row, row + 1)
        likely = None if probabilities is None else probabilities[one]
        if block.examples[row].source != "human":
            _measure_other(model, block, row, scores[row])
            continue
        if update.prediction_ids is None or update.served is None:
            model.prequential.update(scores[one], target, n_known[one], likely)
            continue
        id = update.prediction_ids[number - 1]
        if update.answered is not None and model.answers is not None:
            by, example = update.answered[number - 1], update.examples[number - 1]
            alarms = model.answers.measure(by, update.served[number - 1], example, id, model.labelled.parts)
            entry.alarms += [(number, label) for label in alarms]
            continue
        served = update.served[number - 1][: target.n_labels[0]]
        answered = np.zeros((1, scores.shape[1]))
        answered[0, 1 : 1 + len(served)] = served
        given = answered, target, np.array([len(served)], dtype=np.int64)
        if target.complete[0]:
            model.prequential.update(*given, likely)
        else:
            model.labelled.parts.measure(id, model.prequential, *given, likely)


def _measure_other(model: OnlineModel, block: _Block, row: int, scores: NDArray[np.float64]) -> None:
    """Count the prediction of an example whose labels do not come from a person."""
    example, entry, number = block.examples[row], block.entries[row], block.numbers[row]
    columns = np.array(model.labels.lookup(example.y.names), dtype=np.int64)
    known = np.full(len(scores) - 1, -1 if example.y.complete else 0, dtype=np.int8)
    known[block.n_known[row] :] = 0
    inside = (columns >= 0) & (columns < block.n_known[row])
    known[columns[inside]] = example.y.signs[inside]
    margins = scores[1:] - scores[0]
    if entry.update.served is not None:
        if entry.update.answered is not None:
            return  # the columns of a version
        served = entry.update.served[number - 1][: len(margins)]
        margins = np.full(len(margins), np.nan)
        margins[: len(served)] = served
    known[model.hidden_columns] = 0
    unknown = int((example.y.signs[~inside] > 0).sum())
    model.sources.add(example.source, block.learns, margins > 0, known, unknown)


def _decide(
    model: OnlineModel,
    promise: Promise,
    block: _Block,
    scores: NDArray[np.float64],
    probabilities: NDArray[np.float64],
) -> list[Decision]:
    """Return the decision about each example just before it was learnt; count this decision, or the served one if there
    is one.

    A follower counts its own decision, because it serves no decisions.
    """
    likely, scores, parents = model.for_promise(probabilities, scores)
    if not block.learns:
        return promise.decide(likely, scores, parents)
    targets, complete_targets, hidden = block.targets, np.array(block.complete_targets), model.hidden_columns
    if not block.has_late and not block.has_others:
        return promise.learn(likely, scores, targets, complete_targets, parents, hidden)
    decisions: list[Decision] = []
    for row, (entry, number) in enumerate(zip(block.entries, block.numbers, strict=True)):
        one, target, served = slice(row, row + 1), targets.part(row, row + 1), entry.update.decisions
        if block.examples[row].source != "human":
            decisions += promise.decide(likely[one], scores[one], parents)
            continue
        if entry.update.prediction_ids is None or entry.update.served is None:
            decisions += promise.learn(likely[one], scores[one], target, complete_targets[one], parents, hidden)
            continue
        decisions += promise.decide(likely[one], scores[one], parents)
        if served is not None and (decision := served[number - 1]) is not None:
            promise.learn_served(decision, target, block.complete_targets[row], hidden)
    return decisions


def _count_labels(model: OnlineModel, block: _Block) -> None:
    """Count the teacher's complete labels of predictions that were served under the promise of parity, and the labels
    of people."""
    promises, hidden = model.promises, set(model.hidden_columns)
    for row, (entry, number) in enumerate(zip(block.entries, block.numbers, strict=True)):
        update, example = entry.update, block.examples[row]
        if promises.parity is None or example.source not in (promises.parity.target.of, "human"):
            continue
        if update.prediction_ids is None or update.served is None or update.deferrals is None:
            continue
        if (deferral := update.deferrals[number - 1]) is None:
            continue
        target = block.targets.part(row, row + 1)
        served = update.served[number - 1][: target.n_labels[0]]  # forgotten examples may have had other labels
        answer = set(np.flatnonzero(served > 0).tolist()) - hidden
        truth = {column: sign > 0 for column, sign in zip(target.indices.tolist(), target.signs.tolist(), strict=True)}
        truth = {column: true for column, true in truth.items() if column not in hidden}
        columns = np.array(model.labels.lookup(example.y.names), dtype=np.int64)
        n_others = int(((columns < 0) & (example.y.signs > 0)).sum())
        id, complete = update.prediction_ids[number - 1], block.complete_targets[row]
        if example.source != promises.parity.target.of:
            if block.is_first[row]:
                promises.count_person(id, deferral, answer, truth | ({-1: True} if n_others else {}), complete)
            continue
        if not complete:
            continue
        was_open = promises.open
        teacher = [column for column, true in truth.items() if true]
        promises.count_teacher(id, deferral, answer, teacher, n_others)
        if promises.open != was_open:
            entry.openings.append(promises.open)


def _repeats_key(entry: _Entry, others: Iterable[_Entry]) -> bool:
    key = entry.update.key
    return key is not None and any(other.update.key is not None and other.update.key.key == key.key for other in others)


def _check_examples(model: OnlineModel, update: Update, skipped: int) -> None:
    projection = DryRun(model)
    try:
        for example in update.examples[skipped:]:
            projection.check(example)
    except InvalidExample as error:
        raise InvalidExample(skipped + error.index, error.path, error.detail) from error
