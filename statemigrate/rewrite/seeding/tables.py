"""Tables that become state: folders and files of Parquet or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from statemigrate.errors import RewriteError
from statemigrate.files.opening import open_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_JSON = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz")


@dataclass(frozen=True)
class Table:
    """The table at ``location``, read by ``spark``; ``zone`` is that of moments without one.

    Values of JSON have the types that state has of them; those of Parquet have their own.
    """

    location: str
    spark: SparkSession
    is_json: bool
    zone: str

    @classmethod
    def at(cls, location: str, spark: SparkSession, zone: str) -> Table:
        """Open a table. Raises `RewriteError` where there is none, or one that is not its files."""
        return cls(location, spark, is_json(location, spark), zone)

    @cached_property
    def columns(self) -> Mapping[str, Any]:
        """Spark's type of each column in JSON form; of JSON as far as its values tell it."""
        return {each.name: each.dataType.jsonValue() for each in self.frame().schema.fields}

    def frame(self, types: Mapping[str, Any] | None = None) -> DataFrame:
        """The rows; columns of JSON in ``types``, where given.

        What is not of its type ends the read: it is never null.
        """
        if not self.is_json:
            return self.spark.read.parquet(self.location)
        reader = self.spark.read.option("mode", "FAILFAST").option("timeZone", self.zone)
        if types is None:
            return reader.json(self.location)
        return reader.schema(_schema({**self.columns, **types})).json(self.location)


def _schema(types: Mapping[str, Any]) -> Any:
    from pyspark.sql.types import StructType

    fields = [
        {"name": name, "type": each, "nullable": True, "metadata": {}}
        for name, each in types.items()
    ]
    return StructType.fromJson({"type": "struct", "fields": fields})


def is_json(location: str, spark: SparkSession | None = None) -> bool:
    """Whether the files of a table are JSON, by their names; Parquet otherwise.

    Raises `RewriteError` where there is none, or one that is not its files.
    """
    if any(letter in location for letter in "*?[{"):
        return location.endswith(_JSON)
    files = open_files(location, spark)
    if files.find("_delta_log") is not None:
        raise _refused(
            "SM-SEED-019",
            location,
            "is a table of Delta's, whose files have rows that are no longer in it",
            "a folder of Parquet files",
            "_delta_log",
            'export it: spark.read.format("delta").load(...).write.parquet(...)',
        )
    if files.find() is None:
        raise _refused(
            "SM-SEED-020",
            location,
            "is not there",
            "a table",
            "nothing",
            "correct the place that --from names",
        )
    names = [location, *(each.name for each in files.list(recursive=True))]
    kinds = {name.endswith(_JSON) for name in names if name.endswith((*_JSON, ".parquet"))}
    if len(kinds) != 1:
        raise _refused(
            "SM-SEED-021",
            location,
            "is no table that is understood",
            "files that end in .parquet, or in one of " + ", ".join(_JSON),
            "both" if kinds else ", ".join(names[1:6]) or "nothing",
            "write the rows as Parquet, and name the folder",
        )
    return kinds.pop()


def _refused(
    code: str, location: str, problem: str, expected: str, found: str, next_action: str
) -> RewriteError:
    return RewriteError(
        code, f"{location} {problem}", expected=expected, found=found, next_action=next_action
    )
