"""The pages of a checkpoint that a backfill has to touch, found from scripts and the pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from statemigrate.deployment import (
    DeploymentSettings,
    check_scripts,
    family_name,
    is_family_of,
    live_path,
)
from statemigrate.migration import Lineage
from statemigrate.native import SparkCheckpoint, older_families, unknown_family, unscripted
from statemigrate.pages.columns import read
from statemigrate.pages.packed_rows import BUCKET
from statemigrate.pages.page_leaves import entries_of
from statemigrate.pages.pages_startup import contents_of_pages, pages_in, record_of, stored_in
from statemigrate.pages.visit import key_fingerprint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from statemigrate.scripts import Survey


_COLUMNS = f"family STRING, {BUCKET} INT, partition_id INT, entries BIGINT"


def older(
    checkpoint: SparkCheckpoint,
    scripts: Survey,
    targets: Mapping[str, str],
    *,
    accept_edited: Sequence[str] | None = None,
) -> dict[str, DataFrame]:
    """As `older_families`; on pages a key is the number of a page that has the family.

    ``entries`` is how many of the family it has. With ``accept_edited`` a script that led to what
    pages have must be as it was then, unless it is named there: else that is a `StartupError`.

    Raises as that does, and `PageError` or `CorruptFileError` for pages that cannot be read.
    """
    if not checkpoint.is_paged:
        return older_families(checkpoint, scripts, targets)
    lineages = scripts.every()
    scripts.sound(*targets)
    record = record_of(checkpoint)
    frame = pages_in(checkpoint)
    held = contents_of_pages(
        frame, record.pages, key_fingerprint(StructType.fromJson(dict(record.key)))
    )
    stores = [store for store in lineages if store in record.stores]
    if not stores:
        raise unscripted(checkpoint.path, record.stores, lineages)
    if accept_edited is not None:
        stored = stored_in(record, held.families, lineages, checkpoint.path)
        for store in stored.keys() & lineages.keys():
            settings = DeploymentSettings(accept_edited=tuple(accept_edited))
            check_scripts(lineages[store], stored[store], settings)
    names = [
        name
        for store in stores
        for name in _of_store(lineages[store], targets.get(store, "head"), sorted(held.families))
    ]
    return {name: _pages_with(frame, name) for name in names}


def _of_store(lineage: Lineage, target: str, held: list[str]) -> Iterator[str]:
    wanted = lineage.resolve(target)
    revisions = {family_name(lineage, revision): revision for revision in lineage.revisions}
    for name in held:
        if not is_family_of(lineage.store, name):
            continue
        if name not in revisions:
            raise unknown_family(lineage, name)
        if revisions[name] != wanted:
            # Raises where no way leads to the target.
            live_path(lineage, revisions[name], wanted)
            yield name


def _pages_with(frame: DataFrame, family: str) -> DataFrame:
    from pyspark.sql import functions

    pages = frame.selectExpr(f"key.{BUCKET} AS number", "value.page AS page", "partition_id")
    found = pages.mapInArrow(_families, _COLUMNS).where(functions.col("family") == family)
    return found.selectExpr(f"struct({BUCKET}) AS key", "partition_id", "entries")


def _families(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for batch in batches:
        rows = [
            (extent.name, number, partition, entries_of(extent, section))
            for number, data, partition in zip(*(c.to_pylist() for c in batch.columns), strict=True)
            for extent, section in read(data)[1]
        ]
        columns = zip(*rows, strict=True) if rows else ((), (), (), ())
        types = pa.string(), pa.int32(), pa.int32(), pa.int64()
        names = ["family", BUCKET, "partition_id", "entries"]
        yield pa.RecordBatch.from_arrays(list(map(pa.array, columns, types)), names=names)
