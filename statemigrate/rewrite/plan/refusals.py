"""State that cannot be rewritten yet, refused by name while nothing is written."""

from __future__ import annotations

from collections.abc import Iterator

from statemigrate.checkpoint.logs.pinned import ENCODING, is_avro, is_rocksdb
from statemigrate.checkpoint.operators.catalogue import ROW_COUNTER, is_internal, is_timers
from statemigrate.checkpoint.operators.labels import with_labels
from statemigrate.checkpoint.operators.shapes import (
    CheckpointShape,
    FamilyShape,
    OperatorShape,
    TimestampPostfix,
    TimestampPrefix,
)
from statemigrate.checkpoint.rows.keys import KeyCodec
from statemigrate.checkpoint.rows.layouts import RowLayout
from statemigrate.checkpoint.rows.values import ValueCodec
from statemigrate.errors import UnsupportedError


def refuse_unsupported(old: CheckpointShape, new: CheckpointShape) -> None:
    """Raise `UnsupportedError` for state that could not be read, or could not be written."""
    if any(each.sinks for each in old.commits.values()):
        raise _unsupported(
            "the commit log keeps what sinks have noted",
            "commits of version 1 or 2",
            "sinkMetadataMap",
            "this cannot be carried over yet",
        )
    for shape in (old, new):
        for operator, family in _families(shape):
            _refuse_family(operator, family)
    _check_writable(new)


def _check_writable(new: CheckpointShape) -> None:
    rocksdb = is_rocksdb(new.conf)
    if rocksdb and is_avro(new.conf):
        raise _unsupported(
            "rows in the Avro encoding cannot be written yet",
            f"{ENCODING}=unsaferow",
            "avro",
            f"add --conf {ENCODING}=unsaferow; Spark takes the encoding from the new checkpoint",
        )
    if rocksdb and new.batch == 0 and any(each.metadata_version > 1 for each in new.operators):
        # Spark takes the numbers of column families from a snapshot, and reads none of version 0.
        raise _unsupported(
            "the query has committed its first batch only, and its state has column families",
            "a query that has committed two batches",
            "batch 0",
            "let the query commit one more batch",
        )
    layout = RowLayout.of(new.conf)
    for operator, family in _families(new):
        if not rocksdb and operator.metadata_version > 1:
            raise _unsupported(
                f"the state of operator {operator.number}, {operator.name}, needs RocksDB",
                "--provider rocksdb",
                "the HDFS-backed provider",
                "keep RocksDB for this query",
            )
        # A type that cannot be written is refused here, and not by the first row.
        KeyCodec(with_labels(family.key), family.encoder, layout)
        ValueCodec(with_labels(family.value), layout, is_list=family.is_list)


def _refuse_family(operator: OperatorShape, family: FamilyShape) -> None:
    known = is_timers(family.name) or family.name.startswith(ROW_COUNTER)
    if is_internal(family.name) and not known:
        raise _unsupported(
            f"operator {operator.number} has variables that expire",
            "variables without a time to live",
            family.name,
            "these cannot be rewritten yet; migrate the query live",
        )
    if isinstance(family.encoder, TimestampPrefix | TimestampPostfix):
        raise _unsupported(
            f"operator {operator.number} is a join of state format 4",
            "a join of state format 1, 2 or 3",
            family.name,
            "this cannot be rewritten yet",
        )


def _families(shape: CheckpointShape) -> Iterator[tuple[OperatorShape, FamilyShape]]:
    for operator in shape.operators:
        for store in operator.stores:
            for family in store.families:
                yield operator, family


def _unsupported(summary: str, expected: str, found: str, action: str) -> UnsupportedError:
    return UnsupportedError(
        summary, expected=expected, found=found, next_action=f"{action}; nothing was written"
    )
