"""What a plan means for state: keys, aggregate functions and facts of each of its operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from statemigrate.rewrite.aggregates import AggregateFunction
from statemigrate.rewrite.plan_tree import Definitions
from statemigrate.rewrite.probe_facts import Facts, operator_facts
from statemigrate.rewrite.probe_functions import functions_in
from statemigrate.rewrite.probe_keys import keys_in
from statemigrate.rewrite.stream_plan import plan_of_stream
from statemigrate.rewrite.windows import Meanings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class PlanMeaning:
    """What is known of each stateful operator by its number.

    ``kinds`` are Spark's names of the operators, ``keys`` and ``functions`` what their keys and
    aggregates are computed from, ``facts`` what else decides about their rows. ``schemas`` are
    those of the streams, in the plan's order.
    """

    kinds: Mapping[int, str] = field(default_factory=dict)
    keys: Meanings = field(default_factory=dict)
    functions: Mapping[int, tuple[AggregateFunction, ...]] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)
    schemas: tuple[str, ...] = ()


def plan_meaning(stream: DataFrame, mode: str) -> PlanMeaning:
    """What the plan of a stream means that is written in an output ``mode``; it is not started.

    Raises `UnsupportedError` for a release of Spark that plans in a way which is not known.
    """
    plan = plan_of_stream(stream, mode)
    definitions = Definitions(plan.root)
    kinds = {
        each.number: each.kind
        for each in plan.root.every()
        if each.number is not None and each.kind
    }
    return PlanMeaning(
        kinds,
        keys_in(plan.root, definitions),
        functions_in(plan.root),
        operator_facts(plan.root, definitions),
        plan.schemas,
    )
