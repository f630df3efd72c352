import pytest

from statemigrate.inspect.report_text import counted, duration, size
from statemigrate.quoting import visible, visible_lines


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1 MiB"),
        (61_000_000, "58.2 MiB"),
        (2**30, "1 GiB"),
        (5 * 10**15, "4.4 PiB"),
        (2**80, "1,048,576 EiB"),
    ],
)
def test_bytes_are_shown_in_the_unit_that_fits(number, text):
    assert size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.00 s"),
        (0.25, "0.25 s"),
        (9.999, "10.0 s"),
        (41.7, "41.7 s"),
        (59.96, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3599.6, "1 h 0 min"),
        (7_500, "2 h 5 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d 0 h"),
        (100_000_000, "1,157 d 9 h"),
    ],
)
def test_seconds_are_shown_in_the_units_that_fit(seconds, text):
    assert duration(seconds) == text


def test_only_one_is_singular():
    assert [counted(n, "value") for n in (0, 1, 2_000)] == ["0 values", "1 value", "2,000 values"]


def test_what_nobody_sees_is_shown_as_an_escape():
    assert visible("a\x00\x1b[0m\x7f\x9b\r\n\t") == r"a\x00\x1b[0m\x7f\x9b\r\n\t"
    assert visible("\u202e\u2066\u200f\u2028\ud800\ufeff\uffff") == (
        r"\u202e\u2066\u200f\u2028\ud800\ufeff\uffff"
    )


def test_other_text_stays_as_it_is():
    text = "\u05e9\u05dc\u05d5\u05dd \u65e5\u672c \U0001f469\u200d\U0001f680 </script> & \\n"
    assert visible(text) == text


def test_lines_stay_apart():
    assert visible_lines("one\x07\ntwo\r\nthree") == [r"one\x07", "two", "three"]
    assert visible_lines("") == [""]
    assert visible_lines("\x85\u2028") == [r"\x85\u2028"]
