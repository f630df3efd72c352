"""What `verify` reports of one thing that it compared, and how it loads state for that.

What a comparison says of one thing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from statemigrate.checkpoint import store_version
from statemigrate.checkpoint.operators import (
    CheckpointShape,
    OperatorShape,
    used_partitions,
    user_stores,
)
from statemigrate.checkpoint.stores import provider_of
from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.files import Files
from statemigrate.migration import Lineage
from statemigrate.native import ATTEMPTS, StoreRecord, is_pages, name_in, paged_names
from statemigrate.pages import PagesRecord, read_pages_record, record_name
from statemigrate.rewrite.family_plans import Paging, written_name
from statemigrate.rewrite.pages import reader_of
from statemigrate.rewrite.probe import operator_with
from statemigrate.rewrite.rewrite_report import RewriteReport, ScriptsRun
from statemigrate.rewrite.script_ways import RewriteScripts, StoreScripts
from statemigrate.rewrite.spark_reader import RowReader, StateReader
from statemigrate.state import reraising_worker_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Found:
    """A sentence about what is ``fine``, what is a ``problem``, or what could not be ``tried``."""

    text: str
    kind: Literal["fine", "problem", "untried"]

    @classmethod
    def of(cls, text: str, *, is_fine: bool) -> Found:
        """Of something that was compared."""
        return cls(text, "fine" if is_fine else "problem")


# Old and new state that is in pages, as a rewrite saw it that took it there or out of there.


@dataclass(frozen=True)
class MadePages:
    """The pages that a rewrite has made: their ``operator`` and their ``record``."""

    operator: int
    record: PagesRecord

    def are_of(self, operator: OperatorShape) -> bool:
        """Whether they are that one's."""
        return operator.number == self.operator


def made_pages(new: Files) -> MadePages | None:
    """Those of the one operator that a rewrite put into pages; None where it put none there."""
    for number, name in paged_names(new).items():
        record = read_pages_record(new, written_name(name))
        if record is not None:
            return MadePages(number, record)
    return None


def viewed(
    old: Files, new: Files, shape: CheckpointShape, reader: StateReader, spark: SparkSession
) -> tuple[CheckpointShape, RowReader]:
    """The old shape, and what reads its rows: of pages that were left, the variables in them."""
    now, made = paged_names(new), made_pages(new)
    for each in shape.operators:
        paged = [name for name in user_stores(each) if is_pages(name)]
        is_as_it_was = each.number in now and (made is None or not made.are_of(each))
        record = read_pages_record(old, record_name(name_in(paged))) if paged else None
        if record is not None and not is_as_it_was:
            logical = operator_with(record, each, shape.conf, spark)
            operators = tuple(logical if one is each else one for one in shape.operators)
            return replace(shape, operators=operators), reader_of(
                Paging(record, each), reader, old.location
            )
    return shape, reader


# The scripts that a rewrite ran, found again, and whether they are what they were.


@dataclass(frozen=True)
class ScriptsAgain:
    """The scripts; and by the kind and number of a store why there are none, and what was edited.

    ``edited`` has the revisions whose checksum is not the one that the rewrite noted.
    """

    scripts: RewriteScripts = field(default_factory=RewriteScripts)
    missing: Mapping[str, str] = field(default_factory=dict)
    edited: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def scripts_again(
    report: RewriteReport,
    shape: CheckpointShape,
    lineages: Mapping[str, Lineage] | None,
    record: Mapping[str, StoreRecord],
) -> ScriptsAgain:
    """Find what the rewrite of the checkpoint of this ``shape`` noted to have run.

    ``lineages`` is None without a folder of scripts; ``record`` is what deployments noted in the
    old checkpoint. Raises `StartupError` for state that is of no revision of theirs.
    """
    noted = {**report.scripts, **report.scripts_of_new}
    missing = {known: why for known, run in noted.items() if (why := _missing(run, lineages))}
    old = {known: run for known, run in report.scripts.items() if known not in missing}
    new = {known: run for known, run in report.scripts_of_new.items() if known not in missing}
    scripts = RewriteScripts(
        _found(old, shape, lineages, record).of_old(),
        _found(new, shape, lineages, record).of_new(report.states),
    )
    edited = {
        known: _edited((lineages or {})[run.store], run) for known, run in {**old, **new}.items()
    }
    return ScriptsAgain(scripts, missing, edited)


