"""Schemas of jobs: the JSON that a client orders one with, and is told about one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from manylabel_core.batch.catalogue import TRAINERS
from manylabel_service import names
from manylabel_service.jobs.spec.measures import Measure
from manylabel_service.jobs.spec.trainers import PARAMS, complete
from manylabel_service.trained.version import Promote

MAX_TRIALS = 500
"""Maximum trials of one search."""
MAX_SEARCHED = 20
"""Parameters that one search varies."""

State = Literal["queued", "running", "succeeded", "failed", "cancelled"]
ENDED = frozenset[State](("succeeded", "failed", "cancelled"))

Name = Annotated[str, Field(strict=True, pattern=names.PATTERN)]
Split = Annotated[str, Field(strict=True, min_length=1, max_length=64)]
"""A split of the data set, as train or test; all is every row."""
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Plain = Annotated[str, Field(strict=True, max_length=256)] | bool | int | Number | None
"""A value of a parameter in a search."""


class _RequestModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class _ResponseModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Rows(_RequestModel):
    """Rows of a data set."""

    dataset: Name
    """The data set."""
    split: Split | None = None
    """One of its splits, or all; null is all rows."""


class DataOfSet(Rows):
    """Training data from a data set; of one with the splits train and test, null takes train."""

    unlabelled: Rows | None = None
    """Further rows, whose labels are not looked at: for trainers that learn from unlabelled examples too."""


class DataOfStream(_RequestModel):
    """Training data from the log of an online model: the latest examples that it learnt."""

    stream: Name
    """The model."""
    last: Annotated[int, Field(strict=True, ge=1, le=10_000_000)]
    """Maximum number of examples taken, the latest."""
    minimum: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] | None = None
    """With fewer examples the job fails. Null: with fewer than `last`, or than the model has learnt if that is less."""

    @model_validator(mode="after")
    def _ordered(self) -> DataOfStream:
        if self.minimum is not None and self.minimum > self.last:
            raise ValueError(f"minimum must be at most last, {self.last}")
        return self


class Range(_RequestModel):
    """Numbers to draw from; whole ones if both ends are."""

    low: Annotated[int, Field(strict=True)] | Number
    """The least."""
    high: Annotated[int, Field(strict=True)] | Number
    """The greatest."""
    log: Annotated[bool, Field(strict=True)] = False
    """Whether their logarithm is drawn evenly; else the number itself."""

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.low >= self.high:
            raise ValueError("low must be below high")
        if self.log and self.low <= 0:
            raise ValueError("low must be above 0 where log is true")
        return self


_Name = Annotated[str, Field(min_length=1, max_length=64)]
_Values = Annotated[list[Plain], Field(min_length=1, max_length=MAX_TRIALS)]


class _Search(_RequestModel):
    folds: Annotated[int, Field(strict=True, ge=2, le=20)] = 5
    """Parts of the rows, each of which is predicted by a model of the others."""
    measure: Measure = "micro_f1"
    """This measure decides which params are best, by its mean over the folds."""


class GridSearch(_Search):
    """Every combination of the values given."""

    kind: Literal["grid"]
    """A grid search tries every combination of the values."""
    params: Annotated[dict[_Name, _Values], Field(min_length=1, max_length=MAX_SEARCHED)] = Field(default_factory=dict)
    """Each parameter has these values; the others are those of the job's `params`. Without it: `search` of
    `GET /v1/trainers`, and where the kernel is `rbf`, its `rbf_search`."""

    @model_validator(mode="after")
    def _not_too_many(self) -> GridSearch:
        if self.n_trials > MAX_TRIALS:
            raise ValueError(f"params must have at most {MAX_TRIALS} combinations of values, not {self.n_trials:,}")
        return self

    @property
    def n_trials(self) -> int:
        """The number of combinations."""
        product = 1
        for values in self.params.values():
            product *= len(values)
        return product


class RandomSearch(_Search):
    """Combinations drawn at random, by the job's `seed`."""

    kind: Literal["random"]
    """A random search draws combinations of values."""
    trials: Annotated[int, Field(strict=True, ge=1, le=MAX_TRIALS)]
    """Number of combinations tried."""
    params: Annotated[dict[_Name, _Values | Range], Field(min_length=1, max_length=MAX_SEARCHED)] = Field(
        default_factory=dict
    )
    """Each parameter has values to choose from, or a range of numbers. Without it: `search` of `GET /v1/trainers`, and
    where the kernel is `rbf`, its `rbf_search`."""

    @property
    def n_trials(self) -> int:
        """The number of combinations drawn."""
        return self.trials


