"""The retry policy: the length of waits and the end of the attempts."""

import pytest
from tests.support.cases import for_each

from manylabel_clients import Retry


def test_waits_double_up_to_the_cap() -> None:
    retry = Retry(attempts=6, base_seconds=0.1, cap_seconds=0.5, jitter=0)
    waits = [retry.wait_seconds(failures) for failures in range(1, 7)]
    assert waits == [0.1, 0.2, 0.4, 0.5, 0.5, None]


@pytest.mark.parametrize(("chance", "expected"), [(0.0, 1.0), (0.5, 0.875), (1.0, 0.75)])
def test_jitter_shortens_a_wait(chance: float, expected: float) -> None:
    retry = Retry(base_seconds=1, jitter=0.25, chance=lambda: chance)
    assert retry.wait_seconds(1) == expected


def test_each_wait_has_its_own_jitter() -> None:
    draws = iter([0.0, 1.0])
    retry = Retry(base_seconds=1, cap_seconds=1, jitter=0.5, chance=lambda: next(draws))
    assert [retry.wait_seconds(1), retry.wait_seconds(2)] == [1.0, 0.5]


def test_a_wait_is_at_least_the_retry_after() -> None:
    retry = Retry(base_seconds=0.1, jitter=1, chance=lambda: 1.0)
    assert retry.wait_seconds(1, retry_after_seconds=7) == 7
    eager = Retry(base_seconds=0.1, jitter=1, chance=lambda: 0.0)
    assert eager.wait_seconds(1, retry_after_seconds=7) == pytest.approx(7.1)


def test_a_retry_after_beyond_the_patience_is_given_up() -> None:
    retry = Retry(patience_seconds=60)
    assert retry.wait_seconds(1, retry_after_seconds=60) is not None
    assert retry.wait_seconds(1, retry_after_seconds=61) is None


def test_many_attempts_do_not_overflow() -> None:
    assert Retry(attempts=10**9, cap_seconds=5, jitter=0).wait_seconds(10**6) == 5


@for_each(
    "wrong",
    [
        {"attempts": 0},
        {"base_seconds": -1},
        {"cap_seconds": -1},
        {"patience_seconds": -1},
        {"jitter": 1.5},
        {"jitter": -0.1},
    ],
)
def test_parameters_out_of_range_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Retry(**wrong)  # type: ignore[arg-type]
