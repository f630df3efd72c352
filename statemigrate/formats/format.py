"""What every format offers: plain values in, bytes out, and back."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from statemigrate.formats.avro import Unfit, has_columns
from statemigrate.formats.schema import Record, check_bounds, fingerprint, type_name

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Value = dict[str, Any]
"""A plain value: Python values by field name. Nested records are dictionaries too."""


class Format(ABC):
    """The format of a store's values.

    Plain values consist of ``bool``, ``int``, ``float``, ``str``, ``bytes``, ``Decimal``, ``date``,
    ``time``, ``timedelta``, ``list`` and ``dict``. A TIMESTAMP is a ``datetime`` with a time zone:
    UTC when read, or another offset if UTC has no year for it. A TIMESTAMP_NTZ is a ``datetime``
    without a time zone. A value that is read equals the one that was written, or the write fails: a
    value is never rounded, cut or wrapped around. Only a FLOAT has the precision of a FLOAT.

    A format accepts a value that it can represent exactly. So it accepts an integer for a float, a
    tuple for a list, a ``bytearray`` for bytes and a timestamp of another time zone, but not
    ``True`` or ``1.0`` for an integer. Every field must be present. The exception is a field with a
    default in an Avro schema: if it is missing, the default is written.

    Formats are immutable, hashable and picklable. Two are equal if they are of the same kind and
    have the same schema. Equal ``fingerprint`` means that they write the same bytes.
    """

    kind: ClassVar[str]

    def __init__(self, schema: Record) -> None:
        # Who only looks at state makes no format, and need not wait for what writes and reads one.
        from statemigrate.formats.avro import check_of, encoders_of, readers_of

        check_bounds(schema)
        check = check_of(schema)
        self.schema = schema
        self.fingerprint: str = fingerprint(schema)
        self._accepts = check.accepts
        self._prepare = check.prepare
        self._encode, self._encode_many = encoders_of(schema)
        self._read, self._read_many = readers_of(schema)

    @property
    @abstractmethod
    def avro_schema(self) -> dict[str, Any]:
        """Return the Avro schema of the bytes, as JSON values."""

    @abstractmethod
    def struct_type(self) -> StructType:
        """Return the Spark type of the same values. Needs pyspark, but no Java.

        Raises FormatError if Spark has no type that holds the same plain values.
        """

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the format as JSON: what ``format_from_json`` reads and checkpoints store."""

    def encode(self, value: Value) -> bytes:
        """Write ``value`` as Avro binary, without a schema or header.

        Raises ValueMismatchError, which names the field, if the value does not fit.
        """
        try:
            return self._encode(value)
        except Unfit:
            return self._encode(self._prepare(value, ""))

    def encode_conformed(self, value: Value) -> tuple[bytes, Value]:
        """Write ``value``, and return too what `decode` would make of the bytes; see `conform`.

        Costs no more than `encode`: what can be written as it is needs no converting.
        """
        try:
            return self._encode(value), value
        except Unfit:
            value = self._prepare(value, "")
            return self._encode(value), value

    def encode_many(self, values: Sequence[Value]) -> list[bytes]:
        """Write values, and raise, as `encode` does."""
        try:
            return self._encode_many(values)
        except Unfit:
            return list(map(self.encode, values))

    def decode(self, data: bytes) -> Value:
        """Read what ``encode`` wrote. Raises FormatError unless all of ``data`` is one value."""
        return self._read(data)

    def decode_many(self, values: Sequence[bytes]) -> list[Value]:
        """Read values, and raise, as `decode` does."""
        return self._read_many(values)

    @cached_property
    def has_columns(self) -> bool:
        """Whether many values are read into columns and written from them; see `decode_columns`."""
        return has_columns(self.schema)

    @cached_property
    def is_flat(self) -> bool:
        """Whether it has columns, and none of lists, maps, enums and bare ``fixed``."""
        return has_columns(self.schema, lists=False)

    def decode_columns(self, values: Sequence[bytes]) -> Any | None:
        """Read values as one Arrow array of structs, without a plain value for any of them.

        None where the format has no columns, or where one of the values is not as usual: `decode`
        reads it then, or says what is wrong.
        """
        if not self.has_columns:
            return None
        from statemigrate.formats.avro import read_columns

        try:
            return read_columns(self.schema, values)
        except Exception:
            # Something about one of these values is not as usual.
            return None

    def encode_columns(self, array: Any) -> list[bytes] | None:
        """Write the structs of an Arrow array as `encode` writes their plain values.

        None where the format has no columns, or where `encode` has to convert or refuse a value.
        """
        if not self.has_columns:
            return None
        from statemigrate.formats.avro import write_columns

        try:
            return write_columns(self.schema, array)
        except Exception:
            # Something about one of these values is not as usual.
            return None

    def takes_nulls_of(self, array: Any) -> bool:
        """Say whether an Arrow array of the format's types has nulls only where None is a value."""
        from statemigrate.formats.avro import has_nulls_only_where_allowed

        return has_nulls_only_where_allowed(self.schema, array)

    def conform(self, value: Value) -> Value:
        """Return ``value`` as reading it back would: converted if needed, with defaults filled in.

        Raises ValueMismatchError, which names the field, if the value does not fit.
        """
        if self._accepts(value):
            return value
        prepared: Value = self._prepare(value, "")
        return prepared

    def validate(self, value: Value) -> None:
        """Raise ValueMismatchError, which names the field, if ``value`` does not fit."""
        self.conform(value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Format):
            return NotImplemented
        return self.kind == other.kind and self._text() == other._text()

    def __hash__(self) -> int:
        return hash((self.kind, self.fingerprint))

    def __str__(self) -> str:
        fields = ", ".join(f"{field.name}: {type_name(field.type)}" for field in self.schema.fields)
        return f"{self.kind}<{fields}>"

    def _text(self) -> str:
        return json.dumps(self.to_json(), sort_keys=True)
