"""Spark's own bytes of rows, keys and values: its encoders in the JVM, called without a query."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from statemigrate.checkpoint.operators.shapes import (
    KeyEncoder,
    NoPrefix,
    PrefixScan,
    RangeScan,
    TimestampPostfix,
    TimestampPrefix,
)
from statemigrate.checkpoint.rows.spark_types import arrow_schema
from support.arrow_rows import rebuilt


class SparkRows:
    """What Spark makes of values of one schema; ``rows`` are the JVM's."""

    def __init__(self, session: Any, schema: Any, values: pa.StructArray) -> None:
        from pyspark.sql.functions import col
        from pyspark.sql.types import StructType, _parse_datatype_json_value

        typed = _with_a_type(schema)
        rows = rebuilt(values, pa.struct(list(arrow_schema(typed))))
        table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)])
        # Arrow has no months for Spark; as numbers they are cast within whatever holds them.
        numbered = json.loads(json.dumps(typed).replace('"interval month"', '"integer"'))
        frame = session.createDataFrame(table, schema=StructType.fromJson(numbered))
        if numbered != typed:
            types = {f["name"]: _parse_datatype_json_value(f["type"]) for f in typed["fields"]}
            frame = frame.select(*(col(each).cast(types[each]).alias(each) for each in types))
        self.frame = frame
        self.rows = list(frame._jdf.queryExecution().executedPlan().executeCollect())

    def bytes(self) -> list[bytes]:
        """Each row's bytes."""
        return [bytes(row.getBytes()) for row in self.rows]


def _with_a_type(kind: Any, in_list: bool = False) -> Any:
    """A schema with an integer, null as well, for a field without a type in structs of lists.

    Arrow spoils such a field where it has nothing to cast; the bytes of the row are the same.
    """
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        fields = kind["fields"]
        types = [_with_a_type(each["type"], in_list) for each in fields]
        types = ["integer" if in_list and each == "void" else each for each in types]
        return kind | {"fields": [a | {"type": b} for a, b in zip(fields, types, strict=True)]}
    inner = {"elementType", "keyType", "valueType"} & set(kind)
    return kind | {each: _with_a_type(kind[each], True) for each in inner}


class SparkEncoders:
    """Spark's encoders for RocksDB of one family's keys and values.

    ``avro`` is the number of the schemas where rows are Avro, None where they are not.
    """

    def __init__(
        self, session: Any, key: Any, encoder: KeyEncoder, value: Any, avro: int | None = None
    ) -> None:
        self._jvm = session._jvm
        self._state = self._jvm.org.apache.spark.sql.execution.streaming.state
        self._key, self._value = self._type(key), self._type(value)
        self._spec = self._spec_of(encoder)
        if avro is None:
            self._data = self._state.UnsafeRowDataEncoder(self._spec, self._value)
        else:
            self._data = self._avro(avro)

    def keys(self, rows: Any) -> list[bytes]:
        """The bytes of keys, without their column family."""
        encoder = self._object("RocksDBStateEncoder").getKeyEncoder(self._data, self._spec, True)
        return [bytes(encoder.encodeKey(row)) for row in rows]

    def values(self, rows: Any, is_list: bool) -> list[bytes]:
        """The bytes of values."""
        encoders = self._object("RocksDBStateEncoder")
        encoder = encoders.getValueEncoder(self._data, self._value, is_list, 2)
        return [bytes(encoder.encodeValue(row)) for row in rows]

    def summed(self, key: bytes, value: bytes, in_rocksdb: bool) -> bytes:
        """A value with its checksum."""
        some = self._jvm.scala.Some(bytearray(value))
        checksum = self._object("KeyValueChecksum").create(bytearray(key), some)
        sums = self._object("KeyValueChecksumEncoder")
        if in_rocksdb:
            return bytes(sums.encodeValueRowWithChecksum(bytearray(value), checksum))
        return bytes(sums.encodeSingleValueRowWithChecksum(bytearray(value), checksum))

    def _avro(self, number: int) -> Any:
        avro = self._jvm.org.apache.spark.sql.avro
        converters = getattr(getattr(avro, "SchemaConverters$"), "MODULE$")
        schemas = self._jvm.java.util.HashMap()
        for schema, is_key in ((self._key, True), (self._value, False)):
            schemas.put(
                self._state.StateSchemaMetadataKey("default", number, is_key),
                self._state.StateSchemaMetadataValue(
                    schema, converters.toAvroTypeWithDefaults(schema)
                ),
            )
        scala = self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(schemas)
        metadata = self._state.StateSchemaMetadata(scala)
        provider = self._jvm.scala.Some(self._state.InMemoryStateSchemaProvider(metadata))
        return self._state.AvroStateEncoder(self._spec, self._value, provider, "default")

    def _spec_of(self, encoder: KeyEncoder) -> Any:
        match encoder:
            case NoPrefix():
                return self._state.NoPrefixKeyStateEncoderSpec(self._key)
            case PrefixScan(columns):
                return self._state.PrefixKeyScanStateEncoderSpec(self._key, columns)
            case RangeScan(ordinals):
                to_seq = self._jvm.org.apache.spark.api.python.PythonUtils.toSeq
                return self._state.RangeKeyScanStateEncoderSpec(self._key, to_seq(list(ordinals)))
            case TimestampPrefix():
                return self._state.TimestampAsPrefixKeyStateEncoderSpec(self._key)
            case TimestampPostfix():
                return self._state.TimestampAsPostfixKeyStateEncoderSpec(self._key)

    def _type(self, schema: Any) -> Any:
        return self._jvm.org.apache.spark.sql.types.DataType.fromJson(json.dumps(schema))

    def _object(self, name: str) -> Any:
        return getattr(getattr(self._state, f"{name}$"), "MODULE$")
