"""The plan of a change, or of all of a project's checkpoints, as one self-contained page."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version

from statemigrate.commands.plan import ChangePlan
from statemigrate.commands.plan_all import ChangePlans, PlannedCheckpoint
from statemigrate.configuration import NamedCheckpoint
from statemigrate.inspect.report_html import rendered
from statemigrate.inspect.report_text import counted, rough, utc_time
from statemigrate.meaning import VERDICTS, PlanItem


def plan_page(found: ChangePlan | ChangePlans) -> str:
    """The plan as an HTML page, without scripts and without external resources.

    All names and texts are escaped, and the page's own policy allows only its one style sheet.
    """
    if isinstance(found, ChangePlan):
        alone = NamedCheckpoint(found.checkpoint, found.checkpoint)
        plans = ChangePlans((PlannedCheckpoint(alone, found),))
    else:
        plans = found
    return rendered(
        "plan.mako",
        plans=plans.by_need,
        title=_title(plans),
        grade=_grade(plans),
        headline=_headline(plans),
        verdict_of=_verdict_of,
        grade_of=_grade_of,
        facts=_facts,
        rough=rough,
        made_at=utc_time(datetime.now(UTC).timestamp()),
        version=version("statemigrate"),
    )


def _title(plans: ChangePlans) -> str:
    if len(plans.plans) == 1:
        return plans.plans[0].checkpoint.name
    return counted(len(plans.plans), "checkpoint")


def _grade(plans: ChangePlans) -> str:
    if any(each.plan is None for each in plans.plans):
        return "bad"
    return "doubtful" if plans.asks else "good"


def _headline(plans: ChangePlans) -> str:
    asking = [each for each in plans.plans if each.plan is None or each.plan.asks]
    if not asking:
        return "The code can start as it is."
    if len(plans.plans) == 1:
        (only,) = plans.plans
        if only.plan is None:
            return "The plan could not be made."
        number = sum(each.asks for each in only.plan.items)
        return f"{counted(number, 'change')} to act on before the code starts."
    return f"{len(asking):,} of {counted(len(plans.plans), 'checkpoint')} to act on."


def _verdict_of(item: PlanItem) -> str:
    level = f" ({item.level})" if item.level else ""
    return f"{VERDICTS[item.verdict]}{level}"


def _grade_of(item: PlanItem) -> str:
    if not item.asks:
        return "good"
    return "bad" if item.verdict == "cannot" else "doubtful"


def _facts(plan: ChangePlan) -> list[tuple[str, str]]:
    """The figures of a plan, each with its name."""
    return [
        ("Code", plan.code or "none: scripts alone"),
        ("Batch", f"{plan.batch:,}"),
        ("State", f"{plan.size:,} bytes"),
        ("Query stops", "while its state is rewritten" if plan.stops else "for a restart only"),
    ]
