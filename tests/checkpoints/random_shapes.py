"""Rows of random schemas, and queries that keep them, drawn from a seed."""

from __future__ import annotations

import decimal
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from state_queries import PROVIDER, ROCKSDB, SETTINGS, WAYS

NAMES = [
    "a",
    "key",
    "value",
    "element",
    "ключ",
    "with space",
    "dot.ted",
    'quo"te',
    "it's",
    "back`tick",
    "a,b",
    "_partition",
    "😀",
    "x" * 90,
]
LETTERS = ["a", "key", "value", "element", "b1", "_c", "x" * 90]
"""Names that Avro takes too."""
FORMS = {"stateStore.encodingFormat": ["unsaferow", "avro"]}
CODECS = {
    "stateStore.compression.codec": ["lz4", "zstd", "snappy", "lzf"],
    "stateStore.rocksdb.compression": ["lz4", "zstd", "snappy", "none"],
    "stateStore.rowChecksum.enabled": ["true", "false", "false"],
}
BATCHES, ROWS = 3, 25
Draw = Callable[[random.Random], Any]


@dataclass(frozen=True)
class Kind:
    """A type: what Spark calls it, what Arrow has it as, and a value of it, never null."""

    spark: Any
    arrow: pa.DataType
    draw: Draw


def whole(bits: int) -> Draw:
    """Any integer of so many bits, the least and greatest and small ones among them."""
    end = 1 << (bits - 1)
    return lambda rng: rng.choice([0, 1, -1, end - 1, -end, rng.randrange(-end, end)])


def real(rng: random.Random) -> float:
    return rng.choice(
        [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-45, rng.gauss(0, 9)]
    )


def text(rng: random.Random) -> str:
    letters = "aZ 0'\"\\\n\0é€😀"
    return "".join(rng.choices(letters, k=rng.choice([0, 1, 7, 8, 9, rng.randrange(70)])))


def decimals(rng: random.Random) -> Kind:
    precision = rng.randint(1, 38)
    scale = rng.randint(0, precision)
    most = 10**precision - 1

    def draw(rng: random.Random) -> decimal.Decimal:
        digits = rng.choice([0, 1, -1, most, -most, rng.randint(-most, most)])
        return decimal.Decimal(digits).scaleb(-scale, decimal.Context(prec=60))

    return Kind(f"decimal({precision},{scale})", pa.decimal128(precision, scale), draw)


# Moments that Python knows, of the years 1 to 9999.
MOMENTS = -62_135_510_400_000_000, 253_402_214_400_000_000


def moment(rng: random.Random) -> int:
    return rng.choice([0, -1, *MOMENTS, rng.randint(*MOMENTS)])


LEAVES = [
    Kind("boolean", pa.bool_(), lambda rng: rng.random() < 0.5),
    Kind("byte", pa.int8(), whole(8)),
    Kind("short", pa.int16(), whole(16)),
    Kind("integer", pa.int32(), whole(32)),
    Kind("long", pa.int64(), whole(64)),
    Kind("float", pa.float32(), lambda rng: rng.choice([0.0, -0.0, float("nan"), 1.5, 2.0**-149])),
    Kind("double", pa.float64(), real),
    Kind("date", pa.date32(), lambda rng: rng.choice([0, -719_162, 2_932_896, rng.randint(-9, 9)])),
    Kind("timestamp", pa.timestamp("us", "UTC"), moment),
    Kind("timestamp_ntz", pa.timestamp("us"), moment),
    Kind("string", pa.string(), text),
    Kind(
        "binary", pa.binary(), lambda rng: rng.randbytes(rng.choice([0, 1, 8, rng.randrange(40)]))
    ),
]
DAYS = ["day", "hour", "minute", "second"]
MONTHS = ("year", "month", "year to month")
INTERVALS = [
    *(
        Kind(f"interval {one}" + (f" to {other}" if one != other else ""), pa.int64(), whole(60))
        for at, one in enumerate(DAYS)
        for other in DAYS[at:]
    ),
    *(Kind(f"interval {each}", pa.int32(), whole(31)) for each in MONTHS),
]
"""Intervals, which Parquet has as their numbers of microseconds or months."""


@dataclass(frozen=True)
class Draws:
    """What a schema may have: ``names`` of fields, which ``leaves``, and what keys of maps."""

    names: list[str]
    leaves: list[Kind]
    map_keys: list[Kind]
    null_elements: bool = True

    def leaf(self, rng: random.Random) -> Kind:
        if rng.random() < 0.25:
            return decimals(rng)
        return rng.choice(self.leaves)

    def kind(self, rng: random.Random, depth: int) -> Kind:
        """A type; ``depth`` is how many may stand one within another."""
        if not depth or rng.random() < 0.55:
            return self.leaf(rng)
        nested = rng.choice([self.struct, self.array, *([self.map] if self.map_keys else [])])
        return nested(rng, depth - 1)

    def struct(self, rng: random.Random, depth: int, least: int = 1, most: int = 4) -> Kind:
        fields = rng.sample(self.names, rng.randint(least, min(most, len(self.names))))
        kinds = [self.kind(rng, depth) for _ in fields]
        named = list(zip(fields, kinds, strict=True))
        rate = rng.choice([0.1, 0.5, 0.9])
        return Kind(
            {
                "type": "struct",
                "fields": [
                    {"name": name, "type": each.spark, "nullable": True, "metadata": {}}
                    for name, each in named
                ],
            },
            pa.struct([pa.field(name, each.arrow) for name, each in named]),
            lambda rng: {name: perhaps(rng, each, rate) for name, each in named},
        )

    def array(self, rng: random.Random, depth: int) -> Kind:
        element = self.kind(rng, depth)
        rate = 0.2 if self.null_elements else 0
        return Kind(
            {"type": "array", "elementType": element.spark, "containsNull": True},
            pa.list_(element.arrow),
            lambda rng: [perhaps(rng, element, rate) for _ in range(length(rng))],
        )

    def map(self, rng: random.Random, depth: int) -> Kind:
        key, value = rng.choice(self.map_keys), self.kind(rng, depth)

        def draw(rng: random.Random) -> list[tuple[Any, Any]]:
            keys = {repr(each): each for each in (key.draw(rng) for _ in range(length(rng)))}
            return [(each, perhaps(rng, value, 0.2)) for each in keys.values()]

        return Kind(
            {
                "type": "map",
                "keyType": key.spark,
                "valueType": value.spark,
                "valueContainsNull": True,
            },
            pa.map_(key.arrow, value.arrow),
            draw,
        )


