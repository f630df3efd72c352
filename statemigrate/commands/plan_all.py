"""`plan` of all checkpoints of a project: one that cannot be read hides no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.commands.fleet import found_or_error
from statemigrate.commands.new_code import NewCode
from statemigrate.commands.plan import ChangePlan, plan
from statemigrate.configuration import NamedCheckpoint
from statemigrate.deployment.code import named_object
from statemigrate.errors import StatemigrateError

if TYPE_CHECKING:
    from statemigrate.native.session import Spark


@dataclass(frozen=True)
class PlannedCheckpoint:
    """The ``plan`` of a checkpoint that has a name, or the ``error`` that it could not be made."""

    checkpoint: NamedCheckpoint
    plan: ChangePlan | None
    error: StatemigrateError | None = None

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "name": self.checkpoint.name,
            "plan": None if self.plan is None else self.plan.to_json(),
            "error": None if self.error is None else self.error.to_json(),
        }


@dataclass(frozen=True)
class ChangePlans:
    """The plans of a project's checkpoints, in the order of its configuration."""

    plans: tuple[PlannedCheckpoint, ...]

    @property
    def asks(self) -> bool:
        """Whether there is anything to do, decide or find out, or a plan that could not be made."""
        return any(each.plan is None or each.plan.asks for each in self.plans)

    @property
    def by_need(self) -> tuple[PlannedCheckpoint, ...]:
        """Those without a plan first, then those that ask for something, then the others."""
        return tuple(sorted(self.plans, key=lambda each: (each.plan is not None, not _asks(each))))

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {"asks": self.asks, "checkpoints": [each.to_json() for each in self.plans]}


def _asks(planned: PlannedCheckpoint) -> bool:
    return planned.plan is None or planned.plan.asks


def plan_of_all(
    checkpoints: Iterable[NamedCheckpoint],
    *,
    migrations: str | Path | None = "migrations",
    stores: Mapping[str, str] | None = None,
    rules: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> ChangePlans:
    """The `plan` of every checkpoint, with the code that the configuration names for it.

    The code of a query is the function from its streams to the result. A checkpoint whose ``code``
    names none is compared with the migration scripts alone.
    """
    found = []
    for named in checkpoints:

        def made(of: NamedCheckpoint) -> ChangePlan:
            return plan(
                of.path,
                target=NewCode(_query_code(of)),
                migrations=migrations,
                stores=stores,
                rules=rules,
                spark=spark,
            )

        result = found_or_error(named, partial(made, named))
        if isinstance(result, StatemigrateError):
            found.append(PlannedCheckpoint(named, None, result))
        else:
            found.append(PlannedCheckpoint(named, result))
    return ChangePlans(tuple(found))


def _query_code(named: NamedCheckpoint) -> str | None:
    """The first function in a checkpoint's code: its others are processors."""
    for reference in named.code:
        code = named_object(reference)
        if callable(code) and not isinstance(code, type) and hasattr(code, "__code__"):
            return reference
    return None
