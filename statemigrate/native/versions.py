"""Which Spark is needed."""

from __future__ import annotations

from statemigrate.errors import UnsupportedError

OLDEST = (4, 1)


def check_spark_version() -> None:
    """Raise `UnsupportedError` for a PySpark that is too old for what is done here."""
    import pyspark

    major, minor, *_ = pyspark.__version__.split(".")
    if (int(major), int(minor)) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise UnsupportedError(
            "this PySpark is too old to migrate Spark's own state",
            expected=f"PySpark {needed} or newer, the first with transformWithState over Rows",
            found=f"PySpark {pyspark.__version__}",
            next_action=f"pip install 'pyspark>={needed},<5'; Spark reads older checkpoints",
        )
