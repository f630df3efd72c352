"""Everything of the new checkpoint but its rows: metadata, schemas, sources, logs, in this order.

The file that makes it a checkpoint is not written here.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping

from statemigrate.checkpoint.operators.catalogue import DEFAULT
from statemigrate.checkpoint.operators.entries import OperatorEntry, StoreEntry
from statemigrate.checkpoint.operators.schemas import FamilySchema, written_v2, written_v3
from statemigrate.checkpoint.operators.shapes import (
    CheckpointShape,
    FamilyShape,
    OperatorShape,
    PrefixScan,
    StoreShape,
)
from statemigrate.files import Files
from statemigrate.native.seen.record import StoreRecord, read_record, write_record
from statemigrate.native.spark_state.view import uri_of
from statemigrate.rewrite.forking.own_files import own_files
from statemigrate.rewrite.forking.source_logs import source_files
from statemigrate.rewrite.run.report import REPORT

_LARGEST = 1 << 30
"""Bytes of a source's log."""
_OF_A_REWRITE = (REPORT,)
"""What the old checkpoint says of itself alone."""


def publish_shape(
    shape: CheckpointShape, old: Files, new: Files, noted: Mapping[str, StoreRecord]
) -> None:
    """Write what the new checkpoint's ``shape`` says, and what the ``old`` one keeps beside state.

    That are the sources' logs, up to the offsets of the shape, and what statemigrate itself keeps;
    ``noted`` is what is new of its record of stores.
    """
    for operator in shape.operators:
        for name, data in _operator_files(operator, uri_of(new)):
            new.replace(name, data)
    sources = source_files(old, new, shape.offsets[shape.batch].offsets, is_last=True)
    own = own_files(old, shape.batch, is_last=True)
    for name in (*sources.copied, *own.copied):
        if name not in _OF_A_REWRITE:
            new.put(name, old.get(name, most=_LARGEST))
    for name, data in {**sources.written, **own.written}.items():
        new.replace(name, data)
    if noted:
        write_record(new, {**read_record(old), **noted})
    for batch, commit in shape.commits.items():
        new.replace(f"commits/{batch}", commit.data)
    for batch, offsets in shape.offsets.items():
        new.replace(f"offsets/{batch}", offsets.data)


def _operator_files(operator: OperatorShape, root: str) -> Iterator[tuple[str, bytes]]:
    if operator.metadata_version == 1:
        for store in operator.stores:
            inner = "" if store.name == DEFAULT else f"{store.name}/"
            path = f"state/{operator.number}/0/{inner}_metadata/schema"
            yield path, written_v2(_schema(store.families[0]))
        yield f"state/{operator.number}/_metadata/metadata", _entry(operator, {}).data
        return
    schemas: dict[str, str] = {}
    for store in operator.stores:
        data = written_v3([_schema(each) for each in store.families])
        # The same schemas have the same name: a rewrite that is taken up again writes it again.
        unique = uuid.uuid5(uuid.NAMESPACE_OID, f"{operator.number} {store.name} {data.hex()}")
        path = f"state/{operator.number}/_stateSchema/{store.name}/0_{unique}"
        schemas[store.name] = f"{root}/{path}"
        yield path, data
    yield f"state/{operator.number}/_metadata/v2/0", _entry(operator, schemas).data


def _entry(operator: OperatorShape, schemas: dict[str, str]) -> OperatorEntry:
    stores = tuple(
        StoreEntry(
            each.name,
            0 if schemas else _prefix(each),
            each.partitions,
            (schemas[each.name],) if schemas else (),
        )
        for each in operator.stores
    )
    properties = operator.properties
    text = None if not schemas else _json(properties) if properties else ""
    return OperatorEntry(operator.number, operator.name, stores, text)


def _json(properties: object) -> str:
    return json.dumps(properties, separators=(",", ":"), ensure_ascii=False)


def _prefix(store: StoreShape) -> int:
    encoder = store.families[0].encoder
    return encoder.columns if isinstance(encoder, PrefixScan) else 0


def _schema(family: FamilyShape) -> FamilySchema:
    return FamilySchema(family.name, family.key, family.value, family.encoder, family.user_key)
