"""Looks at every checkpoint that has a name, and exports what is left and what is behind.

Run it where pyproject.toml and the newest scripts are: python watch_status.py
"""

import time

from export import export_metrics

from statemigrate import StatusMetrics, status
from statemigrate.configuration import configured


def look_for_ever(interval: float = 300.0) -> None:
    """One look every ``interval`` seconds; a look at Spark's own state reads all of its keys."""
    metrics = StatusMetrics()
    while True:
        project = configured()
        metrics.record(
            status(
                checkpoints=project.checkpoints.values(),
                migrations=project.migrations or "migrations",
                targets=project.targets,
                stores=project.stores,
            )
        )
        time.sleep(interval)


if __name__ == "__main__":
    export_metrics(9465)
    look_for_ever()
