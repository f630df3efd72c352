"""The rows of forgotten families: which of them come back, and which give way to newer facts.

A key that a live family of the store has keeps its live value. One that was deleted since, or that
expired, stays away. All others come back as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from statemigrate.checkpoint.logs.commits import read_commit
from statemigrate.checkpoint.operators.described import read_operator
from statemigrate.checkpoint.operators.shapes import CheckpointShape, FamilyShape, OperatorShape
from statemigrate.deployment import is_family_of
from statemigrate.errors import RewriteError
from statemigrate.files import Files
from statemigrate.rewrite.forgotten.deletions import Deletions, deletions
from statemigrate.rewrite.forgotten.document import RestoredFamily
from statemigrate.rewrite.forgotten.sources import FamilySource, Sources, is_kept
from statemigrate.rewrite.plan.pairing.places import Place, families_of
from statemigrate.rewrite.rows.arrow.structs import row_type
from statemigrate.rewrite.rows.checksum import Checksum
from statemigrate.rewrite.rows.checksums import hashes, summed, sums
from statemigrate.rewrite.rows.reading import RowReader, StateReader
from statemigrate.rewrite.rows.session import (
    frame_of,
    gathered_by_one_task,
    rewriting_session,
)
from statemigrate.state.telling import told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Outcome = Literal["restored", "live", "deleted"]
_OUTCOME, _LIVE, _DELETED = "outcome", "is_live", "is_deleted"


@dataclass(frozen=True)
class FamilyRows:
    """What was found of a forgotten family.

    All of its rows are ``found``. ``restored`` are those that come back; ``live`` are those whose
    key a live family has, and ``deleted`` those whose key was deleted since. Of the batches
    ``untold`` it cannot be told what they have deleted.
    """

    source: FamilySource
    found: Checksum
    restored: Checksum
    live: Checksum
    deleted: Checksum
    untold: tuple[int, ...] = ()

    @property
    def noted(self) -> RestoredFamily:
        """The same, as the new checkpoint keeps it."""
        family = self.source.forgotten
        return RestoredFamily(
            family.store,
            family.name,
            self.source.batch,
            family.batch,
            family.is_known,
            len(self.untold),
            self.found,
            self.restored,
            self.live,
            self.deleted,
        )

    @property
    def is_map(self) -> bool:
        """Whether it is a map, of which no file tells that it was cleared."""
        return self.source.family.user_key is not None


@dataclass(frozen=True)
class ForgottenRows:
    """The rows of forgotten families of a checkpoint whose newest batch has this ``shape``."""

    files: Files
    shape: CheckpointShape
    sources: Sources
    spark: SparkSession

    def surveyed(self) -> tuple[FamilyRows, ...]:
        """Count the rows of each family by what becomes of them.

        Raises `RewriteError` where the counts and checksums of the parts are not those of the whole
        family.
        """
        return tuple(self._surveyed(each) for each in self.sources.families)

    def restored(self, source: FamilySource) -> DataFrame:
        """The rows that come back, as `StateReader` gives them."""
        from pyspark.sql import functions as F  # noqa: N812

        rows = self._judged(source).where(F.col(_OUTCOME) == "restored")
        return rows.select("key", "value", "partition")

    def _surveyed(self, source: FamilySource) -> FamilyRows:
        judged = self._judged(source)
        rows = self._rows(source)
        parts = judged.select(_OUTCOME, *hashes(rows.schema)).groupBy(_OUTCOME).agg(*sums())
        whole = rows.select(*hashes(rows.schema)).agg(*sums())
        with told(), gathered_by_one_task(self.session):
            by_outcome = {row[_OUTCOME]: summed(row) for row in parts.collect()}
            found = summed(whole.collect()[0])
        total = sum(by_outcome.values(), Checksum())
        if total != found:
            raise _not_all(source, found, total)
        nothing = Checksum()
        return FamilyRows(
            source,
            found,
            by_outcome.get("restored", nothing),
            by_outcome.get("live", nothing),
            by_outcome.get("deleted", nothing),
            self._deletions(source).unknown,
        )

    def _rows(self, source: FamilySource) -> DataFrame:
        """All rows of a family, where it is still to be read."""
        reader = self._reader(source.batch, source.metadata)
        return reader.rows(self.sources.operator, source.place(self.sources.operator))

    def _reader(self, batch: int, metadata: Mapping[str, bytes] | None = None) -> StateReader:
        """What reads the state after a batch that is kept."""
        ids = read_commit(self.files, batch).state_ids
        newest = self.shape.commits[self.shape.batch]
        # Frames of one session are joined, but where the query has changed the format of its files.
        session = self.session
        if (ids is None) != (newest.state_ids is None):
            commits = {self.shape.batch: replace(newest, state_ids=ids)}
            session = rewriting_session(self.spark, replace(self.shape, commits=commits))
        return StateReader(self.files, batch, session, metadata or {})

    def _judged(self, source: FamilySource) -> DataFrame:
        """All rows of a family with the `Outcome` of each."""
        from pyspark.sql import functions as F  # noqa: N812

        rows = self._rows(source)
        kind = row_type(source.place(self.sources.operator).family.key)
        live = [each.select(F.col("key").cast(kind).alias("key")) for each in self._live(source)]
        deleted = [each.select(F.col("key").cast(kind).alias("key")) for each in self._gone(source)]
        for name, keys in ((_LIVE, live), (_DELETED, deleted)):
            if keys:
                together = reduce(lambda a, b: a.unionByName(b), keys)
                marked = together.distinct().withColumn(name, F.lit(col=True))
                rows = rows.join(marked, "key", "left")
            else:
                rows = rows.withColumn(name, F.lit(None).cast("boolean"))
        outcome = F.when(F.col(_LIVE), "live").when(F.col(_DELETED), "deleted")
        return rows.withColumn(_OUTCOME, outcome.otherwise("restored"))

    def _gone(self, source: FamilySource) -> list[DataFrame]:
        """Keys that were deleted since, but for those that are live again.

        Changelogs name them. Of a batch that has none, what live families had after it and have not
        after the newest tells of some.
        """
        found: list[DataFrame] = []
        deleted = self._deletions(source)
        if len(deleted.keys):
            table = pa.Table.from_arrays([deleted.keys], ["key"])
            found.append(frame_of(self.session, table))
        for batch in deleted.unknown:
            if batch < self.shape.batch and is_kept(self.files, self.shape, self._operator, batch):
                found += self._at(batch, source)
        return found

    def _at(self, batch: int, source: FamilySource) -> list[DataFrame]:
        """What live families had after a batch."""
        reader = self._reader(batch)
        then = read_operator(self.files, self._operator.number, batch, self.shape.conf)
        names = {name for name, _ in families_of(then)}
        live = [each for each in self._live_places(source) if each.family.name in names]
        return [reader.rows(self._operator, each) for each in live]

    def _live(self, source: FamilySource) -> list[DataFrame]:
        """The rows of the store's other families, and of those that were forgotten later."""
        reader = StateReader(self.files, self.shape.batch, self.session)
        found = [reader.rows(self._operator, each) for each in self._live_places(source)]
        later = self.sources.families[: self.sources.families.index(source)]
        store = source.forgotten.store
        return [*found, *(self._rows(each) for each in later if each.forgotten.store == store)]

    def _live_places(self, source: FamilySource) -> list[Place]:
        forgotten = {each.name for each in self.sources.families}
        return [
            place
            for name, place in families_of(self._operator)
            if is_family_of(source.forgotten.store, name) and name not in forgotten
        ]

    @property
    def _operator(self) -> OperatorShape:
        """The operator as Spark lists it."""
        number = self.sources.operator.number
        return next(each for each in self.shape.operators if each.number == number)

    def _deletions(self, source: FamilySource) -> Deletions:
        return self._found_deletions[source.name]

    @cached_property
    def _found_deletions(self) -> dict[str, Deletions]:
        return {
            each.name: deletions(
                self.files,
                self.shape,
                self._operator,
                self._families(each),
                range(each.forgotten.batch + 1, self.shape.batch + 1),
            )
            for each in self.sources.families
        }

    def _families(self, source: FamilySource) -> Sequence[FamilyShape]:
        return [each.family for each in self._live_places(source)]

    @cached_property
    def session(self) -> SparkSession:
        """The session that all of it is read with."""
        return rewriting_session(self.spark, self.shape)


@dataclass(frozen=True)
class RestoringReader:
    """The rows of the newest batch, and of what was ``forgotten`` those that come back."""

    newest: RowReader
    forgotten: ForgottenRows

    def rows(self, operator: OperatorShape, place: Place) -> DataFrame:
        """See `RowReader`."""
        sources = self.forgotten.sources
        if operator.number == sources.operator.number:
            for each in sources.families:
                if each.name == place.family.name:
                    return self.forgotten.restored(each)
        return self.newest.rows(operator, place)


def _not_all(source: FamilySource, found: Checksum, total: Checksum) -> RewriteError:
    return RewriteError(
        "SM-REPAIR-004",
        f"the rows of {source.name} were not all judged",
        expected=f"{found.count:,} rows with the checksum {found.text}",
        found=f"{total.count:,} rows with the checksum {total.text}",
        next_action="stop whatever writes to the checkpoint, and run the command again; nothing "
        "was written",
        store=source.forgotten.store,
        family=source.name,
    )
