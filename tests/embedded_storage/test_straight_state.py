"""What a processor is given and gives on the embedded engine is PySpark's, at a lower price."""

import copy
import datetime as dt
import gc
import pickle
from decimal import Decimal
from types import SimpleNamespace

import pytest
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.types import VariantVal

from statemigrate.access import DualAccess
from statemigrate.deployment import Declared, StoredFamily
from statemigrate.embedded import task
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition
from statemigrate.embedded.task import OutputRows
from statemigrate.embedded.task_plan import REPORT
from statemigrate.errors import StatemigrateError
from statemigrate.families import MemoryFamily
from statemigrate.formats import Struct
from statemigrate.processor import garbage
from statemigrate.processor.handle import struct_of
from statemigrate.processor.rows import row_class
from statemigrate.processor.variables import (
    DirectValueState,
    DualValueState,
    GroupingKey,
    direct_variable,
    dual_variable,
)

LOCAL = dt.datetime(2026, 7, 1, 12, 30)
DDL = (
    "n BIGINT, t STRING, b BINARY, at TIMESTAMP, d DECIMAL(5,2), l ARRAY<STRUCT<x: INT>>, "
    "m MAP<STRUCT<x: INT>, TIMESTAMP>, v VARIANT"
)
NOTHING = (None,) * 8
WHOLE = (
    1, "one", b"\x00", LOCAL, Decimal("1.50"), [Row(x=1), None], {Row(x=1): LOCAL},
    VariantVal(b"\x0c\x05", b"\x01\x00\x00"),
)  # fmt: skip
GIVEN = [
    NOTHING,
    WHOLE,
    Row(*WHOLE),
    list(WHOLE),
    dict(zip(["n", "t", "b", "at", "d", "l", "m", "v"], WHOLE, strict=True)),
    (*WHOLE[:2], bytearray(b"x"), *NOTHING[3:]),
    ("1", *NOTHING[1:]),
    (None, 5, *NOTHING[2:]),
    (None, "\ud800", *NOTHING[2:]),
    (2**63, *NOTHING[1:]),
    (1.5, *NOTHING[1:]),
    WHOLE[:-1],
    "abcdefgh",
    None,
]  # fmt: skip


@pytest.fixture
def variables(place):
    """The same store of a partition, straight and by plain values."""
    partition = Partition(place, PartitionState(), 0)
    family = partition.target(StoredFamily("s", "base", Struct(DDL)), "value")
    declared, key = Declared("s", "value", struct_of(DDL)), GroupingKey()
    access = DualAccess("s", family)
    yield direct_variable(declared, access, key), dual_variable(declared, access, key), key
    partition.abandon()


def outcome(call, *arguments):
    try:
        return repr(call(*arguments))
    except StatemigrateError as error:
        return error.to_json()


@pytest.mark.parametrize("number", range(len(GIVEN)))
def test_every_value_is_taken_refused_and_handed_out_as_by_plain_values(variables, number):
    straight, plain, key = variables
    assert (type(straight), type(plain)) == (DirectValueState, DualValueState)
    key.data = b"one"
    assert straight.get() is plain.get() is None
    taken = outcome(straight.update, GIVEN[number])
    found = outcome(straight.get)
    assert found == outcome(plain.get)
    key.data = b"other"
    assert taken == outcome(plain.update, GIVEN[number])
    assert outcome(straight.get) == outcome(plain.get) == found


def test_a_store_that_has_other_fields_or_no_bytes_goes_by_plain_values(place):
    partition = Partition(place, PartitionState(), 0)
    declared, key = Declared("s", "value", struct_of("n INT")), GroupingKey()
    other = partition.target(StoredFamily("s", "base", Struct("n INT, m INT")), "value")
    for family in (other, MemoryFamily("s", "base", Struct("n INT"))):
        found = direct_variable(declared, DualAccess("s", family), key)
        assert type(found) is DualValueState
    partition.abandon()