def length(rng: random.Random) -> int:
    return rng.choice([0, 1, 2, 3, 3, 70])


def perhaps(rng: random.Random, kind: Kind, rate: float) -> Any:
    return None if rng.random() < rate else kind.draw(rng)


@dataclass(frozen=True)
class RandomQuery:
    """A query over rows of a random schema: ``fields`` by name, of which some are its keys."""

    seed: int
    operator: str
    settings: dict[str, str]
    keys: tuple[str, ...]
    row: Kind

    @classmethod
    def of(cls, seed: int, operator: str) -> RandomQuery:
        rng = random.Random(seed)
        is_variables = operator == "variables"
        settings = dict(rng.choice([way for name, way in WAYS.items() if name != "hdfs"]))
        if not is_variables and rng.random() < 0.4:
            settings = dict(WAYS["hdfs"])
        chosen = CODECS | (FORMS if is_variables else {})
        settings |= {name: rng.choice(values) for name, values in chosen.items()}
        if operator == "join":
            versions = ["2"] if settings[PROVIDER] != ROCKSDB else ["2", "3", "4"]
            settings["join.stateFormatVersion"] = rng.choice(versions)
        draws = Draws(
            NAMES, [*LEAVES, *rng.sample(INTERVALS, 4)], [*LEAVES, *INTERVALS, decimals(rng)]
        )
        if is_variables:
            # Spark lets variables have what its Avro has, no null in lists, and no maps in PySpark.
            leaves = [each for each in LEAVES if each.spark not in ("byte", "short")]
            draws = Draws(LETTERS, leaves, [], null_elements=False)
        keys = draws.struct(rng, int(not is_variables), most=3)
        while "map" in json.dumps(keys.spark):
            keys = draws.struct(rng, int(not is_variables), most=3)
        values = draws.struct(rng, 3, least=2, most=7)
        row = Kind(
            {
                "type": "struct",
                "fields": [
                    field("k", keys),
                    field("v", values),
                    field("n", Kind("long", pa.int64(), whole(64))),
                ],
            },
            pa.struct([("k", keys.arrow), ("v", values.arrow), ("n", pa.int64())]),
            lambda rng: {"k": keys.draw(rng), "v": values.draw(rng), "n": rng.randrange(5)},
        )
        return cls(seed, operator, settings, tuple(f.name for f in keys.arrow), row)

    def feed(self, folder: Path) -> None:
        """Write the files of both sources; keys come again in later ones."""
        rng = random.Random(self.seed)
        keys = [self.row.draw(rng)["k"] for _ in range(ROWS)]
        for source in ("one", "two"):
            (folder / source).mkdir(parents=True)
            for batch in range(BATCHES):
                rows = [self.row.draw(rng) | {"k": rng.choice(keys)} for _ in range(ROWS)]
                table = pa.Table.from_struct_array(pa.array(rows, self.row.arrow))
                pq.write_table(table, folder / source / f"{batch}.parquet")

    def run(self, spark: Any, folder: Path) -> Path:
        """Run it over what it was fed; its checkpoint."""
        session = spark.newSession()
        for name, value in self.settings.items():
            session.conf.set(f"{SETTINGS}{name}", value)
        checkpoint = folder / "checkpoint"
        writer = self._result(session, folder).writeStream.format("noop")
        writer = writer.outputMode("append" if self.operator == "join" else "update")
        writer = writer.option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
        return checkpoint

    def _result(self, session: Any, folder: Path) -> Any:
        from pyspark.sql import functions as f
        from pyspark.sql.types import StructType

        schema = StructType.fromJson(self.row.spark)

        def read(source: str) -> Any:
            reader = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
            return reader.parquet(str(folder / source))

        keys = [f.col("k").getField(name).alias(name) for name in self.keys]
        values = [
            f.col("v").getField(each.name).alias(each.name) for each in self.row.arrow[1].type
        ]
        one = read("one")
        if self.operator == "aggregation":
            functions = [f.first, f.last]
            found = [functions[at % 2](each) for at, each in enumerate(values)]
            return one.groupBy(*keys).agg(f.count("*"), *found)
        if self.operator == "deduplicate":
            return one.select(*keys).dropDuplicates()
        if self.operator == "variables":
            from state_processors import Keeping

            state = schema["v"].dataType
            result = "done BIGINT"
            return (
                one.select(*keys, "v", "n")
                .groupBy(*(f.col(each) for each in self.keys))
                .transformWithState(Keeping(state), result, "Update", "None")
            )
        left = one.select(f.struct(*keys).alias("k"), *values).alias("left_side")
        right = read("two").select(f.struct(*keys).alias("other"), *values).alias("right_side")
        return left.join(right, f.expr("left_side.k <=> right_side.other"))


def field(name: str, kind: Kind) -> dict[str, Any]:
    return {"name": name, "type": kind.spark, "nullable": True, "metadata": {}}
