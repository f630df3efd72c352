"""Which Spark is needed."""

from __future__ import annotations

from statemigrate.errors import UnsupportedError

OLDEST = (4, 1)


def release_line(version: str) -> tuple[int, int]:
    """The release line of a version of PySpark, as in (4, 3)."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def check_spark_version() -> None:
    """Raise `UnsupportedError` for a PySpark that is too old for what is done here."""
    import pyspark

    if release_line(pyspark.__version__) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise UnsupportedError(
            "this PySpark is too old to migrate Spark's own state",
            expected=f"PySpark {needed} or newer, the first with transformWithState over Rows",
            found=f"PySpark {pyspark.__version__}",
            next_action=f"pip install 'pyspark>={needed},<5'; Spark reads older checkpoints",
        )