NAMES = ["key", "amount", "count", "amount", "__class__", "a b"]
VALUES = ("a", 1, 2, 3, 4, 5)
QUESTIONS = {
    "repr": repr,
    "names": lambda row: row.__fields__,
    "by name": lambda row: [row["key"], row["amount"], row["count"], row["__class__"], row["a b"]],
    "by attribute": lambda row: [row.key, row.amount, getattr(row, "a b"), row.count("a")],
    "by place": lambda row: [row[0], row[-1], row[True], row[1:3]],
    "no such name": lambda row: row["zz"],
    "no such attribute": lambda row: row.zz,
    "no such place": lambda row: row[6],
    "a number that is no place": lambda row: row[1.0],
    "None": lambda row: row[None],
    "a list": lambda row: row[[1]],
    "dictionary": lambda row: row.asDict(),
    "contains": lambda row: ["key" in row, "a" in row],
    "hash": hash,
    "made of": lambda row: row("x", "y"),
    "written": lambda row: setattr(row, "key", 2),
    "pickled": lambda row: type(pickle.loads(pickle.dumps(row))),  # noqa: S301
    "copied": lambda row: (type(copy.copy(row)), copy.copy(row).__fields__),
    "unpacked": lambda row: [*row],
    "class": lambda row: (row.__class__.__name__, row.__class__.__module__, isinstance(row, Row)),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_row_answers_what_pysparks_own_answers(question):
    found = []
    for row in (tuple.__new__(row_class(NAMES), VALUES), Row(*NAMES)(*VALUES)):
        try:
            found.append(repr(QUESTIONS[question](row)))
        except Exception as error:
            found.append(repr(error))
    assert found[0] == found[1]
    assert tuple.__new__(row_class(NAMES), VALUES) == Row(*NAMES)(*VALUES)


PLAIN = "k STRING, n BIGINT, s SMALLINT, d DOUBLE, f BOOLEAN"
OUTPUT = {
    "plain": (PLAIN, [("a", 1, 2, 1.5, True), Row(k=None, n=None, s=None, d=None, f=None)]),
    "a number as a text": (PLAIN, [("a", 1, 2, 1.5, True), (5, 1, 2, 1.5, True)]),
    "a truth as a text": (PLAIN, [(True, 1, 2, 1.5, True)]),
    "dictionaries": (PLAIN, [{"n": 1, "k": "a"}, ("a", 1, 2, 1.5, True)]),
    "None": (PLAIN, [None, ("a", 1, 2, 1.5, True)]),
    "lists": (PLAIN, [["a", 1, 2, 1.5, True]]),
    "a field too few": (PLAIN, [("a", 1, 2, 1.5)]),
    "another type": (PLAIN, [("a", "x", 2, 1.5, True)]),
    "a number too large": (PLAIN, [("a", 1, 2**20, 1.5, True)]),
    "required": ("k STRING NOT NULL", [("a",), (None,)]),
    "moments": ("at TIMESTAMP, d DECIMAL(5,2)", [(LOCAL, Decimal("1.5"))]),
    "no column": ("", [(), ()]),
}


@pytest.mark.parametrize("case", OUTPUT)
def test_output_rows_become_what_pyspark_makes_of_them(case):
    ddl, rows = OUTPUT[case]
    schema = struct_of(ddl) if ddl else struct_of("n INT")[:0]
    found = []
    output = OutputRows(schema)
    for convert in (
        lambda: [batch for _ in [output.add(iter(rows))] for batch in output.flush()],
        lambda: LocalDataToArrowConversion.convert(list(rows), schema, False).to_batches(),
    ):
        try:
            found.append([batch.to_pylist() for batch in convert()])
        except Exception as error:
            found.append(repr(error))
    if isinstance(found[0], list):
        assert [row.pop(REPORT) for rows_ in found[0] for row in rows_] == [None] * len(rows)
    assert found[0] == found[1]


def test_a_worker_looks_no_further_through_what_it_has_loaded_for_its_first_partition(monkeypatch):
    frozen = []
    monkeypatch.setattr(garbage, "_KEPT_AFTER", set())
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append("once"))
    monkeypatch.setattr(TaskContext, "get", lambda: SimpleNamespace(partitionId=lambda: 0))
    monkeypatch.setattr(task, "processed", lambda *_: iter(()))
    schema = SimpleNamespace(output=struct_of(PLAIN))
    for _ in range(2):
        plan = SimpleNamespace(output_with_report=0)
        (batch,) = task.run_partition(iter(()), plan=plan, schema=schema, processor=None)
        assert batch.num_rows == 1
    assert frozen == ["once"]