Search = Annotated[GridSearch | RandomSearch, Field(discriminator="kind")]


def _kind_of_data(value: Any) -> str:
    given = value.keys() if isinstance(value, dict) else vars(value) if isinstance(value, BaseModel) else ()
    return "stream" if "stream" in given else "dataset"


def _kind_of_holdout(value: Any) -> str:
    return "share" if isinstance(value, int | float) and not isinstance(value, bool) else "rows"


Data = Annotated[
    Annotated[DataOfSet, Tag("dataset")] | Annotated[DataOfStream, Tag("stream")], Discriminator(_kind_of_data)
]
Share = Annotated[float, Field(strict=True, gt=0, lt=1, allow_inf_nan=False)]
Holdout = Annotated[Annotated[Share, Tag("share")] | Annotated[Rows, Tag("rows")], Discriminator(_kind_of_holdout)]


class JobSpec(_RequestModel):
    """A job as it is ordered."""

    trainer: Annotated[str, Field(strict=True, max_length=64, json_schema_extra={"enum": sorted(PARAMS)})]
    """The trainer is one of `GET /v1/trainers`."""
    params: dict[str, Any] = Field(default_factory=dict, validate_default=True)
    """Its parameters; those left out get their defaults."""
    data: Data
    """The job learns from these rows."""
    holdout: Holdout | None = None
    """On what the result is measured: a share of the rows, which are then not learnt from, or other rows. Null: on the
    split test of the data set if the data are its split train, else not at all."""
    seed: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] = 0
    """The seed is that of all that is random: the same seed and data give the same result."""
    search: Search | None = None
    """Find the best params first, by cross-validation on the rows that are learnt from."""
    model: Name
    """The model whose next version the result becomes; made if there is none."""
    promote: Promote = "if_better"
    """When that version is served. `if_better`: at once, if its fit converged, it was measured on rows that it has not
    learnt, its features and scaling are those of the version served, and its micro-F1 is not below that version's on
    the same held-out rows. `always`: at once, in any case. `never`: only when you promote it."""

    @field_validator("trainer")
    @classmethod
    def _known(cls, trainer: str) -> str:
        if trainer not in PARAMS:
            raise PydanticCustomError("trainer", "must be one of {known}", {"known": ", ".join(sorted(PARAMS))})
        return trainer

    @field_validator("params")
    @classmethod
    def _complete(cls, params: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        trainer = info.data.get("trainer")
        return params if trainer is None else complete(trainer, params)

    @field_validator("search")
    @classmethod
    def _with_space(cls, search: Search | None, info: ValidationInfo) -> Search | None:
        trainer, params = info.data.get("trainer"), info.data.get("params")
        if search is None or search.params or trainer is None or params is None:
            return search
        return search.model_copy(update={"params": TRAINERS[trainer].searched(params)})


class Trials(_ResponseModel):
    """The trials say how far a search is."""

    done: int
    total: int


class Best(_ResponseModel):
    """The best trial so far."""

    params: dict[str, Any]
    score: float


class Progress(_ResponseModel):
    """The progress says how far a job is."""

    iteration: int
    """Number of iterations that the current fit has done."""
    objective: float | None
    """The objective is what the fit minimises or maximises; null before the first value."""
    gap: float | None
    """The relative distance to the optimum is at most this; null where that is not known."""
    seconds: float
    """Time spent on this fit."""
    fold: int | None
    """The fit under way leaves out this fold of the rows, counted from 1; null for the fit of all rows."""
    folds: int | None
    """Number of folds: of a trial, or for the thresholds and probabilities of the model; null for none."""
    checkpoint: int | None
    """The iteration from which it would go on if it were interrupted now; null for the beginning."""
    trials: Trials | None
    """A search has its trials here."""
    best: Best | None
    """A search has here the best params so far."""


class LabelMeasures(_ResponseModel):
    """These measures say how well one label is predicted."""

    f1: float
    precision: float
    recall: float
    support: int
    """Rows that have the label."""


class HeldOut(_ResponseModel):
    """These measures say how well the result predicts rows that it has not learnt from."""

    rows: int
    measures: dict[str, float]
    baseline: dict[str, float]
    """The labels frequent in the rows learnt, predicted for every row held out, would have reached this."""
    labels: dict[str, LabelMeasures]
    """The 200 most frequent labels have their measures here, at most; a version has those of all."""


class Trial(_ResponseModel):
    """One combination of a search."""

    params: dict[str, Any]
    """The values searched."""
    score: float
    """Mean over the folds."""
    scores: list[float]
    """Each fold has its score."""
    seconds: float


class StreamSample(_ResponseModel):
    """Examples that a job sampled from the log of its model."""

    asked: int
    """Maximum number of examples requested: `last`."""
    rows: int
    """Number of examples sampled."""
    learnt: int
    """Number of examples that the model had learnt, without those undone by a rollback."""
    partial: int
    """Examples left out, among the latest, because some of their labels are not known."""
    rolled_back: int
    """Examples left out because the model has forgotten them by a rollback since."""
    position: str
    """The last entry of the log that was looked at is at this position."""
    text: str
    """All this in words."""


class Result(_ResponseModel):
    """The result of a job: a version of a model."""

    model: str
    version: int
    rows: int
    """Learnt from."""
    converged: bool
    """Whether the fit came to its end before it had used up its iterations."""
    gap: float | None
    """Relative distance from the optimum at its end, at most; null where that is not known."""
    promoted: bool
    """Whether the version was served at once."""
    not_promoted_because: str | None
    """The reasons why `if_better` did not serve it; else null."""
    worse: str | None = None
    """By how much it measured lower, on the same rows, than the version that it replaced; else null."""
    held_out: HeldOut | None
    params: dict[str, Any]
    """Those of the model: of a search, the best."""
    trials: list[Trial]
    seconds: float
    """Time spent on the fit of the model, and on those for its thresholds and probabilities."""


class JobFailure(_ResponseModel):
    """A failure says why a job failed."""

    code: str
    detail: str


class LogLine(_ResponseModel):
    """A line of a job's log."""

    n: int
    """Lines are numbered from 1."""
    time: str
    """RFC 3339, UTC."""
    text: str


class Job(_ResponseModel):
    """A job as it is now."""

    id: str
    state: State
    trainer: str
    params: dict[str, Any]
    data: DataOfSet | DataOfStream
    holdout: float | Rows | None
    search: GridSearch | RandomSearch | None
    seed: int
    model: str
    promote: Promote
    created: str
    """RFC 3339, UTC, as the other times."""
    started: str | None
    ended: str | None
    attempt: int
    """Counts from 1; one more each time that a worker died."""
    sampled: StreamSample | None
    """Examples that a job for a stream has sampled; null before, and for datasets."""
    progress: Progress | None
    result: Result | None
    error: JobFailure | None


def names_of(job: JobSpec | Job) -> set[str]:
    """Return the names of the models and data sets that a job reads and makes."""
    if isinstance(job.data, DataOfStream):
        sources = [job.data.stream]
    else:
        sources = [job.data.dataset, *([job.data.unlabelled.dataset] if job.data.unlabelled else [])]
    held_out = [job.holdout.dataset] if isinstance(job.holdout, Rows) else []
    return {job.model, *sources, *held_out}
