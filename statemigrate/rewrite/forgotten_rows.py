"""The rows of families that Spark forgot: which come back, and which give way to newer facts.

Which keys were deleted in some batches, as the changelogs of these batches say.

Spark notes there each deletion that code asks for, and each of a value that expires, whether or
not the key had a value. What it cannot note is a map that is cleared while the code sees no entry
in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint import OperatorFamily, stored_partition
from statemigrate.checkpoint.logs import batches_in, is_avro, names_in, read_commit
from statemigrate.checkpoint.operators import (
    CheckpointShape,
    FamilyShape,
    OperatorShape,
    read_operator,
    row_json,
    used_partitions,
)
from statemigrate.checkpoint.rows import KeyCodec, Rows, families_of
from statemigrate.checkpoint.stores import DELETE, provider_of, row_layout, store_folder
from statemigrate.deployment import is_family_of
from statemigrate.errors import RewriteError
from statemigrate.files import Files
from statemigrate.native import RECORD, StoreRecord, read_record, record_document
from statemigrate.rewrite.arrow_types import arrow_row, retyped, row_type
from statemigrate.rewrite.checksums import hashes, summed, sums
from statemigrate.rewrite.column_pairing import FamilyAddress, store_families
from statemigrate.rewrite.file_reading import FileReader
from statemigrate.rewrite.forgotten_sources import (
    FamilySource,
    RestoredFamily,
    Sources,
    is_state_retained,
    restored_data,
)
from statemigrate.rewrite.operator import Copies
from statemigrate.rewrite.origin import RESTORED, OldCheckpoint
from statemigrate.rewrite.rewrite_plan import RewritePlan
from statemigrate.rewrite.rewrite_report import Checksum
from statemigrate.rewrite.spark_reader import (
    RowReader,
    StateReader,
    collected_by_one_task,
    frame_of,
    rewriting_session,
)
from statemigrate.state import reraising_worker_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Deletions:
    """The ``keys`` that were deleted, some of them several times, fields by their labels.

    ``unknown`` are the batches without a changelog: for some Spark writes none.
    """

    keys: pa.ChunkedArray
    unknown: tuple[int, ...] = ()


def deletions(
    files: Files,
    shape: CheckpointShape,
    operator: OperatorShape,
    families: Sequence[FamilyShape],
    batches: range,
) -> Deletions:
    """The keys that ``batches`` have deleted from any of ``families``, all of one type of key.

    ``shape`` is the checkpoint's as of its newest batch. Raises `CorruptFileError` for a file that
    is not what Spark writes.
    """
    kind = arrow_row(families[0].key) if families else pa.struct([])
    if is_avro(shape.conf):
        # Keys in Avro need every schema there ever was.
        return Deletions(pa.chunked_array([], kind), tuple(batches))
    unknown: set[int] = set()
    kept = set(batches_in(names_in(files, "commits")))
    chunks: list[pa.Array] = []
    for partition in range(used_partitions(operator)):
        codecs = _codecs(files, shape, operator, families, partition)
        if len(codecs) < len(families):
            # Nothing shows which keys belong to which.
            unknown.update(batches)
            continue
        for batch in batches:
            name = _changelog(files, operator, partition, batch) if batch in kept else None
            if name is None:
                unknown.add(batch)
                continue
            for number, raw in _deleted(files, shape, name, codecs):
                chunks.append(retyped(codecs[number].decode(raw), kind))
    return Deletions(pa.chunked_array(chunks, kind), tuple(sorted(unknown)))


def _changelog(files: Files, operator: OperatorShape, partition: int, batch: int) -> str | None:
    ids = (read_commit(files, batch).state_ids or {}).get(operator.number)
    unique = f"_{ids[partition][0]}" if ids else ""
    name = f"{store_folder(operator.number, partition)}/{batch + 1}{unique}.changelog"
    return None if files.find(name) is None else name


def _codecs(
    files: Files,
    shape: CheckpointShape,
    operator: OperatorShape,
    families: Sequence[FamilyShape],
    partition: int,
) -> dict[int, KeyCodec]:
    """What reads keys of the families, by the numbers that these have in a partition."""
    numbers = stored_partition(files, shape, operator, 0, partition).families
    layout = row_layout(shape.conf)
    return {
        numbers[each.name]: KeyCodec(row_json(each.key), each.encoder, layout, numbers[each.name])
        for each in families
        if each.name in numbers
    }


def _deleted(
    files: Files, shape: CheckpointShape, name: str, codecs: Mapping[int, KeyCodec]
) -> Iterator[tuple[int, Rows]]:
    for changes in provider_of(shape.conf).changes(files, [name], shape.conf):
        keys = changes.keys.take(np.flatnonzero(changes.kinds == DELETE))
        if not len(keys):
            continue
        found = families_of(keys)
        for number in codecs:
            own_number = np.flatnonzero(found == number)
            if own_number.size:
                yield number, keys.take(own_number)


# The rows of forgotten families: which of them come back, and which give way to newer facts.
#
# A key that a live family of the store has keeps its live value. One that was deleted since, or
# that expired, stays away. All others come back as they were.


Outcome = Literal["restored", "live", "deleted"]
_OUTCOME, _LIVE, _DELETED = "outcome", "is_live", "is_deleted"


@dataclass(frozen=True)
class ForgottenFamilyRows:
    """What was found of a forgotten family.

    All of its rows are ``found``. ``restored`` are those that come back; ``live`` are those whose
    key a live family has, and ``deleted`` those whose key was deleted since. Of the batches
    ``untold`` it is unknown what they have deleted.
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
        """Whether it is a map. No file says that a map was cleared."""
        return self.source.family.user_key is not None


