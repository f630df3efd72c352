"""What is read again, how often, and for how long."""

import pytest

from statemigrate.errors import StorageError
from statemigrate.files.hadoop_failures import CutOffError, whole


def reading(*outcomes):
    """A read with these outcomes, and how often it was asked."""
    asked = []

    def read():
        asked.append(None)
        outcome = outcomes[len(asked) - 1]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return read, asked


def test_what_broke_off_is_read_again_after_a_while():
    read, asked = reading(
        CutOffError("SM-STORAGE-008", "half"), CutOffError("SM-STORAGE-008", "half"), b"whole"
    )
    paused = []
    assert whole(read, paused.append) == b"whole"
    assert len(asked) == 3
    assert paused == pytest.approx([0.1, 0.2])


def test_what_breaks_off_each_time_is_an_error_after_four():
    read, asked = reading(*[CutOffError("SM-STORAGE-008", f"half {number}") for number in range(9)])
    with pytest.raises(CutOffError, match="half 3"):
        whole(read, lambda _: None)
    assert len(asked) == 4


def test_any_other_failure_is_not_read_again():
    read, asked = reading(StorageError("SM-STORAGE-007", "refused"), b"whole")
    with pytest.raises(StorageError, match="refused"):
        whole(read, lambda _: None)
    assert len(asked) == 1


def test_a_connector_that_took_long_by_itself_is_not_asked_again():
    times = iter((0.0, 31.0))
    read, asked = reading(CutOffError("SM-STORAGE-008", "half"), b"whole")
    with pytest.raises(CutOffError):
        whole(read, lambda _: None, lambda: next(times))
    assert len(asked) == 1
