"""Two functions of one name: the same only where their code, and what it takes in, is the same."""

import math
import re
import types

import pytest
from pyspark.serializers import CloudPickleSerializer

from statemigrate.rewrite.probe_expressions import digest_of, digest_of_command

PATTERN = re.compile("a")
BODY = """
import math
RATE = {rate}
def helper(v):
    return v * {times}
def computed(v, by={default}):
    "{words}"
    {line}
"""


def made(module="jobs_v1", line="return helper(v) + by", **changes):
    """`computed` of a module of its own, as one deployment's code has it."""
    said = {"rate": 2, "times": 3, "default": 1, "words": "x", "line": line, **changes}
    own = types.ModuleType(module)
    exec(BODY.format(**said), own.__dict__)  # noqa: S102 - what this test has made itself
    return own.computed


def adding(number):
    def add(value):
        return value + number

    return add


def test_the_same_code_in_another_module_is_the_same():
    assert digest_of(made()) == digest_of(made("jobs_v2")) != ""


@pytest.mark.parametrize(
    "other",
    [
        made(line="return helper(v) - by"),
        made(line="return helper(v) + by + 0.5"),
        made(line="return helper(by) + v"),
        made(times=4),
        made(default=2),
        adding(1),
        lambda v, by=1: v,
    ],
    ids=["operator", "constant", "order", "what it calls", "default", "another", "lambda"],
)
def test_other_code_of_one_name_is_another_function(other):
    assert digest_of(made()) != digest_of(other) != ""


def test_what_a_function_takes_from_around_it_counts():
    assert digest_of(adding(1)) == digest_of(adding(1)) != digest_of(adding(2))
    line = "return v * RATE + math.floor(v)"
    assert digest_of(made(line=line)) == digest_of(made(line=line))
    assert digest_of(made(line=line)) != digest_of(made(line=line, rate=3))
    inner = "return [(lambda each: each * RATE)(v)]"
    assert digest_of(made(line=inner)) != digest_of(made(line=inner, rate=3))


class Doubling:
    def __call__(self, value):
        return value * 2


def test_what_code_does_not_say_is_unknown():
    """Objects of the user's, and what C has compiled."""
    assert digest_of(Doubling()) == ""
    assert digest_of(adding(object())) == ""
    assert digest_of(lambda value: PATTERN.sub("b", value)) == ""
    assert digest_of(math.sqrt) != ""


def test_a_function_of_very_many_parts_is_unknown_and_soon():
    def calling(one):
        return lambda value: one(value) + one(value + 1) if one else value

    made_of = None
    for _ in range(40):
        made_of = [calling(made_of), made_of]
    assert digest_of(calling(made_of)) == ""


def again(value):
    return again(value - 1) if value else len({"a", "b", "c"})


def test_a_function_that_calls_itself_and_a_set_have_one_digest():
    assert digest_of(again) == digest_of(again) != ""


def test_what_spark_has_of_a_function_says_the_same():
    dumped = [CloudPickleSerializer().dumps((adding(n), "bigint")) for n in (1, 1, 2)]
    first, same, other = map(digest_of_command, dumped)
    assert first == same != other
    assert digest_of_command(b"no pickle") == ""