@dataclass(frozen=True)
class ForgottenRows:
    """The rows of forgotten families of a checkpoint whose newest batch has this ``shape``."""

    files: Files
    shape: CheckpointShape
    sources: Sources
    spark: SparkSession

    def surveyed(self) -> tuple[ForgottenFamilyRows, ...]:
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

    def _surveyed(self, source: FamilySource) -> ForgottenFamilyRows:
        judged = self._judged(source)
        rows = self._rows(source)
        parts = judged.select(_OUTCOME, *hashes(rows.schema)).groupBy(_OUTCOME).agg(*sums())
        whole = rows.select(*hashes(rows.schema)).agg(*sums())
        with reraising_worker_errors(), collected_by_one_task(self.session):
            by_outcome = {row[_OUTCOME]: summed(row) for row in parts.collect()}
            found = summed(whole.collect()[0])
        total = sum(by_outcome.values(), Checksum())
        if total != found:
            raise _not_all(source, found, total)
        nothing = Checksum()
        return ForgottenFamilyRows(
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
        return reader.rows(self.sources.operator, source.address(self.sources.operator))

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
        kind = row_type(source.address(self.sources.operator).family.key)
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
            if batch < self.shape.batch and is_state_retained(
                self.files, self.shape, self._operator, batch
            ):
                found += self._at(batch, source)
        return found

    def _at(self, batch: int, source: FamilySource) -> list[DataFrame]:
        """What live families had after a batch."""
        reader = self._reader(batch)
        then = read_operator(self.files, self._operator.number, batch, self.shape.conf)
        names = {name for name, _ in store_families(then)}
        live = [each for each in self._live_families(source) if each.family.name in names]
        return [reader.rows(self._operator, each) for each in live]

    def _live(self, source: FamilySource) -> list[DataFrame]:
        """The rows of the store's other families, and of those that were forgotten later."""
        reader = StateReader(self.files, self.shape.batch, self.session)
        found = [reader.rows(self._operator, each) for each in self._live_families(source)]
        later = self.sources.families[: self.sources.families.index(source)]
        store = source.forgotten.store
        return [*found, *(self._rows(each) for each in later if each.forgotten.store == store)]

    def _live_families(self, source: FamilySource) -> list[FamilyAddress]:
        forgotten = {each.name for each in self.sources.families}
        return [
            place
            for name, place in store_families(self._operator)
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
        return [each.family for each in self._live_families(source)]

    @cached_property
    def session(self) -> SparkSession:
        """The session that all of it is read with."""
        return rewriting_session(self.spark, self.shape)


@dataclass(frozen=True)
class RestoringReader:
    """The rows of the newest batch, and of what was ``forgotten`` those that come back."""

    newest: RowReader
    forgotten: ForgottenRows

    def rows(self, operator: OperatorShape, place: FamilyAddress) -> DataFrame:
        """See `RowReader`."""
        source = self._source(operator, place)
        return (
            self.newest.rows(operator, place) if source is None else self.forgotten.restored(source)
        )

    def family(self, operator: OperatorShape, place: FamilyAddress) -> OperatorFamily | None:
        """See `RowReader`: what comes back is in no files of its own."""
        source = self._source(operator, place)
        return self.newest.family(operator, place) if source is None else None

    def _source(self, operator: OperatorShape, place: FamilyAddress) -> FamilySource | None:
        sources = self.forgotten.sources
        if operator.number != sources.operator.number:
            return None
        return next((each for each in sources.families if each.name == place.family.name), None)


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


# A checkpoint with its forgotten families as what a new checkpoint is made from.


@dataclass(frozen=True)
class RestoredCheckpoint(OldCheckpoint):
    """The old checkpoint, whose operator has the families of ``forgotten`` again.

    ``found`` is what was found of each.
    """

    forgotten: ForgottenRows = field(kw_only=True)
    found: Sequence[ForgottenFamilyRows] = ()

    def reader(self, plan: RewritePlan, spark: SparkSession) -> RowReader:  # noqa: ARG002 - an Origin's
        """The newest state, with what comes back."""
        states = StateReader(self.files, plan.old.batch, self.forgotten.session)
        return RestoringReader(FileReader(states, plan.old), self.forgotten)

    def unchanged_operators(self, plan: RewritePlan) -> Mapping[int, Copies]:
        """Those of other operators, as they are."""
        return self._others(super().unchanged_operators(plan))

    def extra_files(
        self, plan: RewritePlan, new: Files, spark: SparkSession
    ) -> Iterator[tuple[str, bytes]]:
        """As of a rewrite; the record of stores says that the families are live."""
        for name, data in super().extra_files(plan, new, spark):
            if name != RECORD:
                yield name, data
        record = read_record(self.files)
        names = {each.source.forgotten.store for each in self.found}
        back = {
            store: self._record(store, each, plan.new.batch)
            for store, each in record.items()
            if store in names
        }
        if record:
            yield RECORD, record_document({**record, **back})
        yield RESTORED, restored_data([each.noted for each in self.found])

    def _record(self, store: str, record: StoreRecord, batch: int) -> StoreRecord:
        own = [each.source.name for each in self.found if each.source.forgotten.store == store]
        families = tuple(dict.fromkeys([*record.families, *own]))
        return replace(record, families=families, batch=batch, begun=())

    def _others(self, found: Mapping[int, Any]) -> dict[int, Any]:
        own_number = self.forgotten.sources.operator.number
        return {number: each for number, each in found.items() if number != own_number}


def with_forgotten(shape: CheckpointShape, forgotten: ForgottenRows) -> CheckpointShape:
    """The checkpoint's shape with the families that were forgotten."""
    whole = forgotten.sources.operator
    operators = tuple(whole if each.number == whole.number else each for each in shape.operators)
    return replace(shape, operators=operators)
