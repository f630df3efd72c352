"""Whatever two formats are, the functions written for them run, and yield what fits."""

import re
import subprocess
import sys
from copy import deepcopy
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from format_pairs import FormatPair, format_pairs
from hypothesis import given, settings

from statemigrate.errors import ValueMismatchError
from statemigrate.formats import Avro, Format, Struct, Value
from statemigrate.formats.schema.fingerprint import layout
from statemigrate.scripts import ScriptFolder
from statemigrate.scripts.inference import Transforms, infer_transforms

DOUBTS = ("# QUESTION: does every ", "# QUESTION: can every ")
"""How a question begins that is about values which may have no place in the other format."""
QUESTION = re.compile(r"# QUESTION: (.*)")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> ScriptFolder:
    """One folder for all random scripts, each a store of its own."""
    return ScriptFolder.create(tmp_path_factory.mktemp("random") / "migrations")


class Loaded:
    """Generated functions, with their source apart."""

    def __init__(self, old: Format, new: Format) -> None:
        self.old, self.new = old, new
        self.transforms: Transforms = infer_transforms(old, new)
        module: dict[str, Any] = {"Value": Value}
        exec(f"{self.transforms.imports}\n{self.transforms.source}", module)  # noqa: S102
        self.functions = module
        upgrade, _, downgrade = self.transforms.source.partition("\ndef downgrade(")
        self.sources = {"upgrade": upgrade, "downgrade": downgrade}

    @property
    def loses_nothing(self) -> bool:
        """Whether questions are at most about renames, moves into a struct and wider types."""
        asked = {name: QUESTION.findall(source) for name, source in self.sources.items()}
        there = all(re.match(r"was `|did `[^.`]+` move", text) for text in asked["upgrade"])
        return there and all(re.match(r"does every |is .* where ", t) for t in asked["downgrade"])

    def run(self, name: str, value: Value) -> Value | None:
        """The new value; None if there is none, which only a question in the source allows."""
        target = self.new if name == "upgrade" else self.old
        try:
            return target.conform(self.functions[name](value))
        except (ValueMismatchError, ValueError, ArithmeticError):
            assert any(doubt in self.sources[name] for doubt in DOUBTS)
            return None


def kept(old: Format, new: Format) -> list[str]:
    return [
        field.name
        for field, other in product(new.schema.fields, old.schema.fields)
        if field.name == other.name and layout(field.type) == layout(other.type)
    ]


@settings(max_examples=50)
@given(format_pairs())
def test_every_value_arrives_unless_a_question_doubts_it(pair: FormatPair) -> None:
    loaded = Loaded(Avro(pair.old), Avro(pair.new))
    for value in pair.old_values:
        arrived = loaded.run("upgrade", value)
        if arrived is not None:
            for name in kept(loaded.old, loaded.new):
                assert arrived[name] == value[name]
            back = loaded.run("downgrade", arrived)
            assert back == value or not loaded.loses_nothing
    for value in pair.new_values:
        loaded.run("downgrade", value)


@pytest.mark.long
@settings(max_examples=15)
@given(format_pairs())
def test_the_whole_script_loads_and_migrates(scripts: ScriptFolder, pair: FormatPair) -> None:
    old, new = Avro(pair.old), Avro(pair.new)
    store = f"s{len(list(scripts.versions.iterdir()))}"
    scripts.new(store, "change", old=old, new=new, infer=True)
    lineage = scripts.lineage(store)
    (migration,) = lineage.migrations
    questions = infer_transforms(old, new).questions
    assert [f"# QUESTION: {each.text}" for each in migration.questions] == list(questions)
    assert (migration.old, migration.new) == (old, new)
    if not any(each.startswith(DOUBTS) for each in questions):
        way = lineage.path("base", lineage.head)
        arrived = [way.apply(deepcopy(value)) for value in pair.old_values]
        loaded = Loaded(old, new)
        assert arrived == [loaded.run("upgrade", value) for value in pair.old_values]


