"""Plans of a change to be shown, plain and hostile."""

from __future__ import annotations

from statemigrate import ChangePlan, ChangePlans, CheckpointError, PlannedCheckpoint
from statemigrate.configuration import NamedCheckpoint
from statemigrate.meaning import PlanItem, PlanStep

from .dry_runs import CONTROL, LONG_KEY, MAKO, QUOTES, RIGHT_TO_LEFT, TAG


def planned(*items, steps=(), stops=False, undo="", checkpoint="checkpoints/orders"):
    """A plan with these verdicts."""
    return ChangePlan(
        checkpoint,
        "pipeline:orders",
        "d3d05d29-513a-4dbe-b374-77a97724de57",
        812,
        1_700_000_000_000,
        18_400_000,
        items,
        steps,
        undo,
        stops,
    )


PLAN = planned(
    PlanItem("source 0 (events)", "same", "it continues at its offset"),
    PlanItem(
        "aggregation-0 filter",
        "unnoticed",
        "it was GreaterThan(v, '0'), and is GreaterThan(v, '10')",
        "aggregation-0",
        rule="filter",
    ),
    PlanItem("aggregation-0 value", "rewrite", "Spark does not start", "aggregation-0"),
    steps=(
        PlanStep("Stop the query"),
        PlanStep("Make a new checkpoint", "statemigrate rewrite checkpoints/orders new", 9.8),
    ),
    stops=True,
    undo="start the old code on the old checkpoint, which stays as it is",
)
READY = planned(
    PlanItem("tally", "same", "names and types are the same"),
    steps=(PlanStep("Restart the query with the new code on the same checkpoint"),),
)
NASTY_PLANS = ChangePlans(
    (
        PlannedCheckpoint(NamedCheckpoint("orders", "checkpoints/orders"), READY),
        PlannedCheckpoint(
            NamedCheckpoint(TAG, RIGHT_TO_LEFT),
            planned(
                PlanItem(QUOTES, "cannot", MAKO, CONTROL),
                PlanItem(LONG_KEY, "live", LONG_KEY, TAG),
                steps=(PlanStep(TAG, LONG_KEY, 100_000.0),),
                undo=MAKO,
                checkpoint=LONG_KEY,
            ),
        ),
        PlannedCheckpoint(
            NamedCheckpoint("gone", "checkpoints/gone"),
            None,
            CheckpointError("SM-CHECKPOINT-001", f"{TAG} is none", next_action=QUOTES, path=TAG),
        ),
    )
)
