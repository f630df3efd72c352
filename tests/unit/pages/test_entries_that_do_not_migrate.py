"""An entry of a page that does not migrate: its neighbours go on, and it is told of once."""

from __future__ import annotations

import logging
import struct
from types import SimpleNamespace
from typing import Any, cast

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from pyspark.sql import Row
from support.notes import FORMATS, NEW, OLD, POISON, family, lineage
from support.spark_variables import SparkVariables

from statemigrate.deployment import Declared, DeploymentSettings, StoredStore, plan_store
from statemigrate.errors import TransformError
from statemigrate.families import Span
from statemigrate.formats import Struct
from statemigrate.native.control_rows import MARKER
from statemigrate.pages.columns import PageId
from statemigrate.pages.deployed_pages import PagedDeployment
from statemigrate.pages.packed_rows import BUCKET, pack
from statemigrate.pages.page import Page
from statemigrate.pages.page_families import fingerprint
from statemigrate.pages.record import VARIABLE
from statemigrate.pages.value import MARKS, MARKS_FORMAT
from statemigrate.pages.visit import PagedProcessor, key_fingerprint
from statemigrate.processor.keys import TupleKeyCodec

KEY, ROWS = Struct("k STRING").struct_type(), Struct("k STRING, what STRING").struct_type()
KEYS = TupleKeyCodec(KEY)
NAMES = ["a", "b", "c", "d"]


class Counted:
    """What a task tells the driver."""

    def __init__(self) -> None:
        self.quarantined = 0

    def add(self, accesses: Any, quarantined: int, work: Any) -> None:
        self.quarantined += quarantined


class Notes:
    """Does with each row of a key what the row says: writes a text, reads, deletes, or looks on."""

    def __init__(self, target: str) -> None:
        self.target = target

    def init(self, handle: Any) -> None:
        self.notes = handle.getValueState("notes", FORMATS[self.target].struct_type())

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            if row.what == "get":
                self.notes.get()
            elif row.what == "delete":
                self.notes.clear()
            elif row.what != "look":
                self.notes.update((row.what, 0, 0))
        return iter(())

    def close(self) -> None:
        pass


class OnePage:
    """One page of Spark's state, and deployments over it."""

    def __init__(self) -> None:
        self.spark = SparkVariables()
        self.spark.key = struct.pack(">i", 0)

    def deploy(self, target: str, name: str = "first", **given: Any) -> None:
        settings = DeploymentSettings(targets={"notes": target}, **given)
        declared = Declared("notes", "value", FORMATS[target].struct_type(), None, None)
        families = tuple(family("notes", revision) for revision in (OLD, NEW))
        stored = StoredStore("value", families, {}, None)
        plans = {"notes": plan_store(declared, lineage(), stored, settings)}
        seen: Any = SimpleNamespace(compare_in_task=lambda: None, deployment=name)
        self.counts = Counted()
        self.deployment = PagedDeployment(
            KEY, (0,), Struct("o INT").struct_type(), plans, settings, seen,
            cast(Any, SimpleNamespace(pages=1)), note=cast(Any, None),
            counts=cast(Any, self.counts),
        )  # fmt: skip
        self.target = target

    def batch(self, *rows: tuple[str, str], asked: bool = False) -> None:
        """A batch whose page gets these rows, and a control row; nothing stays of one that fails"""
        self.spark.begin()
        processor = PagedProcessor(Notes(self.target), self.deployment, ROWS, gives_rows=True)
        processor.init(self.spark)
        arrived = []
        if rows:
            keys, texts = zip(*rows, strict=True)
            arrays = [pa.array(keys), pa.array(texts), pa.array([0] * len(rows), pa.int32())]
            table = pa.RecordBatch.from_arrays(arrays, ["k", "what", BUCKET])
            (packed,) = pack(iter([table]))
            each = packed.to_pylist()[0]
            arrived.append(Row(*each, MARKER)(*each.values(), None))
        if asked:
            arrived.append(Row(BUCKET, "layout", "rows", MARKER)(0, None, None, "query"))
        times = SimpleNamespace(getCurrentProcessingTimeInMs=lambda: 0)
        assert not list(processor.handleInputRows((0,), iter(arrived), times))
        processor.close()
        self.spark.commit()

    @property
    def stored(self) -> bytes | None:
        found = self.spark.committed[VARIABLE].get(self.spark.key)
        return None if found is None else found[0][0]

    def entries(self, revision: str) -> dict[str, Any]:
        page = Page(PageId(1, 0, key_fingerprint(KEY)), self.stored)
        made = family("notes", revision)
        section = page.section(made.name, fingerprint(made.format))
        return {
            KEYS.decode(key)[0]: tuple(made.format.decode(data).values())
            for key, data in section.scan(Span())
        }

    def marks(self) -> int:
        page = Page(PageId(1, 0, key_fingerprint(KEY)), self.stored)
        return page.section(MARKS, MARKS_FORMAT).count


@pytest.fixture
def page() -> OnePage:
    """A page of three good notes and one that no transform takes."""
    made = OnePage()
    made.deploy(OLD)
    made.batch(*[(name, POISON if name == "b" else f"text {name}") for name in NAMES])
    return made


GOOD = {name: (f"text {name}", 1, 0) for name in NAMES if name != "b"}


