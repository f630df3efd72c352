"""Which Spark is needed, and what has another name in each release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statemigrate.deployment import VARIABLE_KINDS, Kind
from statemigrate.errors import UnsupportedError

OLDEST = (4, 0)
REWRITING = (4, 1)
"""The first that rewrites are tried on."""
_LISTS = (4, 1)


def release_line(version: str) -> tuple[int, int]:
    """The release line of a version of PySpark, as in (4, 3)."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def class_of_any_release(jvm: Any, names: Sequence[str]) -> Any | None:
    """The first class of these ``names`` that this Spark has, as Java has it; None without any."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    for name in names:
        try:
            return jvm.java.lang.Class.forName(name)
        except Py4JJavaError:
            continue
    return None


def check_spark_version(
    oldest: tuple[int, int] = OLDEST, purpose: str = "migrate Spark's own state"
) -> None:
    """Raise `UnsupportedError` for a PySpark that is too old for a purpose."""
    import pyspark

    if release_line(pyspark.__version__) < oldest:
        needed = ".".join(map(str, oldest))
        raise UnsupportedError(
            "SM-PACKAGES-004",
            f"this PySpark is too old to {purpose}",
            expected=f"PySpark {needed} or newer",
            found=f"PySpark {pyspark.__version__}",
            next_action=f"pip install 'pyspark>={needed},<5'; Spark reads older checkpoints",
        )


def check_kind(kind: Kind, store: str) -> None:
    """Raise `UnsupportedError` for state that this PySpark does not give as it was written.

    PySpark 4.0 hands lists to Python through pandas: integers in a list with a null become floats.
    """
    import pyspark

    if VARIABLE_KINDS[kind].has_several_values and release_line(pyspark.__version__) < _LISTS:
        needed = ".".join(map(str, _LISTS))
        raise UnsupportedError(
            "SM-PACKAGES-005",
            f"this PySpark does not give the elements of a list as they are (state {store})",
            expected=f"PySpark {needed} or newer for list state that migrates",
            found=f"PySpark {pyspark.__version__}, which turns integers next to a null to floats",
            next_action=f"migrate {store} after Spark was upgraded, or by `statemigrate rewrite`; "
            "value and map state migrate here",
            store=store,
        )
