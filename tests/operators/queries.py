"""Queries over orders, one for each of Spark's operators, and the orders they have seen."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

SCHEMA = "id BIGINT, customer STRING, region STRING, amount BIGINT, at TIMESTAMP"
START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def order(number: int) -> dict[str, Any]:
    """One order; few customers, three regions, a minute or two for all."""
    return {
        "id": number,
        "customer": f"c{number % 5}",
        "region": ("eu", "us", "asia")[number % 3],
        "amount": number * 7 % 50,
        "at": START + timedelta(seconds=number),
    }


BATCHES = [[order(number) for number in range(40)], [order(number) for number in range(40, 70)]]
ORDERS = [each for batch in BATCHES for each in batch]


def run(spark: Any, name: str, folder: Path) -> Path:
    """Run a query on both batches, a run each, and return its checkpoint."""
    source, checkpoint = folder / f"{name}-in", folder / name
    source.mkdir()
    for number, batch in enumerate(BATCHES):
        lines = (json.dumps(each, default=datetime.isoformat) for each in batch)
        (source / f"{number}.json").write_text("\n".join(lines))
        stream, mode = QUERIES[name](spark.readStream.schema(SCHEMA).json(str(source)))
        writer = stream.writeStream.format("noop").outputMode(mode)
        started = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        started.start().awaitTermination()
    return checkpoint


def _aggregation(orders: Any) -> tuple[Any, str]:
    from pyspark.sql import functions as F  # noqa: N812

    functions = [F.count("*"), F.sum("amount"), F.avg("amount"), F.max("id")]
    return orders.groupBy("customer").agg(*functions), "update"


def _wider(orders: Any) -> tuple[Any, str]:
    from pyspark.sql import functions as F  # noqa: N812

    functions = [F.count("*"), F.sum("amount"), F.avg("amount"), F.max("id"), F.min("region")]
    return orders.groupBy("customer", "amount").agg(*functions), "update"


def _with_more(orders: Any) -> tuple[Any, str]:
    from pyspark.sql import functions as F  # noqa: N812

    functions = [F.count("*"), F.sum("amount"), F.avg("amount"), F.max("id"), F.min("region")]
    return orders.groupBy("customer").agg(*functions), "update"


def _fewer(orders: Any) -> tuple[Any, str]:
    return orders.dropDuplicates(["customer"]), "append"


def _windows(orders: Any) -> tuple[Any, str]:
    from pyspark.sql import functions as F  # noqa: N812

    late = orders.withWatermark("at", "1 hour")
    return late.groupBy(F.window("at", "30 seconds"), "region").count(), "update"


def _duplicates(orders: Any) -> tuple[Any, str]:
    return orders.dropDuplicates(["customer", "region"]), "append"


def _join(orders: Any) -> tuple[Any, str]:
    from pyspark.sql import functions as F  # noqa: N812

    late = orders.withWatermark("at", "1 hour")
    other = late.select(F.col("customer").alias("buyer"), F.col("at").alias("seen"))
    near = F.expr("customer = buyer AND seen BETWEEN at AND at + INTERVAL 5 SECONDS")
    return late.join(other, near), "append"


def _groups(orders: Any) -> tuple[Any, str]:
    grouped = orders.groupBy("customer")
    kinds = ("customer STRING, n BIGINT", "n BIGINT, last BIGINT", "update", "NoTimeout")
    return grouped.applyInPandasWithState(_counted, *kinds), "update"


def _counted(key: Any, frames: Any, state: Any) -> Any:
    import pandas as pd

    n, last = state.get if state.exists else (0, -1)
    for frame in frames:
        n, last = n + len(frame), max(last, int(frame["id"].max()))
    state.update((n, last))
    yield pd.DataFrame({"customer": [key[0]], "n": [n]})


QUERIES = {
    "aggregation": _aggregation,
    "wider": _wider,
    "with more": _with_more,
    "fewer": _fewer,
    "windows": _windows,
    "duplicates": _duplicates,
    "join": _join,
    "groups": _groups,
}
