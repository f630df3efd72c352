"""A migrating deployment in a process of its own.

``python killed_deployment.py ROOT FOLDER [pages [stuck|NUMBER]]``; with ``pages`` the state is in
so many of them.
"""

import sys
import time
from pathlib import Path

# The shared modules' folder is on PYTHONPATH.
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline
from pipelines import local_session
from tally import AmountsTally

from statemigrate import migrated, with_backfill

PAGES = 12


class StuckTally(AmountsTally):
    """Does not come to the end of the third batch, whose other partition does."""

    def handleInputRows(self, key, rows, timer_values):
        held = list(rows)
        if key[0] == "k99" and held[-1].name == "third":
            time.sleep(600)
        return super().handleInputRows(key, iter(held), timer_values)


class SlowTally(StuckTally):
    """Takes its time, so that on a busy machine too chunks are removed before the last is taken."""

    def init(self, handle):
        time.sleep(0.5)
        super().init(handle)


class SeededTally(AmountsTally):
    """Refuses a worker whose hashes are not the driver's."""

    def __init__(self):
        self.hash = hash("k1")

    def init(self, handle):
        assert hash("k1") == self.hash
        super().init(handle)


def main(root: Path, folder: str, where: str = "", how: str = "") -> None:
    spark = local_session(root / "warehouse")
    if where == "pages":
        number = int(how) if how.isdigit() else PAGES
        pages = PagedPipeline(spark, root / "pipeline", pages=number)
        processor = StuckTally() if how == "stuck" else SeededTally()
        pages.deploy_natively(migrated(processor, migrations=folder))
        return
    pipeline = NativePipeline(spark, root / "pipeline")
    stream = with_backfill(pipeline.stream(), by="key", checkpoint=pipeline.checkpoint)
    processor = migrated(SlowTally(), migrations=folder, checkpoint=pipeline.checkpoint)
    pipeline.deploy_natively(processor, stream)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
