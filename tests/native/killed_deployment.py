"""A migrating deployment in a process of its own: ``python killed_deployment.py ROOT FOLDER``."""

import sys
import time
from pathlib import Path

# The shared modules' folder is on PYTHONPATH.
from native_pipeline import NativePipeline
from pipelines import local_session
from tally import AmountsTally

from statemigrate import migrated, with_backfill


class SlowTally(AmountsTally):
    """Slow enough to be caught in the middle of a batch."""

    def handleInputRows(self, key, rows, timer_values):
        time.sleep(0.02)
        return super().handleInputRows(key, rows, timer_values)


def main(root: Path, folder: str) -> None:
    spark = local_session(root / "warehouse")
    pipeline = NativePipeline(spark, root / "pipeline")
    stream = with_backfill(pipeline.stream(), by="key", checkpoint=pipeline.checkpoint)
    processor = migrated(SlowTally(), migrations=folder, checkpoint=pipeline.checkpoint)
    pipeline.deploy_natively(processor, stream)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
