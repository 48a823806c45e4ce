"""Schemas of jobs: the JSON of a submitted job and of its status."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from manylabel_core.batch.catalogue import TRAINERS
from manylabel_core.label_health import Kind
from manylabel_service import names
from manylabel_service.documented import Documented
from manylabel_service.jobs.spec.measures import Measure
from manylabel_service.jobs.spec.trainers import PARAMS, complete
from manylabel_service.trained.version import Promote

MAX_TRIALS = 500
"""Maximum number of trials of one search."""
MAX_SEARCHED = 20
"""Maximum number of parameters that one search varies."""

State = Literal["queued", "running", "succeeded", "failed", "cancelled"]
ENDED = frozenset[State](("succeeded", "failed", "cancelled"))

Name = Annotated[str, Field(strict=True, pattern=names.PATTERN)]
Split = Annotated[str, Field(strict=True, min_length=1, max_length=64)]
"""Split of a dataset, such as train or test; `all` for every row."""
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Plain = Annotated[str, Field(strict=True, max_length=256)] | bool | int | Number | None
"""A value of a parameter in a search."""


class _RequestModel(Documented):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _ResponseModel(Documented):
    model_config = ConfigDict(extra="forbid")


class Rows(_RequestModel):
    """Rows of a dataset."""

    dataset: Name
    """Name of the dataset."""
    split: Split | None = None
    """Split, or `all`; null for all rows."""


class DataOfSet(Rows):
    """Training data from a dataset. If the split is null, and the dataset has the splits train and test, train is
    used."""

    unlabelled: Rows | None = None
    """Additional rows, whose labels are ignored, for trainers that learn from unlabelled examples."""


class DataOfStream(_RequestModel):
    """Training data from the log of an online model: the latest examples that it learnt."""

    stream: Name
    """Name of the model."""
    last: Annotated[int, Field(strict=True, ge=1, le=10_000_000)]
    """Maximum number of the latest examples to sample."""
    minimum: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] | None = None
    """Minimum number of examples; with fewer, the job fails. Null: `last`, or the number of examples that the model has
    learnt if that is lower."""

    @model_validator(mode="after")
    def _ordered(self) -> DataOfStream:
        if self.minimum is not None and self.minimum > self.last:
            raise ValueError(f"minimum must be at most last, {self.last}")
        return self


class Range(_RequestModel):
    """Range of numbers to draw from; integers are drawn if both ends are integers."""

    low: Annotated[int, Field(strict=True)] | Number
    """Lower end."""
    high: Annotated[int, Field(strict=True)] | Number
    """Upper end."""
    log: Annotated[bool, Field(strict=True)] = False
    """Whether to draw the logarithm uniformly instead of the number."""

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.low >= self.high:
            raise ValueError("low must be below high")
        if self.log and self.low <= 0:
            raise ValueError("low must be above 0 if log is true")
        return self


_Name = Annotated[str, Field(min_length=1, max_length=64)]
_Values = Annotated[list[Plain], Field(min_length=1, max_length=MAX_TRIALS)]


class _Search(_RequestModel):
    folds: Annotated[int, Field(strict=True, ge=2, le=20)] = 5
    """Number of cross-validation folds."""
    measure: Measure = "micro_f1"
    """Metric that ranks the parameters, by its mean over the folds."""


class GridSearch(_Search):
    """Grid search: every combination of the values."""

    kind: Literal["grid"]
    """Kind of search."""
    params: Annotated[dict[_Name, _Values], Field(min_length=1, max_length=MAX_SEARCHED)] = Field(default_factory=dict)
    """Values of each searched parameter; other parameters have the values in the job's `params`. Default: `search` of
    the trainer in `GET /v1/trainers`, and with the kernel `rbf` also `rbf_search`."""

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
    """Random search: combinations drawn with the job's `seed`."""

    kind: Literal["random"]
    """Kind of search."""
    trials: Annotated[int, Field(strict=True, ge=1, le=MAX_TRIALS)]
    """Number of combinations tried."""
    params: Annotated[dict[_Name, _Values | Range], Field(min_length=1, max_length=MAX_SEARCHED)] = Field(
        default_factory=dict
    )
    """Values to choose from, or a range of numbers, for each searched parameter. Default: `search` of the trainer in
    `GET /v1/trainers`, and with the kernel `rbf` also `rbf_search`."""

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
    """Request to train a model."""

    trainer: Annotated[str, Field(strict=True, max_length=64, json_schema_extra={"enum": sorted(PARAMS)})]
    """Name of a trainer in `GET /v1/trainers`."""
    params: dict[str, Any] = Field(default_factory=dict, validate_default=True)
    """Parameters of the trainer; omitted ones get their defaults."""
    data: Data
    """Training data."""
    holdout: Holdout | None = None
    """Rows for evaluation: a share of the rows, which are then not learnt, or other rows. Null: the split test if the
    training data are the split train of the same dataset, else no rows."""
    seed: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] = 0
    """Random seed: the same seed and data give the same result."""
    search: Search | None = None
    """Hyperparameter search by cross-validation on the training rows."""
    model: Name
    """Model that gets the result as its next version; created if it does not exist."""
    promote: Promote = "if_better"
    """When to serve the version. `if_better`: if its fit converged, it was evaluated on rows that it has not learnt,
    its features and scaling are those of the served version, and its micro-F1 on the same held-out rows is not lower.
    `always`: at once. `never`: only by a promotion."""

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


