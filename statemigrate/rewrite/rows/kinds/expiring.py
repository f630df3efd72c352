"""When new values expire: as the old ones do, or as the author says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statemigrate.errors import RewriteError, shown
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.rows.arrow.entries import EXPIRES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_expirations(entries: DataFrame, plan: FamilyPlan, said: Any, batch_time: int) -> DataFrame:
    """Entries with their expirations as the new family has them.

    ``said`` is a number, or an expression of Spark's over ``batch_time``, ``key``,
    ``value`` and ``expires``. Where values do not expire any more, those that have expired are left
    out: no code sees them. Raises `RewriteError` for what is no such expression.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F  # noqa: N812

    if plan.expiry == "ends":
        return entries.where(F.col(EXPIRES) > batch_time)
    if said is None:
        return entries
    timed = entries.withColumn("batch_time", F.lit(batch_time).cast("long"))
    try:
        moment = F.expr(str(said)).cast("long")
        unknown = F.raise_error(F.lit(f"{plan.name}: {said} is null for an entry")).cast("long")
        return timed.withColumn(EXPIRES, F.coalesce(moment, unknown)).select(*entries.columns)
    except AnalysisException as cause:
        raise RewriteError(
            "SM-REWRITE-043",
            f"when values of {plan.name} expire is not said in a way that Spark understands",
            expected="milliseconds since 1970, or an expression over batch_time, key, value "
            "and expires",
            found=f"{shown(said)}: {str(cause)[:300]}",
            next_action=f"correct --start '{plan.name}:expires=...'; nothing was written",
            store=plan.name,
        ) from cause
