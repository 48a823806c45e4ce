"""The learner of a model with limits has a most of bytes, and no client gets it to take more."""

import random
from typing import Any

import numpy as np
import pytest
from tests.service.online.folds import append, learn, new_model, ulid

from manylabel_service.hosting.examples import Features
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.size_limits import max_learner_bytes
from manylabel_service.online.spec.params import PARAMS
from manylabel_service.online.state import idempotency_window as key_window
from manylabel_service.online.state import labelled_ids as labelled
from manylabel_service.online.state import stream_offsets as stream_lines
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.stream_offsets import StreamPart

LEARNERS: dict[str, dict[str, Any]] = {
    "falt": {"algorithm": "falt"},
    "falt-drift": {"algorithm": "falt", "params": {"drift": "adwin"}},
    "falt-averaged": {"algorithm": "falt", "params": {"optimise": "macro_f1"}},
    "salt": {"algorithm": "salt"},
    "passive-aggressive": {"algorithm": "passive_aggressive"},
    "kernel-falt": {"algorithm": "kernel_falt", "params": {"budget": 7}},
    **{
        f"kernel-{strategy}": {"algorithm": "kernel_falt", "params": {"budget": 8, "strategy": strategy}}
        for strategy in ("project", "nystroem")
    },
    "kernel-salt": {"algorithm": "kernel_salt", "params": {"budget": 8}},
    "kernel-passive-aggressive": {"algorithm": "kernel_passive_aggressive", "params": {"budget": 7}},
}


def test_every_algorithm_is_tested() -> None:
    assert {spec["algorithm"] for spec in LEARNERS.values()} == set(PARAMS)


def limits(features: str, labels: str = "ignore", most_features: int = 40, most_labels: int = 12) -> dict[str, Any]:
    return {
        "limits": {
            "features": {"most": most_features, "policy": features},
            "labels": {"most": most_labels, "policy": labels},
        }
    }


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The idempotency window is soon full."""
    monkeypatch.setattr(key_window, "MAX_KEYS", 8)
    monkeypatch.setattr(key_window, "MAX_ANSWER_BYTES", 2_000)
    monkeypatch.setattr(labelled, "MAX_LABELLED", 9)
    monkeypatch.setattr(stream_lines, "MAX_STREAMS", 3)


def longest(chance: random.Random) -> str:
    """A name of 256 bytes; every other time one that takes four bytes of memory for each of its characters."""
    begin = f"{chance.getrandbits(60):x}" + chance.choice(["", "\N{GRINNING FACE}"])
    return begin + "x" * (256 - len(begin.encode()))


def some(chance: random.Random, most: int) -> list[str]:
    return [longest(chance) if chance.random() < 0.7 else f"n{chance.randrange(30)}" for _ in range(most)]


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("policy", ["reject", "ignore", "hash"])
@pytest.mark.parametrize("spec", LEARNERS.values(), ids=LEARNERS)
def test_no_stream_grows_a_model_beyond_its_bound(spec: dict[str, Any], policy: str) -> None:
    chance = random.Random(7)
    model = new_model(**spec, **limits(policy), window=5)
    bound = max_learner_bytes(model.spec)
    largest = 0
    states: dict[str, bytes] = {}
    for step in range(60):
        examples = []
        for _ in range(chance.randint(1, 6)):
            names = tuple(dict.fromkeys(some(chance, chance.randint(0, 25))))
            x = Features(names, None, np.array([chance.gauss(0, 9) for _ in names], dtype=np.float32))
            examples.append((x, list(dict.fromkeys(some(chance, chance.randint(0, 6))))))
        learn(
            model,
            *examples,
            key=IdempotencyKey(f"key {step}", b"d" * 16),
            want_predictions=True,
            prediction_ids=tuple(ulid(step, place) for place in range(len(examples))),
            stream=StreamPart(f"stream {step}", tuple(range(1, len(examples) + 1))),
        )
        if step % 30 == 10:
            states[model.position] = model.to_bytes()
        if step % 30 == 29:
            append(model, Rollback(chance.choice(list(states))), states)
        largest = max(largest, model.learner.pipeline.nbytes)
        assert model.learner.pipeline.nbytes <= bound
        if step % 10 == 9:
            assert OnlineModel.from_bytes(model.to_bytes()).learner.pipeline.nbytes <= bound
    assert len(model.labels) <= 12
    assert len(model.features) <= 40
    if policy != "reject":  # then few of these updates fit
        # The bound is not far too high: doubled arrays can be half empty, and few names have the maximum length.
        assert largest > bound / 6
        assert (len(model.labels), len(model.features)) == (12, 40)


@pytest.mark.parametrize("policy", ["ignore", "hash"])
def test_new_names_beyond_the_limits_take_no_memory(policy: str) -> None:
    model = new_model(algorithm="salt", **limits(policy, most_features=1_000), window=3)
    sizes = set()
    for number in range(100):
        names = tuple(f"word={number * 1_000 + i}" for i in range(1_000))
        x = Features(names, None, np.ones(len(names), dtype=np.float32))
        learn(model, (x, [f"label {number * 20 + i}" for i in range(20)]))
        if number >= 5:  # the window of the measures is full
            sizes.add(model.nbytes - model.prequential._history.nbytes)  # the history of metrics has a separate bound
    assert model.updates == 100
    assert len(sizes) == 1
    ignored = 99_000 if policy == "ignore" else 0
    assert model.ignored == {"features": ignored, "labels": 100 * 20 - 12}


def test_declared_columns_are_also_a_bound() -> None:
    numbered = max_learner_bytes(new_model(features=3_000, labels=["x", "y"]).spec)
    assert numbered == max_learner_bytes(new_model(**limits("ignore", most_features=3_000, most_labels=2)).spec)
    assert numbered > max_learner_bytes(new_model(features=3_000).spec) > max_learner_bytes(new_model().spec)


def test_the_bound_grows_with_the_parameters() -> None:
    few, *more = [
        max_learner_bytes(new_model(**{**limits("hash"), **changed}).spec)
        for changed in ({}, limits("hash", most_labels=13), limits("hash", most_features=41))
    ]
    assert all(bound > few for bound in more)
    budgets = [new_model(algorithm="kernel_falt", params={"budget": b}, **limits("ignore")).spec for b in (10, 1_000)]
    few, many = (max_learner_bytes(spec) for spec in budgets)
    assert many - few >= 990 * (40 * 8 + 13 * 4)


def test_an_unlimited_number_of_examples_does_not_count_for_the_bound() -> None:
    spec = new_model(algorithm="kernel_falt", **limits("hash")).spec
    assert max_learner_bytes(spec) == spec.learner().pipeline.nbytes_after(40, 12, 0, 0)
