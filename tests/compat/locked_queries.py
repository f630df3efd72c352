"""Writes the lock files of all queries of the catalogue, as the PySpark that it runs on sees them.

Run as ``python locked_queries.py FOLDER`` in the environment of a line of Spark.
"""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "rewriting"), str(TESTS.parent)]

import changed_queries  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from statemigrate.commands.lock import lock  # noqa: E402


def main(folder: Path) -> None:
    """Write a file for each query, by its place in the catalogue."""
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    done = set()
    for number, change in enumerate(changed_queries.CHANGES.values()):
        for side, mode in (("old", change.mode), ("new", change.new_mode or change.mode)):
            # Several changes are of the same old code.
            if (getattr(change, side), mode) in done:
                continue
            done.add((getattr(change, side), mode))
            name = f"query_{number}_{side}"
            setattr(changed_queries, name, getattr(change, side))
            file = folder / f"{name}.lock"
            lock(f"changed_queries:{name}", file=file, mode=mode, spark=spark)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
