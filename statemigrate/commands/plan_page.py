"""A plan, or those of all of a project's checkpoints, as one self-contained page."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version

from statemigrate.commands.change_plan import ChangePlan, NamedPlan, Plans
from statemigrate.configuration import NamedCheckpoint
from statemigrate.inspect import counted, rendered, rough, utc_time
from statemigrate.meaning import VERDICTS, PlanItem

_GRADES = {
    "same": "good",
    "goes on": "good",
    "live": "doubtful",
    "rewrite": "doubtful",
    "unnoticed": "bad",
    "unknown": "bad",
    "cannot": "bad",
}


def plan_page(found: ChangePlan | Plans) -> str:
    """The plan as an HTML page, without scripts and without external resources.

    All names and texts are escaped, and the page's own policy allows only its one style sheet. The
    page contains no key and no value of the state.
    """
    plans = found if isinstance(found, Plans) else Plans((_alone(found),))
    return rendered(
        "plan.mako",
        plans=plans,
        numbered=list(enumerate(plans.by_need)),
        title=_title(plans),
        headline=_headline(plans),
        grade=_grade(plans),
        shown=_Shown(),
        made_at=utc_time(datetime.now(UTC).timestamp()),
        version=version("statemigrate"),
    )


def _alone(found: ChangePlan) -> NamedPlan:
    return NamedPlan(NamedCheckpoint(found.checkpoint, found.checkpoint), found)


def _title(plans: Plans) -> str:
    if len(plans.found) == 1:
        return plans.found[0].checkpoint.name
    return counted(len(plans.found), "checkpoint")


def _headline(plans: Plans) -> str:
    asking = sum(each.asks for each in plans.found)
    if not asking:
        return "The code can start as it is."
    if len(plans.found) == 1:
        return "There is something to do before the code starts."
    return f"{asking:,} of {counted(len(plans.found), 'checkpoint')} need something first."


def _grade(plans: Plans) -> str:
    grades = [_Shown().grade(item) for each in plans.found if each.plan for item in each.plan.items]
    if any(each.plan is None for each in plans.found) or "bad" in grades:
        return "bad"
    return "doubtful" if plans.asks else "good"


class _Shown:
    """What a plan is in words, for the template."""

    def grade(self, item: PlanItem) -> str:
        """The colour of a verdict, as far as the project has not decided otherwise."""
        return _GRADES[item.verdict] if item.asks else "good"

    def verdict(self, item: PlanItem) -> str:
        """The words of a verdict, and the level that the project gives it."""
        level = f" ({item.level})" if item.level else ""
        return f"{VERDICTS[item.verdict]}{level}"

    def facts(self, plan: ChangePlan) -> list[tuple[str, str]]:
        """What the plan is about, each fact with its name."""
        stop = "no longer than a restart"
        if plan.stops:
            seconds = plan.seconds_stopped
            stop = "while it is rewritten" if seconds is None else f"about {rough(seconds)}"
        again = [] if plan.open_batch is None else [("Runs again", f"batch {plan.open_batch:,}")]
        return [
            ("Batch", f"{plan.batch:,}"),
            ("Begun", utc_time(plan.begun / 1000)),
            *again,
            ("Size of the state", counted(plan.size, "byte")),
            ("The query stops", stop if plan.asks else "for a restart"),
        ]

    def about(self, seconds: float | None) -> str:
        """A time in brackets; nothing where none is known."""
        return "" if seconds is None else f"(about {rough(seconds)})"
