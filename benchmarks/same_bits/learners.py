"""Online learners of `manylabel_core`: scores, probabilities, alarms and metrics of every kind of step and option."""

import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import manylabel_core
from benchmarks.same_bits import streams
from benchmarks.same_bits.digest import print_digests
from manylabel_core.rows import as_rows, as_targets

STEPS: dict[str, list[dict[str, Any]]] = {
    "FALT": [{}, *({"step": step} for step in ("adaptive", "implicit", "gradient"))],
    "SALT": [{}, *({"step": step} for step in ("implicit", "gradient"))],
    "KernelFALT": [{}, {"step": "implicit"}, {"step": "gradient"}],
    "KernelSALT": [{}, {"step": "implicit"}, {"step": "gradient"}],
    "PassiveAggressive": [{}, {"variant": "PA-II"}, {"C": 0.1}],
    "KernelPassiveAggressive": [{}, {"variant": "PA-II"}],
}
PASSES: list[dict[str, Any]] = [{"passes": 1}, {"passes": 3}]
SPACES: dict[str, list[dict[str, Any]]] = {
    "KernelFALT": [{}, *({"budget": 40, "strategy": name} for name in ("project", "nystroem"))],
    "KernelSALT": [{"budget": 40, "strategy": "nystroem"}],
}
SPACES["KernelPassiveAggressive"] = SPACES["KernelFALT"]
KERNELS: list[dict[str, Any]] = [{"kernel": "linear"}, {"kernel": "poly", "degree": 3, "coef0": 0.5, "gamma": 0.3}]
OPTIONS: list[dict[str, Any]] = [
    *({"scaling": scaling} for scaling in ("auto", "none", "unit")),
    *({"optimise": measure} for measure in ("none", "micro_f1", "macro_f1", "hamming")),
    {"calibrate": False},
    *({"drift": "adwin", "on_drift": reaction} for reaction in (None, "raise", "restart")),
    {"fit_intercept": False},
    {"fit_intercept": True, "intercept_scaling": 1.5},
    {"dtype": "float64"},
    {"eta": 0.07},
    {"delta": 0.3},
    {"gamma": 0.2},
]
MIXTURES = 4
"""Number of further cases of each kind with several options, drawn from a seed."""


def kinds(name: str) -> Iterator[dict[str, Any]]:
    """Return the kinds of models and steps of a learner."""
    steps = STEPS[name] + (PASSES if "eta" in _defaults(name) else [])
    for step, space in product(steps, SPACES.get(name, [{}])):
        yield {**step, **space}
    if name.startswith("Kernel"):
        for kernel, space in product(KERNELS, SPACES[name]):
            yield {**kernel, **space}


def options(name: str, kind: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the options: none, each alone, and mixtures."""
    possible = [option for option in OPTIONS if set(option) <= set(_defaults(name))]
    rng = random.Random(f"{name}{sorted(kind.items())}")
    yield {}
    yield from possible
    for _ in range(MIXTURES):
        yield {key: value for option in rng.sample(possible, 4) for key, value in option.items()}


def make(name: str, parameters: Mapping[str, Any]) -> Any:
    """Return a learner."""
    return getattr(manylabel_core, name)(**parameters)


def outcome(name: str, parameters: Mapping[str, Any], stream: Callable[[], list[streams.Part]]) -> dict[str, Any]:
    """Learn a stream in parts, and return all intermediate and final results."""
    learner, measures = make(name, parameters), manylabel_core.Prequential(window=100)
    parts = stream()
    said: dict[str, list[Any]] = {"scores": [], "probabilities": [], "alarms": []}
    for part in parts:
        rows, width = as_rows(part.X, learner.dtype)
        targets, before = as_targets(part.Y, part.known), learner.n_labels_
        _pipeline(learner).grow(width, part.Y.shape[1])
        for told, value in zip(said.values(), _learn(learner, rows, targets), strict=True):
            told.append(value)
        measures.update(said["scores"][-1], targets, np.full(len(part.Y), before, np.int64))
    rows, _ = as_rows(parts[-1].X, learner.dtype)
    scores = _pipeline(learner).score(rows)
    alarms = learner.alarms()
    likely = _pipeline(learner).probabilities(scores) if learner.calibrate else np.zeros(0)
    return {
        **said,
        "measures": measures.measures(),
        "final scores": scores,
        "final probabilities": likely,
        "predictions": learner.predict(parts[-1].X),
        "all alarms": [np.asarray(alarms.counts), np.asarray(alarms.last)],
    }


def _pipeline(learner: Any) -> Any:
    """The pipeline; the learner itself in a checkout whose learners have no public one."""
    return getattr(learner, "pipeline", learner)


def _learn(learner: Any, rows: Any, targets: Any) -> tuple[Any, Any, Any]:
    """Return scores, probabilities and alarms of one call."""
    if hasattr(type(learner), "sounded"):  # older checkouts return separate results
        likely = np.zeros((len(targets.complete), learner.n_labels_)) if learner.calibrate else None
        scores, alarms = learner.learn(rows, targets, likely), learner.sounded
    else:
        asked = {"probabilities": True} if learner.calibrate else {}
        result = _pipeline(learner).learn(rows, targets, **asked)
        scores, likely, alarms = result.scores, result.probabilities, result.alarms
    likely = likely if learner.calibrate else np.zeros(0)
    return scores, likely, np.asarray(alarms, dtype=np.int64).reshape(-1, 2)


def _defaults(name: str) -> dict[str, Any]:
    names: dict[str, Any] = getattr(manylabel_core, name)().get_params()
    return names


def _cases() -> dict[str, Callable[[], Mapping[str, Any]]]:
    return {
        f"{name} { ({**kind, **option}) } {stream.__name__}": partial(outcome, name, {**kind, **option}, stream)
        for name in STEPS
        for kind in kinds(name)
        for option in options(name, kind)
        for stream in (streams.dense, streams.words)
    }


if __name__ == "__main__":
    print_digests(_cases())
