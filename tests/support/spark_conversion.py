"""What PySpark makes of a value on its way into state and back, without a query.

The two halves are Spark's own: the Python client's serializer, and the JVM's conversion of a
pickled row into Spark's and back, as the state server calls them.
"""

from __future__ import annotations

import pickle
from typing import Any

REFUSED = "refused"


class SparkConversion:
    """One struct type's way through Spark."""

    def __init__(self, session: Any, ddl: str) -> None:
        from pyspark.serializers import PickleSerializer
        from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
        from pyspark.sql.types import StructType

        jvm = session._jvm
        self._schema = StructType.fromDDL(ddl)
        self._type = jvm.org.apache.spark.sql.types.DataType.fromJson(self._schema.json())
        encoders = jvm.org.apache.spark.sql.catalyst.encoders
        encoder = getattr(getattr(encoders, "ExpressionEncoder$"), "MODULE$").apply(self._type)
        defaults = [getattr(encoder, f"resolveAndBind$default${n}")() for n in (1, 2)]
        self._deserializer = encoder.resolveAndBind(*defaults).createDeserializer()
        self._serializer = encoder.createSerializer()
        self._utils = jvm.org.apache.spark.sql.api.python.PythonSQLUtils
        self._client = StatefulProcessorApiClient.__new__(StatefulProcessorApiClient)
        self._client.pickleSer = PickleSerializer()

    def stored(self, row: tuple[Any, ...]) -> Any:
        """The row as reading the state would give it, or `REFUSED`."""
        try:
            data = self._client._serialize_to_bytes(self._schema, row)
            taken = self._utils.toJVMRow(data, self._type, self._deserializer)
            back = self._deserializer.apply(self._serializer.apply(taken).copy())
            return pickle.loads(self._utils.toPyRow(back))  # noqa: S301 - from this very process
        except Exception:
            # Whatever stops it in plain Spark stops the query.
            return REFUSED
