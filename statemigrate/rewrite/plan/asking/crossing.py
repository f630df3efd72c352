"""What is asked where a function's state in groups becomes variables of a processor."""

from __future__ import annotations

from collections.abc import Sequence

from statemigrate.checkpoint.operators.catalogue import is_internal, is_timers
from statemigrate.checkpoint.operators.shapes import TIMEOUT, OperatorShape
from statemigrate.rewrite.plan.asking.ask import Asked
from statemigrate.rewrite.plan.asking.questions import Question
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.plan.pairing.operators import operator_name
from statemigrate.rewrite.plan.pairing.places import crosses, place_name

_EVENT_TIME = "$event"


def ask_crossing(
    asked: Asked,
    old: OperatorShape | None,
    new: OperatorShape | None,
    families: Sequence[FamilyPlan],
) -> None:
    """Ask for the variable that goes on with the state, and for what becomes of timeouts."""
    for each in families:
        asked.may_take(_variable(each.name, each.name))
    if old is None or new is None or not crosses(old, new):
        return
    for each in families:
        if each.old is not None and not is_internal(each.new.family.name):
            asked.confirm(_variable(each.name, place_name(old, each.old)))
    if any(TIMEOUT in _fields(store.families[0].value) for store in old.stores):
        asked.confirm(_timers(operator_name(old), families))


def _variable(name: str, source: str) -> Question:
    return Question(
        name,
        "state",
        f"a processor goes on with the state of {source}: is it what {name} has?",
        source,
        (f"--take VARIABLE={source}",),
    )


def _timers(source: str, families: Sequence[FamilyPlan]) -> Question:
    timers = [each.new.family.name for each in families if is_timers(each.new.family.name)]
    name = f"{source}.timeouts"
    if not timers:
        text, proposal = f"the new code has no timers: are the timeouts of {source} to go?", "gone"
    else:
        time = "event time" if timers[0].startswith(_EVENT_TIME) else "processing time"
        text = (
            f"timeouts of {source} become timers in {time}, which the new code has: "
            "were they in that time?"
        )
        proposal = time
    return Question(name, "state", text, proposal)


def _fields(struct: dict[str, object]) -> list[str]:
    fields = struct["fields"]
    assert isinstance(fields, list), "a struct has fields"  # noqa: S101
    return [str(each["name"]) for each in fields]
