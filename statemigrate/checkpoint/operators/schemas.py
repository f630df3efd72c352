"""The schemas of a stateful operator's rows, as Spark writes them next to the rows.

The file begins with its version. In ``v1`` the schemas of key and value follow, as JSON, each one
text; in ``v2`` each is a text in parts. Both are ``_metadata/schema`` of a store's partition 0.
``v3`` is ``_stateSchema/<store>/<batch>_<id>`` and has any number of column families: of each the
name, the number and schema of key and value, how keys are encoded, and the schema of a map's own
key. Format: ``SchemaHelper.scala`` and ``StateSchemaV3File.scala`` of apache/spark.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from statemigrate.checkpoint.operators.shapes import (
    KeyEncoder,
    NoPrefix,
    PrefixScan,
    RangeScan,
    StructJson,
    TimestampPostfix,
    TimestampPrefix,
)
from statemigrate.errors import CheckpointError
from statemigrate.files import check_shape, parse_json

# Java's ``DataOutput.writeUTF``: two bytes of length, then text in a UTF-8 of its own.
#
# There NUL has two bytes, and a character beyond the first 65,536 is written as its two surrogates.
# Longer text is written by Spark as a count and that many such texts (``SchemaHelper.scala``).


LONGEST = 65_535
"""Bytes of one text; characters of a part of a longer one, as Spark cuts it."""
_WIDEST = 3
"""Bytes of a UTF-16 unit."""


class JavaReader:
    """Reads what Java's ``DataOutputStream`` wrote, from the front.

    Methods raise ValueError where the data end too early, or are no such text.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def bytes_read(self) -> int:
        """How many bytes were read."""
        return self._at

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return self._at == len(self._data)

    def integer(self, size: int = 4) -> int:
        """A number with a sign, in ``size`` bytes."""
        return int.from_bytes(self._take(size), signed=True)

    def text(self) -> str:
        """What ``writeUTF`` wrote."""
        units = self._take(int.from_bytes(self._take(2))).replace(b"\xc0\x80", b"\0")
        paired = units.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass")
        return paired.decode("utf-16-le")

    def parts(self) -> str:
        """A text written as a count and its parts."""
        count = self.integer()
        if not 0 <= count <= len(self._data):
            raise ValueError(f"a text of {count} parts")
        return "".join(self.text() for _ in range(count))

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise ValueError("the file ends too early")
        found = self._data[self._at : end]
        self._at = end
        return found


def java_text(text: str) -> bytes:
    """``text`` as ``writeUTF`` has it. Raises ValueError for one of more than 65,535 bytes."""
    units = text.encode("utf-16-le", "surrogatepass")
    characters = (units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in _pairs(units))
    if text.isascii() and "\0" not in text:
        data = text.encode()
    else:
        data = "".join(characters).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    if len(data) > LONGEST:
        raise ValueError(f"a text of {len(data):,} bytes")
    return len(data).to_bytes(2) + data


def java_parts(text: str) -> bytes:
    """``text`` as a count and parts that `java_text` can hold, cut where Spark cuts plain text."""
    size = LONGEST if text.isascii() else LONGEST // (2 * _WIDEST)
    parts = [text[at : at + size] for at in range(0, max(1, len(text)), size)]
    return len(parts).to_bytes(4) + b"".join(map(java_text, parts))


def _pairs(units: bytes) -> range:
    return range(0, len(units), 2)


_MOST_FAMILIES = 10_000
_STRUCT = {"type": str, "fields": [{"name": str, "type": object}]}
_WITHOUT_NUMBERS: dict[str, KeyEncoder] = {
    "NoPrefixKeyStateEncoderSpec": NoPrefix(),
    "TimestampAsPrefixKeyStateEncoderSpec": TimestampPrefix(),
    "TimestampAsPostfixKeyStateEncoderSpec": TimestampPostfix(),
}
NO_USER_KEY = "{    }"
"""What Spark writes where a family is no map."""
_PREFIX, _RANGE = "PrefixKeyScanStateEncoderSpec", "RangeKeyScanStateEncoderSpec"


@dataclass(frozen=True)
class FamilySchema:
    """What a schema file says of a family; ``encoder`` is None before version 3.

    ``key_id`` and ``value_id`` count the schemas that the family has had.
    """

    name: str
    key: StructJson
    value: StructJson
    encoder: KeyEncoder | None = None
    user_key: StructJson | None = None
    key_id: int = 0
    value_id: int = 0


def parse_schemas(data: bytes, path: str) -> tuple[FamilySchema, ...]:
    """Read a schema file of any version.

    Raises `CheckpointError` for a file that is not understood.
    """
    try:
        return _parsed(JavaReader(data))
    except (ValueError, KeyError, TypeError) as error:
        raise _unknown(data, path, str(error)) from error


