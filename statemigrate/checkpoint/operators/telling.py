"""The metadata of an operator, as Spark would note them, from its shape."""

from __future__ import annotations

import json
from collections.abc import Mapping

from statemigrate.checkpoint.operators.entries import OperatorEntry, StoreEntry
from statemigrate.checkpoint.operators.shapes import OperatorShape, PrefixScan, StoreShape

FIRST_METADATA = "state/{}/_metadata/metadata"
"""Where those of version 1 are, by the operator's number."""


def entry_of(operator: OperatorShape, schemas: Mapping[str, str] | None = None) -> OperatorEntry:
    """The entry of ``operator``; for one of version 2 by store the URI of its schema file."""
    schemas = schemas or {}
    stores = tuple(
        StoreEntry(
            each.name,
            0 if schemas else _prefix(each),
            each.partitions,
            (schemas[each.name],) if schemas else (),
        )
        for each in operator.stores
    )
    text = None if not schemas else _json(operator.properties) if operator.properties else ""
    return OperatorEntry(operator.number, operator.name, stores, text)


def _json(properties: object) -> str:
    return json.dumps(properties, separators=(",", ":"), ensure_ascii=False)


def _prefix(store: StoreShape) -> int:
    encoder = store.families[0].encoder
    return encoder.columns if isinstance(encoder, PrefixScan) else 0
