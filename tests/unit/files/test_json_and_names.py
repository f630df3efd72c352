"""JSON and file names that somebody else wrote."""

import pytest

from statemigrate.files import parse_json, whole_number


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_json_that_is_too_deep_is_a_value_error(opening: str) -> None:
    for levels in (201, 2_000, 200_000):
        with pytest.raises(ValueError, match=r"deeper than 200|Expecting|column|line"):
            parse_json(opening * levels)
    closing = {"[": "]", '{"a":': "}"}[opening]
    for levels in (201, 900, 200_000):
        with pytest.raises(ValueError, match="deeper than 200"):
            parse_json(f"{opening * levels}0{closing * levels}")
    parse_json(f"{opening * 199}0{closing * 199}")


@pytest.mark.parametrize(
    "text", ["NaN", "1e999", "[-1e999]", '{"a": -Infinity}', b"\xff", "", "[", "1" * 5000]
)
def test_what_is_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        parse_json(text)


def test_only_a_number_as_spark_writes_it_is_one() -> None:
    assert {name: whole_number(name) for name in ("0", "7", "10", "9223372036854775807")} == {
        "0": 0,
        "7": 7,
        "10": 10,
        "9223372036854775807": 2**63 - 1,
    }
    for name in ("", "²", "1²", "٣", "01", "-1", "+1", " 1", "1\n", "1_0", "1.compact", "9" * 20):
        assert whole_number(name) is None, name