def written_v2(schema: FamilySchema) -> bytes:
    """The file of a store without column families, for ``_metadata/schema``."""
    return java_text("v2") + java_parts(_json(schema.key)) + java_parts(_json(schema.value))


def written_v3(schemas: Sequence[FamilySchema]) -> bytes:
    """The file of a store with column families, for ``_stateSchema/<store>/<batch>_<id>``."""
    families = (
        java_text(each.name)
        + each.key_id.to_bytes(2, signed=True)
        + java_parts(_json(each.key))
        + each.value_id.to_bytes(2, signed=True)
        + java_parts(_json(each.value))
        + java_parts(_json(_encoder_json(each.encoder)))
        + java_parts(NO_USER_KEY if each.user_key is None else _json(each.user_key))
        for each in schemas
    )
    return java_text("v3") + len(schemas).to_bytes(4) + b"".join(families)


def value_fields(data: bytes, path: str) -> list[dict[str, Any]]:
    """The fields of the value's schema of a store without families, as Spark has them in JSON.

    Raises `CheckpointError` for a file that is not understood.
    """
    schemas = parse_schemas(data, path)
    if len(schemas) != 1:
        raise _unknown(data, path, f"{len(schemas)} families")
    fields = schemas[0].value["fields"]
    return [{"name": str(each["name"]), "type": each["type"]} for each in fields]


def _parsed(reader: JavaReader) -> tuple[FamilySchema, ...]:
    found: tuple[FamilySchema, ...]
    version = reader.text()
    if version == "v1":
        found = (FamilySchema("default", _struct(reader.text()), _struct(reader.text())),)
    elif version == "v2":
        found = (FamilySchema("default", _struct(reader.parts()), _struct(reader.parts())),)
    elif version == "v3":
        found = _families(reader)
    else:
        raise ValueError(f"version {version[:20]!r}")
    if not reader.is_at_end:
        raise ValueError("more than a schema")
    return found


def _families(reader: JavaReader) -> tuple[FamilySchema, ...]:
    count = reader.integer()
    if not 0 <= count <= _MOST_FAMILIES:
        raise ValueError(f"{count} families")
    return tuple(_family(reader) for _ in range(count))


def _family(reader: JavaReader) -> FamilySchema:
    name = reader.text()
    key_id, key = reader.integer(2), _struct(reader.parts())
    value_id, value = reader.integer(2), _struct(reader.parts())
    encoder = _encoder(parse_json(reader.parts()))
    text = reader.parts()
    user_key = _struct(text) if text.strip("{} ") else None
    return FamilySchema(name, key, value, encoder, user_key, key_id, value_id)


def _struct(text: str) -> StructJson:
    document: StructJson = parse_json(text)
    check_shape(document, _STRUCT, "a schema")
    if document["type"] != "struct":
        raise ValueError(f"a schema of type {document['type'][:60]}")
    return document


def _encoder(document: Any) -> KeyEncoder:
    name = document["keyStateEncoderType"]
    if name == _PREFIX:
        check_shape(document, {"numColsPrefixKey": int}, "an encoder")
        return PrefixScan(document["numColsPrefixKey"])
    if name == _RANGE:
        check_shape(document, {"orderingOrdinals": [int]}, "an encoder")
        return RangeScan(tuple(document["orderingOrdinals"]))
    if name not in _WITHOUT_NUMBERS:
        raise ValueError(f"keys encoded by {str(name)[:60]}")
    return _WITHOUT_NUMBERS[name]


def _encoder_json(encoder: KeyEncoder | None) -> dict[str, Any]:
    if isinstance(encoder, PrefixScan):
        return {"keyStateEncoderType": _PREFIX, "numColsPrefixKey": encoder.columns}
    if isinstance(encoder, RangeScan):
        return {"keyStateEncoderType": _RANGE, "orderingOrdinals": list(encoder.ordinals)}
    for name, known in _WITHOUT_NUMBERS.items():
        if known == encoder:
            return {"keyStateEncoderType": name}
    raise ValueError("a family of version 3 says how its keys are encoded")


def _json(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _unknown(data: bytes, path: str, found: str) -> CheckpointError:
    return CheckpointError(
        "SM-CHECKPOINT-013",
        f"{path} does not say what the state's rows are",
        expected="a schema file of version v1, v2 or v3",
        found=f"{found}; it begins with {data[:40]!r}",
        next_action="restore the file from a copy of the checkpoint; Spark reads it too",
        path=path,
    )
