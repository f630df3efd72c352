"""A streaming query on Spark's own state as a test drives it: feed, deploy, look at both sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines import Pipeline


@dataclass
class NativePipeline(Pipeline):
    """`Pipeline` for ``transformWithState``; ``time_mode`` is Spark's.

    ``handed`` has one entry for each time the sink was called.
    """

    time_mode: str = "None"
    in_pandas: bool = False

    def grouped(self, stream: Any) -> Any:
        by = (self.by,) if isinstance(self.by, str) else self.by
        return stream.groupBy(*by)

    def result(self, processor: Any, stream: Any = None) -> Any:
        grouped = self.grouped(self.stream() if stream is None else stream)
        call = grouped.transformWithStateInPandas if self.in_pandas else grouped.transformWithState
        return call(processor, self.output, "Update", self.time_mode)

    def start(self, result: Any, **trigger: Any) -> Any:
        """Start a query; the caller stops it."""
        writer = result.writeStream.outputMode("update").foreachBatch(self.sink)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def deploy_natively(self, processor: Any, stream: Any = None) -> Any:
        """Process everything that is there, then stop; the query, for its progress."""
        query = self.start(self.result(processor, stream))
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return query

    def variables(self) -> set[str]:
        """The state variables Spark knows of, after the last committed batch."""
        import json

        rows = self.spark.read.format("state-metadata").load(str(self.checkpoint)).collect()
        return {
            each["stateName"]
            for row in rows
            for each in json.loads(row.operatorProperties).get("stateVariables", [])
        }

    def state(self, variable: str, kind: str = "value") -> dict[Any, Any]:
        """What a variable holds, by key; a key of one column is that column's value.

        A list variable gives lists; a map variable gives a dictionary by user key.
        """
        reader = self.spark.read.format("statestore").option("stateVarName", variable)
        rows = reader.load(str(self.checkpoint)).collect()
        found: dict[Any, Any] = {}
        for row in rows:
            key = row.key[0] if len(row.key) == 1 else tuple(row.key)
            if kind == "list":
                found.setdefault(key, []).append(row.list_element.asDict(True))
            elif kind == "map":
                user = row.user_map_key
                user = user[0] if len(user) == 1 else tuple(user)
                found.setdefault(key, {})[user] = row.user_map_value.asDict(True)
            else:
                found[key] = row.value.asDict(True)
        return found

    def all_state(self) -> dict[str, dict[Any, Any]]:
        """Every variable's values by key, value state only."""
        return {name: self.state(name) for name in sorted(self.variables())}
