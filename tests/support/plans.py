"""Plans to be shown, plain and hostile."""

from __future__ import annotations

from statemigrate import ChangePlan, NamedCheckpoint, NamedPlan, Plans
from statemigrate.meaning import PlanItem, PlanStep

from .dry_runs import CONTROL, LONG_KEY, MAKO, QUOTES, RIGHT_TO_LEFT, TAG
from .fleets import GONE

ITEMS = (
    PlanItem("source 0 (events)", "same", "it continues at its offset"),
    PlanItem("aggregation-0", "rewrite", "Spark does not start: the code has 6 fields, not 5"),
    PlanItem(
        "aggregation-0 filter",
        "unnoticed",
        "it was amount > 0, and is amount > 10: what was counted stays counted",
        "aggregation-0",
        rule="filter",
    ),
    PlanItem(
        "watermark", "goes on", "the delay is 2 hours", "aggregation-0", "", "delay", "warning"
    ),
)
REWRITE = "statemigrate rewrite checkpoints/orders checkpoints/orders-2 --code pipeline:orders"
STEPS = (
    PlanStep("Answer what a rewrite asks (1)", REWRITE),
    PlanStep("Stop the query"),
    PlanStep("Make a new checkpoint, with the answers", f"{REWRITE} --apply", 22.3),
    PlanStep("Start the new code on checkpoints/orders-2"),
)
ORDERS = ChangePlan(
    "checkpoints/orders",
    "pipeline:orders",
    "d3d05d29-513a-4dbe-b374-77a97724de57",
    812,
    1_700_000_000_000,
    18_400_000,
    ITEMS,
    STEPS,
    "start the old code on the old checkpoint, which stays as it is",
    stops=True,
    basis="about 1,000,000 rows of state, by its snapshots, at the rates of two cores",
)
SAME = ChangePlan("checkpoints/same", None, "1", 3, 1_700_000_000_000, 10, ITEMS[:1])
NASTY = ChangePlan(
    LONG_KEY,
    QUOTES,
    TAG,
    1,
    0,
    10**15,
    tuple(
        PlanItem(name, "cannot", text)
        for name in (CONTROL, LONG_KEY, MAKO)
        for text in (QUOTES, RIGHT_TO_LEFT, TAG)
    ),
    tuple(PlanStep(text, text, 10.0**9) for text in (LONG_KEY, TAG, RIGHT_TO_LEFT)),
    MAKO,
    stops=True,
    basis=TAG,
)
PLANS = Plans(
    (
        NamedPlan(NamedCheckpoint("same", "checkpoints/same"), SAME),
        NamedPlan(NamedCheckpoint("orders", "checkpoints/orders"), ORDERS),
        NamedPlan(NamedCheckpoint("gone", "nowhere"), None, GONE),
        NamedPlan(NamedCheckpoint(TAG, LONG_KEY), NASTY),
    )
)