MAX_DOUBTS = 1_000
"""Maximum number of doubts in a list."""


class SearchSpec(JobSpec):
    """Work on the examples of an online model that does not fit a version; `model` is this online model."""

    @field_validator("trainer")
    @classmethod
    def _known(cls, trainer: str) -> str:
        return trainer


class DoubtsSpec(SearchSpec):
    """Search for the doubtful labels of the examples of an online model."""

    trainer: Literal["doubts"] = "doubts"

    @field_validator("params")
    @classmethod
    def _complete(cls, params: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if params.keys() != {"label", "top"}:
            raise ValueError("params must have exactly the fields label and top")
        return params

    @property
    def label(self) -> str | None:
        """The only label that is judged; None for all."""
        label: str | None = self.params["label"]
        return label


class DryRunSpec(SearchSpec):
    """Dry run of a suggested change of labels."""

    trainer: Literal["dry_run"] = "dry_run"

    @field_validator("params")
    @classmethod
    def _complete(cls, params: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if params.keys() != {"kind", "label", "other"}:
            raise ValueError("params must be kind, label and other")
        return params


class Trials(_ResponseModel):
    """Progress of a search."""

    done: int
    total: int


class Best(_ResponseModel):
    """Best trial so far."""

    params: dict[str, Any]
    score: float


class Progress(_ResponseModel):
    """Progress of a job."""

    iteration: int
    """Number of iterations of the current fit."""
    objective: float | None
    """Value that the fit minimises or maximises; null before the first one."""
    gap: float | None
    """Upper bound of the relative distance from the optimum; null if unknown."""
    seconds: float
    """Seconds spent on this fit."""
    fold: int | None
    """Fold that the current fit omits, from 1; null for the fit of all rows."""
    folds: int | None
    """Number of folds, of a trial or for thresholds and probabilities; null for none."""
    checkpoint: int | None
    """Iteration of the last checkpoint, from which the fit would resume; null for the beginning."""
    trials: Trials | None
    """Trials of a search; null without one."""
    best: Best | None
    """Best parameters of a search so far; null without one."""


class LabelMeasures(_ResponseModel):
    """Metrics of one label."""

    f1: float
    precision: float
    recall: float
    support: int
    """Number of rows with the label."""


class HeldOut(_ResponseModel):
    """Metrics on rows that the result has not learnt."""

    rows: int
    measures: dict[str, float]
    baseline: dict[str, float]
    """Metrics of predicting the most frequent training labels for every held-out row."""
    labels: dict[str, LabelMeasures]
    """Metrics of at most the 200 most frequent labels; the version has the metrics of all labels."""


class Trial(_ResponseModel):
    """One combination of a search."""

    params: dict[str, Any]
    """Values of the searched parameters."""
    score: float
    """Mean over the folds."""
    scores: list[float]
    """Score of each fold."""
    seconds: float


class StreamSample(_ResponseModel):
    """Examples that a job sampled from the log of its model."""

    asked: int
    """Maximum number of examples requested: `last`."""
    rows: int
    """Number of examples sampled."""
    learnt: int
    """Number of examples that the model had learnt, without examples that a rollback undid."""
    partial: int
    """Number of latest examples omitted because some of their labels are unknown."""
    rolled_back: int
    """Number of examples omitted because a later rollback undid them."""
    position: str
    """Position of the last log entry read."""
    text: str
    """Description of the sample in words."""


class Result(_ResponseModel):
    """The result of a job: a version of a model."""

    model: str
    version: int
    rows: int
    """Number of rows learnt."""
    converged: bool
    """Whether the fit converged before it used up its iterations."""
    gap: float | None
    """Upper bound of the relative distance from the optimum at the end; null if unknown."""
    promoted: bool
    """Whether the version was served at once."""
    not_promoted_because: str | None
    """Reasons why `if_better` did not serve the version; else null."""
    worse: str | None = None
    """Amount by which the version scored lower than the one it replaced, on the same rows; else null."""
    held_out: HeldOut | None
    params: dict[str, Any]
    """Parameters of the model; the best ones of a search."""
    trials: list[Trial]
    seconds: float
    """Seconds spent on the fit of the model, its thresholds and its probabilities."""


class TriedSuggestion(_ResponseModel):
    """Suggestion of a dry run."""

    kind: Kind
    """Kind of the suggestion."""
    label: str
    """Label to change."""
    other: str | None
    """Label to merge into, or parent."""


class LabelInDryRun(_ResponseModel):
    """Metrics of a label in a replay."""

    f1: float | None
    """F1; null if undefined."""
    examples: float
    """Weighted number of examples with the label."""


class MetricsOfDryRun(_ResponseModel):
    """Prequential metrics of a replay."""

    micro_f1: float | None
    """Micro-F1 of all labels."""
    macro_f1: float | None
    """Macro-F1 of all labels."""
    labels: dict[str, LabelInDryRun]
    """Metrics of the labels of the suggestion that exist in the replay."""
    either_name: float | None
    """F1 of the two labels of a merge, counted as one label of which either name is a hit; null for other
    suggestions."""


class DryRunResult(_ResponseModel):
    """The result of a dry run of a suggestion: metrics of a replay of the examples without and with it."""

    suggestion: TriedSuggestion
    position: str
    """Position of the log up to which the examples were examined."""
    examples: int
    """Number of examples examined."""
    changes: int
    """Number of these examples whose labels would change."""
    conflicts: list[str]
    """Descriptions of examples that do not fit the change."""
    before: MetricsOfDryRun
    """Metrics without the change."""
    after: MetricsOfDryRun
    """Metrics with the change from the first example on."""


class JobFailure(_ResponseModel):
    """Reason why a job failed."""

    code: str
    detail: str


class LogLine(_ResponseModel):
    """Line of a job's log."""

    n: int
    """Number of the line, from 1."""
    time: str
    """RFC 3339, UTC."""
    text: str


class Job(_ResponseModel):
    """Status of a job."""

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
    """Creation time (RFC 3339, UTC, like all times)."""
    started: str | None
    ended: str | None
    attempt: int
    """Number of the attempt, from 1; one more after each crash of a worker."""
    sampled: StreamSample | None
    """Examples sampled from a stream; null before sampling, and for datasets."""
    progress: Progress | None
    result: Result | DryRunResult | None
    error: JobFailure | None


def names_of(job: JobSpec | Job) -> set[str]:
    """Return the names of the models and datasets that a job reads or creates."""
    if isinstance(job.data, DataOfStream):
        sources = [job.data.stream]
    else:
        sources = [job.data.dataset, *([job.data.unlabelled.dataset] if job.data.unlabelled else [])]
    held_out = [job.holdout.dataset] if isinstance(job.holdout, Rows) else []
    return {job.model, *sources, *held_out}
