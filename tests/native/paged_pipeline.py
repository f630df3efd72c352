"""A streaming query on pages as a test drives it: feed, deploy, look at what pages hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from native_pipeline import NativePipeline
from pyspark.sql.streaming import StatefulProcessor
from tally import AMOUNTS, AMOUNTS_DDL, CENTS, CENTS_DDL, FAMILIES, NESTED, NESTED_DDL

import statemigrate
from statemigrate.families import Span
from statemigrate.formats import Struct
from statemigrate.pages.columns import PageId, ReadOutside, elements_of, has_outside
from statemigrate.pages.packed_rows import BUCKET
from statemigrate.pages.page import Page
from statemigrate.pages.page_families import fingerprint
from statemigrate.pages.record import LARGE, SCHEMA, VARIABLE
from statemigrate.pages.visit import key_fingerprint
from statemigrate.processor.keys import TupleKeyCodec

FORMATS = {FAMILIES[CENTS]: CENTS_DDL, FAMILIES[AMOUNTS]: AMOUNTS_DDL}
"""The formats of a tally by family."""


@dataclass
class PagedPipeline(NativePipeline):
    """`NativePipeline` with the state in pages."""

    pages: int | None = 4
    more: ClassVar[dict[str, Any]] = {}
    """What else `paged` gets."""

    def result(self, processor: Any, stream: Any = None) -> Any:
        return statemigrate.paged(
            self.stream() if stream is None else stream,
            by=self.by,
            processor=processor,
            output=self.output,
            checkpoint=self.checkpoint,
            pages=self.pages,
            timeMode=self.time_mode,
            **self.more,
        )

    def stored_pages(self) -> dict[int, bytes]:
        """Every page's bytes by its number, as Spark's state has them."""
        reader = self.spark.read.format("statestore").option("stateVarName", VARIABLE)
        rows = reader.load(str(self.checkpoint)).collect()
        return {row.key[0]: bytes(row.value.page) for row in rows}

    def entries(self, formats: dict[str, str]) -> dict[int, dict[str, dict[Any, Any]]]:
        """By page and family, the values by the key's one column; ``formats`` are by family."""
        found: dict[int, dict[str, dict[Any, Any]]] = {}
        for number, family, key, data, _ in self._every(formats):
            value = Struct(formats[family]).decode(data)
            found.setdefault(number, {}).setdefault(family, {})[key] = value
        return found

    def expiries(self, formats: dict[str, str]) -> dict[str, dict[Any, int]]:
        """By family, when the entry of each key expires."""
        found: dict[str, dict[Any, int]] = {}
        for _, family, key, _, expiry in self._every(formats):
            found.setdefault(family, {})[key] = expiry
        return found

    def elements(self, family: str, ddl: str) -> dict[Any, list[tuple[Any, int]]]:
        """The elements of a list's family by key: the one column, and when it expires."""
        column = next(iter(Struct(ddl).struct_type().fieldNames()))
        return {
            key: [(Struct(ddl).decode(each)[column], moment) for each, moment in elements_of(data)]
            for _, _, key, data, _ in self._every({family: ddl})
        }

    def _every(self, formats: dict[str, str]) -> Iterator[tuple[int, str, Any, bytes, int]]:
        """Page, family, the key's one column, encoded value and expiry of every entry."""
        from pyspark.sql.types import StructType

        key = StructType([StructType.fromDDL(self.rows)[self.by]])
        codec = TupleKeyCodec(key)
        stored = self.stored_pages()
        outside = self._outside() if any(map(has_outside, stored.values())) else {}
        for number, data in stored.items():
            place = PageId(self.pages, number, key_fingerprint(key))
            page = Page(place, data, ReadOutside(outside.get(number, {})))
            for family, ddl in formats.items():
                if page.contains_family(family):
                    section = page.section(family, fingerprint(Struct(ddl)))
                    for each, value in section.scan(Span()):
                        yield number, family, codec.decode(each)[0], value, section.expiry(each)

    def _outside(self) -> dict[int, dict[tuple[str, bytes], bytes]]:
        """By page, what lies outside of it."""
        return {
            number: {
                (family, bytes(key)): bytes(each["value"]) for (family, key), each in values.items()
            }
            for number, values in self.state(LARGE, "map").items()
        }


def lived(
    lives: Iterable[Sequence[Any]], processor: Callable[[], Any], *pipelines: Any
) -> Iterator[None]:
    """Feed all pipelines the batches of one life after the other, with a start of each."""
    for batches in lives:
        for pipeline in pipelines:
            pipeline.feed(*batches)
            pipeline.deploy_natively(processor())
        yield


class TallyPages(PagedPipeline):
    """A tally in pages, which tells of its families as `NativePipeline` does of its variables."""

    formats: ClassVar[dict[str, str]] = {**FORMATS, FAMILIES[NESTED]: NESTED_DDL}

    def moved_along(self, expected: Any, touched: Any, revision: str) -> None:
        """A page migrates whole: with a key that was touched go the others of its page."""
        keys = {f"k{number}" for number in touched}
        for page in self.entries(self.formats).values():
            held = {key for entries in page.values() for key in entries}
            for key in held if held & keys else ():
                expected.move(key, revision)

    def all_state(self) -> dict[str, dict[Any, Any]]:
        """By family with an entry in any page, the values by key."""
        found: dict[str, dict[Any, Any]] = {}
        for page in self.entries(self.formats).values():
            for family, entries in page.items():
                found.setdefault(family, {}).update(entries)
        return found


def check_families(pipeline: Any, expected: Any, *live: str) -> None:
    """Whether each family has what the model says; pages list none that is empty."""
    wanted = expected.stored(*live)
    if isinstance(pipeline, TallyPages):
        wanted = {name: values for name, values in wanted.items() if values}
    assert pipeline.all_state() == wanted


class _Storing(StatefulProcessor):
    """Keeps what it is given, as pages are kept."""

    def init(self, handle: Any) -> None:
        self.state = handle.getValueState(VARIABLE, SCHEMA)

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:
        for row in rows:
            self.state.update((bytes(row.page),))
        return iter(())

    def close(self) -> None:
        pass


@dataclass
class StoredAsGiven(NativePipeline):
    """Pages as no release has written them."""

    rows: str = f"{BUCKET} INT, page BINARY"
    output: str = "nothing INT"
    by: Any = BUCKET

    def store(self, pages: dict[int, bytes]) -> None:
        """Make a checkpoint of these pages, which has no record of them."""
        self.feed(list(pages.items()))
        self.deploy_natively(_Storing())