@pytest.mark.long
def test_those_scripts_pass_this_repositorys_linter_once_formatted(scripts: ScriptFolder) -> None:
    assert len(list(scripts.versions.glob("*.py"))) >= 40
    ruff = [sys.executable, "-m", "ruff"]
    settings_of = ["--config", str(ROOT / "pyproject.toml"), "migrations/versions"]
    for command in (["format"], ["check"]):
        ran = subprocess.run(
            [*ruff, *command, *settings_of],
            cwd=scripts.directory.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


SAMPLES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127],
    "SMALLINT": [-(2**15), 2**15 - 1],
    "INT": [-(2**31), 2**31 - 1, 2**24 + 1],
    "BIGINT": [-(2**63), 2**63 - 1, 2**53 + 1],
    "FLOAT": [0.5, -1.0, 3.4e38, float("inf")],
    "DOUBLE": [0.1, 2.0**60, 1e300, float("-inf")],
    "STRING": ["", "12", "1.5", "2020-02-29", "größer", "x" * 20],
    "VARCHAR(3)": ["", "12", "abc"],
    "CHAR(5)": ["abcde"],
    "BINARY": [b"", b"\xff\x00", b"abc"],
    "DATE": [date.min, date.max],
    "TIME": [time(), time.max],
    "TIME(3)": [time(23, 59, 59, 999000)],
    "TIMESTAMP": [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)],
    "TIMESTAMP_NTZ": [datetime.min, datetime.max],
    "DECIMAL(1,0)": [Decimal(9)],
    "DECIMAL(18,2)": [Decimal("-9999999999999999.99"), Decimal("0.01")],
    "DECIMAL(38,38)": [Decimal("0." + "9" * 38)],
    "VOID": [None],
}


@pytest.mark.parametrize(("old", "new"), list(product(SAMPLES, SAMPLES)))
def test_every_single_type_becomes_every_other(old: str, new: str) -> None:
    before = Struct(f"a {old}, b {old}, c ARRAY<{old}> NOT NULL")
    after = Struct(f"a {new}, b {new} NOT NULL, c ARRAY<{new}> NOT NULL")
    loaded = Loaded(before, after)
    for sample in [*SAMPLES[old], None]:
        value = {"a": sample, "b": sample, "c": [None, sample]}
        arrived = loaded.run("upgrade", value)
        if arrived is not None:
            loaded.run("downgrade", arrived)
            assert old != new or arrived["c"] == [None, sample]


CONVERSIONS = [
    ("INT", "BIGINT", 5, 5),
    ("INT", "DOUBLE", 2**31 - 1, float(2**31 - 1)),
    ("BIGINT", "DOUBLE", 2**53 + 1, float(2**53)),
    ("BIGINT", "DECIMAL(20,2)", 105, Decimal("105.00")),
    ("DOUBLE", "DECIMAL(9,2)", 1.005, Decimal("1.00")),
    ("DECIMAL(9,2)", "BIGINT", Decimal("7.90"), 7),
    ("DECIMAL(9,2)", "DOUBLE", Decimal("7.90"), 7.9),
    ("DECIMAL(9,2)", "DECIMAL(12,4)", Decimal("7.90"), Decimal("7.9000")),
    ("DECIMAL(9,2)", "STRING", Decimal("7.90"), "7.90"),
    ("STRING", "DECIMAL(9,2)", "7.9", Decimal("7.90")),
    ("STRING", "INT", "12", 12),
    ("INT", "STRING", -12, "-12"),
    ("STRING", "DOUBLE", "1e3", 1000.0),
    ("STRING", "BINARY", "ö", b"\xc3\xb6"),
    ("BINARY", "STRING", b"\xc3\xb6", "ö"),
    ("STRING", "DATE", "2020-02-29", date(2020, 2, 29)),
    ("DATE", "STRING", date(2020, 2, 29), "2020-02-29"),
    ("DATE", "TIMESTAMP", date(2020, 2, 29), datetime(2020, 2, 29, tzinfo=UTC)),
    ("TIMESTAMP", "DATE", datetime(2020, 2, 29, 23, tzinfo=UTC), date(2020, 2, 29)),
    ("TIMESTAMP", "TIMESTAMP_NTZ", datetime(2020, 1, 1, 5, tzinfo=UTC), datetime(2020, 1, 1, 5)),
    ("BOOLEAN", "INT", True, 1),
    ("BIGINT", "BOOLEAN", 3, True),
    ("BOOLEAN", "DATE", True, None),
]


@pytest.mark.parametrize(("old", "new", "value", "expected"), CONVERSIONS)
def test_an_obvious_conversion_is_taken(old: str, new: str, value: Any, expected: Any) -> None:
    loaded = Loaded(Struct(f"a {old}, b {old}"), Struct(f"a {new}, b {new} NOT NULL"))
    if expected is None:
        assert loaded.run("upgrade", {"a": value, "b": value}) == {"a": None, "b": date(1970, 1, 1)}
        return
    arrived = loaded.run("upgrade", {"a": value, "b": value})
    assert arrived == {"a": expected, "b": expected}
    assert type(arrived["a"]) is type(expected)
    assert loaded.run("upgrade", {"a": None, "b": value}) == {"a": None, "b": expected}
