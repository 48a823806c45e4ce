"""A fit in segments: the same end wherever it is interrupted, and what it tells on the way."""

from typing import Any

import numpy as np
import pytest
from tests.core.batch.support import LEARNERS, given, learner, related
from tests.support.cases import for_each

from manylabel_core.batch.segments import GROWTH, LEAST, Reached, first_segment, fit_in_segments

X, Y = related(60, 6, 3, own=1.0, noise=1.0)

RESUMED = "prml", "prbr", "lsa_mml"
"""Learners that lose nothing when they resume."""


def run(name: str, estimator: Any, first: int, **options: Any) -> Reached:
    return fit_in_segments(
        estimator,
        lambda progress: estimator.fit(given(name, X), Y, progress=progress),
        first,
        **options,
    )


@pytest.mark.filterwarnings("ignore:not converged")
@pytest.mark.parametrize("name", LEARNERS)
def test_a_fit_resumed_from_any_checkpoint_is_bit_identical(name):
    undisturbed, checkpoints = learner(name), []
    end = run(name, undisturbed, 2, checkpoint=lambda at: checkpoints.append((at, undisturbed.to_bytes())))
    assert len(checkpoints) >= 2, "the case is too easy to be cut"
    for at, data in checkpoints:
        again = type(undisturbed).from_bytes(data)
        reached = run(name, again, 2, reached=at)
        assert again.to_bytes() == undisturbed.to_bytes()
        assert (reached.segments, reached.iterations) == (end.segments, end.iterations)


@pytest.mark.filterwarnings("ignore:not converged")
@pytest.mark.parametrize(("name", "first"), [*((name, 10_000) for name in LEARNERS), *((name, 2) for name in RESUMED)])
def test_segments_give_the_model_of_a_plain_fit(name, first):
    cut, whole = learner(name), learner(name)
    reached = run(name, cut, first)
    whole.fit(given(name, X), Y)
    assert (reached.segments == 1) == (first == 10_000)
    cut.n_iter_ = whole.n_iter_  # does not include the rounds of MLRL that had no effect
    assert cut.to_bytes() == whole.to_bytes()


@pytest.mark.filterwarnings("ignore:not converged")
@pytest.mark.parametrize("name", ["m3l", "prbr"])
@pytest.mark.parametrize(("max_iter", "segments"), [(7, 3), (2, 1)])
def test_max_iter_holds_for_all_segments_together(name, max_iter, segments):
    estimator = learner(name).set_params(max_iter=max_iter)
    reached = run(name, estimator, 2)
    assert reached.iterations == estimator.n_iter_ == estimator.max_iter == max_iter
    assert reached.segments == segments


@pytest.mark.filterwarnings("ignore:not converged")
@pytest.mark.parametrize("fails", ["fit", "checkpoint"])
def test_parameters_are_as_they_were_after_an_error(fails):
    estimator = learner("m3l")
    before = estimator.get_params()

    def fail(*_):
        raise RuntimeError(fails)

    options = {"checkpoint": fail} if fails == "checkpoint" else {"reached": Reached(1, 5, 0.0), "progress": fail}
    with pytest.raises(RuntimeError, match=fails):
        run("m3l", estimator, 2, **options)
    assert estimator.get_params() == before


def test_iterations_and_seconds_accumulate_over_segments():
    told, checkpoints = [], []
    run("m3l", learner("m3l"), 2, progress=told.append, checkpoint=checkpoints.append)
    iterations = [at.iteration for at in told]
    assert iterations == sorted(iterations)
    assert iterations[-1] > checkpoints[-1].iterations > checkpoints[0].iterations == 2
    seconds = [at.seconds for at in told]
    assert seconds == sorted(seconds)
    lengths = np.diff([at.iterations for at in checkpoints])
    assert list(lengths) == [np.ceil(2 * GROWTH**n) for n in range(1, len(checkpoints))]


def test_resume_data_is_dropped_at_the_end():
    estimator, kept = learner("m3l"), []
    run("m3l", estimator, 2, checkpoint=lambda _: kept.append(hasattr(estimator, "alpha_")))
    assert all(kept)
    assert not hasattr(estimator, "alpha_")
    assert estimator.warm_start is False


@for_each(
    ("options", "expected"),
    [
        ({}, 20),
        ({"passes": 10}, LEAST),
        ({"passes": 10, "least": 1}, 2),
        ({"kernel": "rbf"}, LEAST),
        ({"work": 1.0}, LEAST),
    ],
)
def test_the_first_segment_follows_from_the_size_of_the_data(options, expected):
    data = np.zeros((1000, 100))
    assert first_segment(data, 10, **{"work": 2e7, **options}) == expected
    assert first_segment([data[:, :40], data[:, 40:]], 10, **{"work": 2e7, **options}) == expected