@pytest.mark.parametrize("on_error", ["raise", "quarantine"])
def test_a_touched_neighbour_migrates_and_so_does_the_rest_of_the_page(page, on_error) -> None:
    page.deploy(NEW, on_error=on_error)
    page.batch(("a", "look"))
    assert page.entries(OLD) == {"b": (POISON, 0, 0)}
    assert page.entries(NEW) == {name: (text, 2, 0) for name, (text, _, _) in GOOD.items()}


def test_one_that_is_touched_itself_fails_and_nothing_is_written(page) -> None:
    before = page.stored
    for on_error in ("raise", "quarantine"):
        page.deploy(NEW, on_error=on_error)
        with pytest.raises(TransformError) as caught:
            page.batch(("a", "look"), ("b", "get"))
        assert caught.value.data["key"] == ("b",)
        assert page.stored == before


def test_a_backfill_fails_at_it_or_goes_on_as_the_user_has_said(page) -> None:
    before = page.stored
    page.deploy(NEW, on_error="raise")
    with pytest.raises(TransformError) as caught:
        page.batch(asked=True)
    assert caught.value.data["key"] == ("b",)
    assert page.stored == before
    page.deploy(NEW, on_error="quarantine")
    page.batch(asked=True)
    assert page.entries(OLD) == {"b": (POISON, 0, 0)}
    assert page.counts.quarantined == 1


def test_a_backfill_fails_at_one_that_a_neighbours_touch_has_passed_over(page) -> None:
    page.deploy(NEW, on_error="raise")
    page.batch(("a", "look"))
    with pytest.raises(TransformError):
        page.batch(asked=True)


def test_it_is_counted_once_and_named_once_for_a_start(page, caplog) -> None:
    page.deploy(NEW, on_error="quarantine")
    with caplog.at_level(logging.WARNING, "statemigrate.pages"):
        for _ in range(3):
            page.batch(("a", "look"), asked=True)
            page.batch(("a", "look"))
    assert page.counts.quarantined == 1
    (told,) = caplog.records
    assert "('b',)" in told.getMessage()
    written = page.stored
    page.batch(("a", "look"))
    assert page.stored is written
    page.deploy(NEW, "second", on_error="quarantine")
    page.batch(("c", "look"))
    assert page.counts.quarantined == 1


def test_without_quarantine_a_neighbours_touch_counts_none(page) -> None:
    page.deploy(NEW, on_error="raise")
    page.batch(("a", "look"))
    assert page.counts.quarantined == 0


@pytest.mark.parametrize("what", ["delete", "written over"])
def test_what_leaves_takes_its_mark_along(page, what) -> None:
    page.deploy(NEW, on_error="quarantine")
    page.batch(("a", "look"))
    assert page.marks() == 1
    page.batch(("b", what))
    assert page.marks() == 0
    assert page.entries(OLD) == {}


def test_a_page_of_a_mark_alone_is_no_page(page) -> None:
    page.deploy(NEW, on_error="quarantine")
    page.batch(*[(name, "delete") for name in NAMES if name != "b"])
    assert page.marks() == 1
    page.batch(("b", "delete"))
    assert page.stored is None


def test_rolled_back_it_is_the_targets_own_again(page) -> None:
    page.deploy(NEW, on_error="quarantine")
    page.batch(("a", "look"))
    page.deploy(OLD, "back")
    page.batch(("b", "get"))
    assert page.marks() == 0
    assert page.entries(OLD)["b"] == (POISON, 0, 0)


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("batch"),
            st.lists(
                st.tuples(
                    st.sampled_from(NAMES), st.sampled_from(["look", "delete", "get", POISON, "x"])
                ),
                max_size=2,
            ),
            st.booleans(),
        ),
        st.tuples(
            st.just("deploy"), st.sampled_from([OLD, NEW]), st.sampled_from(["raise", "quarantine"])
        ),
    ),
    max_size=10,
)


@given(first=st.lists(st.sampled_from(["x", POISON]), min_size=4, max_size=4), steps=steps)
@hypothesis_settings(deadline=None, max_examples=20)
def test_whatever_happens_good_entries_migrate_and_others_stay(first: Any, steps: Any) -> None:
    page = OnePage()
    page.deploy(OLD)
    page.batch(*zip(NAMES, first, strict=True))
    model = dict(zip(NAMES, [(OLD, text) for text in first], strict=True))
    target, on_error = OLD, "raise"
    for number, (step, one, other) in enumerate(steps):
        if step == "deploy":
            target, on_error = one, other
            page.deploy(target, str(number), on_error=on_error)
            continue
        held, fails = dict(model), False
        for name, what in sorted(one, key=lambda row: [each for each, _ in one].index(row[0])):
            revision, text = held.get(name, (target, ""))
            if what == "delete":
                held.pop(name, None)
            elif what == "get":
                if text == POISON and revision != target:
                    fails = True
                    break
                if name in held:
                    held[name] = target, text
            elif what != "look":
                held[name] = target, what
        stuck = {n for n, (revision, text) in held.items() if text == POISON and revision != target}
        if fails or (other and stuck and on_error == "raise"):
            with pytest.raises(TransformError):
                page.batch(*one, asked=other)
            continue
        if one or other:
            page.batch(*one, asked=other)
            model = {n: each if n in stuck else (target, each[1]) for n, each in held.items()}
        for revision in (OLD, NEW):
            found = {name: text for name, (text, _, _) in page.entries(revision).items()}
            assert found == {n: text for n, (kept, text) in model.items() if kept == revision}
        assert page.marks() <= sum(text == POISON for _, text in model.values())
