"""Concurrent uploads: their number is limited, and a stalled one gives way."""

import contextlib

import pytest

from manylabel_service.datasets.upload_slots import MAX_UPLOADS, PORTION_BYTES, STILL_SECONDS, Upload, UploadSlots
from manylabel_service.errors import NotReady

MAX_BYTES = 10 * PORTION_BYTES


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def slots(clock: Clock) -> UploadSlots:
    return UploadSlots(MAX_BYTES, clock)


def begun(slots: UploadSlots, stack: contextlib.ExitStack) -> Upload:
    upload = stack.enter_context(slots.upload())
    upload.release = lambda: None
    return upload


def test_an_upload_is_refused_while_all_others_move(slots: UploadSlots, clock: Clock) -> None:
    with contextlib.ExitStack() as stack:
        uploads = [begun(slots, stack) for _ in range(MAX_UPLOADS)]
        clock.now = STILL_SECONDS - 0.1
        with pytest.raises(NotReady), slots.upload():
            pass
        clock.now = STILL_SECONDS
        for upload in uploads[1:]:
            slots.add(upload, 1)  # a byte is no movement
        slots.add(uploads[0], 10)
        with slots.upload():
            assert [upload.gave_way for upload in uploads].count(True) == 1
    with slots.upload():
        pass


def test_the_upload_that_has_stalled_for_longest_gives_way(slots: UploadSlots, clock: Clock) -> None:
    with contextlib.ExitStack() as stack:
        first, second, third = (begun(slots, stack) for _ in range(3))
        slots.add(second, 4 * PORTION_BYTES)
        clock.now = 1.0
        slots.add(first, 3 * PORTION_BYTES)
        clock.now = 1.0 + STILL_SECONDS
        slots.add(third, 3 * PORTION_BYTES)
        assert (first.gave_way, second.gave_way) == (False, False)
        slots.add(third, 1)
        assert (first.gave_way, second.gave_way) == (False, True)


def test_an_upload_does_not_give_way_to_itself(slots: UploadSlots, clock: Clock) -> None:
    with contextlib.ExitStack() as stack:
        slow, other = begun(slots, stack), begun(slots, stack)
        clock.now = 2 * STILL_SECONDS
        slots.add(other, MAX_BYTES - 1)
        with pytest.raises(NotReady):
            slots.add(slow, 2)
        assert not slow.gave_way


def test_a_complete_upload_does_not_give_way(slots: UploadSlots, clock: Clock) -> None:
    with contextlib.ExitStack() as stack:
        complete, coming = begun(slots, stack), begun(slots, stack)
        slots.add(complete, MAX_BYTES)
        complete.release = None
        clock.now = 100.0
        with pytest.raises(NotReady):
            slots.add(coming, 1)
        assert not complete.gave_way


def test_bytes_are_released_at_the_end_of_an_upload(slots: UploadSlots) -> None:
    for error in (None, ValueError("broken off")):
        with contextlib.suppress(ValueError), slots.upload() as upload:
            slots.add(upload, MAX_BYTES)
            with slots.upload() as other, pytest.raises(NotReady):
                slots.add(other, 1)
            if error is not None:
                raise error
        with slots.upload() as upload:
            slots.add(upload, MAX_BYTES)
            assert upload.n_bytes == MAX_BYTES
