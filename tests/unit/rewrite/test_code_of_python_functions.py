"""Two functions of one name: the same only where their code, and what it takes in, is the same."""

import linecache
import math
import re
import sys
import threading
import types

import pyarrow
import pytest
from pyspark.serializers import CloudPickleSerializer

from statemigrate.rewrite.python_code import (
    digest_of,
    digest_of_command,
    python_releases,
    source_of,
    without_bytecode,
)

PATTERN = re.compile("a")
BODY = """
import linecache
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


CLASSES = """
import collections
import dataclasses
import enum
import functools
import logging
import typing

log = logging.getLogger("jobs")
class Rate(enum.Enum):
    LOW = 1
    HIGH = {high}
class Named(typing.NamedTuple):
    first: int
    {second}: int = 2
@dataclasses.dataclass(frozen=True)
class Limits:
    least: int = {least}
    names: list = dataclasses.field(default_factory={factory})
class Base:
    kept = {kept}
    def times(self, value):
        return value * {times}
class Slotted(Base):
    __slots__ = ("number",)
    def __init__(self, number):
        self.number = number
    @staticmethod
    def twice(value):
        return value * {twice}
    @property
    def half(self):
        return self.number / {half}
    def __call__(self, value):
        log.info("called")
        return self.times(value)
class Weights(dict):
    pass
def found(value):
    return {line}
"""
WAYS = {
    "an enumeration": "Rate.HIGH.value * value",
    "a member of it": "(lambda rate=Rate.HIGH: rate.value * value)()",
    "a tuple with names": "Named(value)",
    "limits": "Limits(value)",
    "an object": "SLOTTED(value)",
    "a bound method": "METHOD(value)",
    "a dictionary of a class": "WEIGHTS[value]",
    "a table with a default": "TABLE[value]",
    "a function that remembers": "REMEMBERED(value)",
}
USUAL = {
    "high": 5,
    "second": "second",
    "least": 1,
    "factory": "list",
    "kept": 7,
    "times": 2,
    "twice": 2,
    "half": 2,
    "number": 3,
    "weight": 4,
    "missing": "int",
    "remembered": 6,
}
MAKING = """
SLOTTED = Slotted({number})
METHOD = Slotted({number}).times
WEIGHTS = Weights(a={weight})
TABLE = collections.defaultdict({missing}, a=1)
REMEMBERED = functools.lru_cache(lambda value: value * {remembered})
"""


def of_classes(way, **changes):
    """A function of a module with classes and objects, which its code uses in one way."""
    own = types.ModuleType("classes")
    text = (CLASSES + MAKING).format(**{**USUAL, **changes}, line=WAYS[way])
    sys.modules["classes"] = own
    exec(text, own.__dict__)  # noqa: S102 - what this test has made itself
    return digest_of(own.found)


COUNTED = {
    "an enumeration": {"high": 6},
    "a member of it": {"high": 6},
    "a tuple with names": {"second": "third"},
    "limits": {"least": 2, "factory": "dict"},
    "an object": {"kept": 8, "times": 3, "twice": 3, "half": 3, "number": 4},
    "a bound method": {"kept": 8, "times": 3, "number": 4},
    "a dictionary of a class": {"weight": 5},
    "a table with a default": {"missing": "str"},
    "a function that remembers": {"remembered": 7},
}


@pytest.mark.parametrize("way", WAYS)
def test_classes_and_objects_of_the_users_count_by_all_that_they_have(way):
    assert of_classes(way) == of_classes(way) != ""
    for name, usual in USUAL.items():
        other = of_classes(way, **{name: COUNTED[way].get(name, usual)})
        assert (other == of_classes(way)) == (name not in COUNTED[way]), name


def test_what_code_takes_out_of_a_module_of_the_users_counts(tmp_path, monkeypatch):
    def calling(rate):
        rules = types.ModuleType("rules")
        rules.__file__ = str(tmp_path / "rules.py")
        exec(f"def rated(v): return v * {rate}\ndef other(v): return {rate}", rules.__dict__)  # noqa: S102
        monkeypatch.setitem(sys.modules, "rules", rules)
        own = types.ModuleType("jobs")
        exec("import rules\ndef found(v): return rules.rated(v)", own.__dict__)  # noqa: S102
        return digest_of(own.found)

    assert calling(2) == calling(2) != calling(3) != ""


def test_what_code_does_not_say_is_unknown():
    """What C has compiled, and what is open."""
    for hidden in (object(), threading.Lock(), iter([1]), sys.__stdin__, pyarrow.array([1])):
        assert digest_of(adding(hidden)) == "", hidden
    assert digest_of(lambda value: PATTERN.sub("b", value)) != ""
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


SOURCE = """
def around(number):
    def computed(value):
        total = value + number
        return [total * each for each in (1, 2)]
    return computed
made = around(2)
"""


@pytest.fixture
def in_file(tmp_path):
    """A function of a module in a file, whose source is at hand."""

    def in_file(text, name="made"):
        path = tmp_path / f"module_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text)
        own = types.ModuleType(path.stem)
        exec(compile(text, str(path), "exec"), own.__dict__)  # noqa: S102 - this test's own
        return vars(own)[name]

    return in_file


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("total", "product"),
        ("number", "quantity"),
        ("(value)", "(value: int) -> list"),
        ("    def computed(value):\n", '    def computed(value):\n        "Says what it does."\n'),
        ("        return", "\n        # A comment.\n        return"),
        ("(1, 2)", "(1,  2,)"),
    ],
    ids=["local", "from around", "annotation", "docstring", "comment", "layout"],
)
def test_what_says_nothing_of_the_result_changes_no_digest(in_file, before, after):
    first, other = in_file(SOURCE), in_file(SOURCE.replace(before, after))
    assert digest_of(first) == digest_of(other)
    assert re.fullmatch("[0-9a-f]{32}", digest_of(first))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("value + number", "number + value"),
        ("total * each", "each * total"),
        ("(1, 2)", "(1, 2.0)"),
        ("around(2)", "around(3)"),
        ("return [total * each", "return [total * total"),
    ],
)
def test_what_says_something_of_the_result_does(in_file, before, after):
    assert digest_of(in_file(SOURCE)) != digest_of(in_file(SOURCE.replace(before, after)))


def test_a_file_that_has_changed_since_is_not_the_source(in_file, tmp_path):
    loaded = in_file(SOURCE)
    path = tmp_path / "module_0.py"
    path.write_text(SOURCE.replace("value + number", "value - number"))
    assert source_of(loaded) is None
    assert digest_of(loaded).startswith("py3.")
    path.write_text(SOURCE)
    linecache.checkcache()
    assert source_of(loaded) is not None


def test_lambdas_in_one_line_are_told_apart_by_bytecode(in_file):
    text = "made, other = (lambda v: v + 1), (lambda v: v + 2)\n"
    first, second = in_file(text), in_file(text, "other")
    assert source_of(first) is None
    assert digest_of(first) != digest_of(second)


def test_what_spark_has_of_a_function_has_its_source(in_file):
    dumped = CloudPickleSerializer().dumps((in_file(SOURCE), "bigint"))
    assert digest_of_command(dumped) == digest_of(in_file(SOURCE))


def test_bytecode_of_another_release_of_python_is_left_out():
    text = f"PythonUDF(v, code=py3.12:{'0' * 32})"
    assert python_releases([text, f"f(code={'1' * 32})"]) == {"3.12"}
    assert without_bytecode(text) == "PythonUDF(v, code=bytecode)"
