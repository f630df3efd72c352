"""Runs one deployment of the migrating tally to its end: ``deployment.py ROOT MIGRATIONS``."""

import json
import sys
from pathlib import Path

from pipelines import Pipeline, local_session
from scenario import OPTIONS
from tally import AmountsTally

from statemigrate import migrated


def main(root: Path, migrations: Path) -> None:
    spark = local_session(root / "warehouse")
    pipeline = Pipeline(spark, root)
    write = pipeline.sink

    def sink(rows, number):
        write(rows, number)
        upsert(root, number, pipeline.handed[-1][1])

    pipeline.sink = sink
    pipeline.deploy(migrated(AmountsTally(), migrations=migrations), **OPTIONS)
    spark.stop()


def upsert(root: Path, number: int, rows: list) -> None:
    """Replace what the batch gave before."""
    folder = root / "sink"
    folder.mkdir(exist_ok=True)
    temporary = folder / f".{number}"
    temporary.write_text(json.dumps(rows))
    temporary.rename(folder / f"{number}.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
