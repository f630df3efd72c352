"""Rows within the values that a state variable of an older PySpark is given."""

from typing import Any

import pytest
from pyspark.sql import Row

from statemigrate.native.worker import taking_rows, without_rows


class Recorder:
    """Takes what a state variable takes."""

    def __init__(self) -> None:
        self.written: list[Any] = []

    def get(self) -> Any:
        return Row(item=Row(name="a"))

    def update(self, value: Any) -> None:
        self.written.append(value)

    def updateValue(self, key: Any, value: Any) -> None:
        self.written.append((key, value))


def classes(value: Any) -> Any:
    """The value with each container's class."""
    if isinstance(value, dict):
        return {key: classes(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [classes(each) for each in value]
    return value


def test_rows_at_any_depth_become_tuples_and_nothing_else_changes() -> None:
    value = (Row(name="a", at=None), [Row(n=1), (2,)], {"k": Row(n=[Row(m=3)])}, "text", 4.5)
    expected = (("a", None), [(1,), (2,)], {"k": ([(3,)],)}, "text", 4.5)
    assert without_rows(value) == expected
    assert classes(without_rows(value)) == classes(expected)


def test_an_older_variable_is_given_tuples() -> None:
    recorder = Recorder()
    state = taking_rows(recorder, "4.1.4")
    state.update((Row(name="a"), 1))
    state.updateValue(("k",), (Row(name="b"), 2))
    state.updateValue(key=("l",), value=(Row(name="c"), 3))
    assert recorder.written == [
        (("a",), 1),
        (("k",), (("b",), 2)),
        (("l",), (("c",), 3)),
    ]
    assert type(recorder.written[0][0]) is tuple
    assert state.get() == Row(item=Row(name="a"))


@pytest.mark.parametrize("version", ["4.2.0", "4.3.1", "5.0.0.dev0"])
def test_a_newer_variable_stays_sparks_own(version: str) -> None:
    recorder = Recorder()
    assert taking_rows(recorder, version) is recorder