def _found(
    runs: Mapping[str, ScriptsRun],
    shape: CheckpointShape,
    lineages: Mapping[str, Lineage] | None,
    record: Mapping[str, StoreRecord],
) -> StoreScripts:
    return StoreScripts(
        shape,
        {run.store: (lineages or {})[run.store] for run in runs.values()},
        record,
        {run.store: run.target for run in runs.values()},
        {run.store: known for known, run in runs.items()},
    )


def _missing(run: ScriptsRun, lineages: Mapping[str, Lineage] | None) -> str:
    if lineages is None:
        return "there is no folder of scripts here; name it with --migrations"
    lineage = lineages.get(run.store)
    if lineage is None:
        return f"the folder of scripts has none of {run.store}"
    absent = [each for each in run.applied if each not in lineage]
    return f"the folder has no script of revision {absent[0]}" if absent else ""


def _edited(lineage: Lineage, run: ScriptsRun) -> tuple[str, ...]:
    return tuple(
        each.revision
        for each in lineage.migrations
        if not each.was_applied_as(run.applied.get(each.revision, each.checksum))
    )


# State that Spark cannot load: which store, partition and file it is, in place of Java's words.


Result = TypeVar("Result")
_PAUSE = 0.25


@dataclass(frozen=True)
class LoadedState:
    """The state of the checkpoint in ``files``, which has this ``shape``."""

    files: Files
    shape: CheckpointShape

    def whole(self, operator: OperatorShape, read: Callable[[], Result]) -> Result:
        """What ``read`` returns, which is called again where the store broke off what Spark read.

        Raises as `loading`.
        """
        from statemigrate.files import CutOffError

        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self.loading(operator):
                    return read()
            except CutOffError:
                if attempt == ATTEMPTS:
                    raise
                time.sleep(_PAUSE)
        raise AssertionError("unreachable")

    @contextmanager
    def loading(self, operator: OperatorShape) -> Iterator[None]:
        """Raise `CorruptFileError`, or else `CheckpointError`, for what Spark cannot read of it.

        The error is the first of `damage`, or what Spark says itself. Where the files are sound and
        the store has failed it is a `StorageError`, which says nothing of the state.
        """
        from statemigrate.files import (
            JAVA_ERRORS,
            chain,
            failure_of_store,
            thrown_by,
        )

        try:
            with reraising_worker_errors():
                yield
        except JAVA_ERRORS as error:
            damage = next(self.damage(operator.number), None)
            if damage is not None:
                raise damage from error
            path = f"{self.files.location}/state/{operator.number}"
            failure = failure_of_store("reading", path, error)
            if failure is not None:
                raise failure from error
            causes = [each for each in chain(thrown_by(error)) if each[1]]
            raise CheckpointError(
                "SM-VERIFY-002",
                f"Spark cannot read the state of operator {operator.number}",
                expected="state that Spark's own reader loads",
                found=(causes[-1][1] if causes else str(error)).splitlines()[0][:300],
                next_action="look at what was found; restore the state from a copy of the "
                "checkpoint",
                path=path,
            ) from error

    def damage(self, number: int) -> Iterator[CorruptFileError]:
        """What is wrong with the files of each store and partition, by a reading without Spark."""
        operator = next(each for each in self.shape.operators if each.number == number)
        conf = self.shape.conf
        for partition in range(used_partitions(operator)):
            for place, store in enumerate(operator.stores):
                try:
                    version = store_version(self.files, self.shape, operator, place, partition)
                    provider_of(conf).open(self.files, version, conf).check()
                except CorruptFileError as error:
                    yield error.but(
                        summary=f"partition {partition} of store {store.name} cannot be loaded: "
                        f"{error.summary}",
                        store=store.name,
                        partition=partition,
                    )
