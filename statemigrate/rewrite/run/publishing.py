"""Everything of the new checkpoint but its rows: metadata, schemas, sources, logs, in this order.

The file that makes it a checkpoint is not written here.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace

from statemigrate.checkpoint.operators.catalogue import DEFAULT
from statemigrate.checkpoint.operators.schemas import FamilySchema, written_v2, written_v3
from statemigrate.checkpoint.operators.shapes import (
    CheckpointShape,
    FamilyShape,
    OperatorShape,
)
from statemigrate.checkpoint.operators.telling import FIRST_METADATA, entry_of
from statemigrate.files import Files
from statemigrate.native.spark_state.view import uri_of
from statemigrate.rewrite.rows.arrow.structs import all_nullable


def publish_shape(
    shape: CheckpointShape, new: Files, beside: Iterable[tuple[str, bytes]]
) -> dict[str, str]:
    """Write what the new checkpoint's ``shape`` says, and the files ``beside`` it by name.

    Returns the SHA-256 of each by its name.
    """
    hashes: dict[str, str] = {}
    for name, data in _files(shape, new, beside):
        new.replace(name, data)
        hashes[name] = hashlib.sha256(data).hexdigest()
    return hashes


def _files(
    shape: CheckpointShape, new: Files, beside: Iterable[tuple[str, bytes]]
) -> Iterator[tuple[str, bytes]]:
    for operator in shape.operators:
        yield from _operator_files(operator, uri_of(new))
    yield from beside
    for batch, commit in shape.commits.items():
        yield f"commits/{batch}", commit.data
    for batch, offsets in shape.offsets.items():
        yield f"offsets/{batch}", offsets.data


def _operator_files(operator: OperatorShape, root: str) -> Iterator[tuple[str, bytes]]:
    if operator.metadata_version < 2:
        for store in operator.stores:
            inner = "" if store.name == DEFAULT else f"{store.name}/"
            path = f"state/{operator.number}/0/{inner}_metadata/schema"
            yield path, written_v2(_lenient(store.families[0]))
        # Where the old Spark noted none, the new one notes what it finds: what a function on groups
        # is called cannot be told from its state.
        if operator.metadata_version:
            yield FIRST_METADATA.format(operator.number), entry_of(operator).data
        return
    schemas: dict[str, str] = {}
    for store in operator.stores:
        data = written_v3([_schema(each) for each in store.families])
        # The same schemas have the same name: a rewrite that is taken up again writes it again.
        unique = uuid.uuid5(uuid.NAMESPACE_OID, f"{operator.number} {store.name} {data.hex()}")
        path = f"state/{operator.number}/_stateSchema/{store.name}/0_{unique}"
        schemas[store.name] = f"{root}/{path}"
        yield path, data
    yield f"state/{operator.number}/_metadata/v2/0", entry_of(operator, schemas).data


def _schema(family: FamilyShape) -> FamilySchema:
    return FamilySchema(family.name, family.key, family.value, family.encoder, family.user_key)


def _lenient(family: FamilyShape) -> FamilySchema:
    """A schema that Spark's check takes whatever may be null.

    Rows are the same bytes either way, and releases do not agree about it: the key that a join of
    Spark 3.5 says is never null may be null for Spark 4.3, which then refuses to start.
    """
    schema = _schema(family)
    return replace(schema, key=all_nullable(schema.key), value=all_nullable(schema.value))
