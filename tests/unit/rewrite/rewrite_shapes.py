"""Shapes of checkpoints, as tests of plans put them together."""

from statemigrate.checkpoint.logs.entries import CommitEntry, OffsetEntry
from statemigrate.checkpoint.logs.offsets import Offsets
from statemigrate.checkpoint.operators.shapes import (
    CheckpointShape,
    FamilyShape,
    NoPrefix,
    OperatorShape,
    StoreShape,
)
from statemigrate.formats.struct.ddl import parse_ddl

CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state"
    ".HDFSBackedStateStoreProvider",
}


def struct(ddl):
    return parse_ddl(ddl)


def buffers(*fields):
    """A struct of pairs (name, type), whose names may repeat."""
    made = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in fields]
    return {"type": "struct", "fields": made}


def operator(name, key, value, number=0):
    family = FamilyShape("default", key, value, NoPrefix())
    return OperatorShape(number, name, 1, (StoreShape("default", False, 2, (family,)),))


def aggregation(key, value, number=0):
    return operator("stateStoreSave", key, value, number)


def checkpoint(*operators, watermark=0):
    offsets = OffsetEntry(Offsets(False, ('{"logOffset":3}',)), watermark, 1, CONF)
    logs = {3: offsets, 4: offsets}
    commits = dict.fromkeys((3, 4), CommitEntry(watermark))
    return CheckpointShape("an id", 4, logs, commits, operators)
