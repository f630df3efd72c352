"""State in envelopes as `plan` compares it: by the revisions that its values have.

The types of an envelope stay what they are when a script changes a function's values, so Spark's
comparison says nothing about them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators import CheckpointShape, in_envelopes
from statemigrate.deployment import StorePlan
from statemigrate.errors import StatemigrateError
from statemigrate.files import Files
from statemigrate.meaning import WITHOUT_FUNCTION, PlanItem, by_scripts, compare_stores
from statemigrate.migration import Lineage, lineage_with
from statemigrate.native import StoreRecord, read_record, stored_envelopes
from statemigrate.rewrite import operator_name
from statemigrate.state import stored_revisions

if TYPE_CHECKING:
    from statemigrate.commands.new_code import Probed


@dataclass(frozen=True)
class ComparedEnvelopes:
    """The functions whose state is in envelopes, in a checkpoint and in new code.

    ``operators`` are the names of those that have envelopes in both, and ``items`` the verdicts on
    their values. ``revisions`` are those that the values of each store have.
    """

    operators: frozenset[str] = frozenset()
    items: tuple[PlanItem, ...] = ()
    revisions: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Files, shape: CheckpointShape, found: Probed) -> ComparedEnvelopes:
        """Those of a checkpoint, and of what was ``found`` of the code."""
        after = {each.number for each in found.shape.operators if in_envelopes(each)}
        both = [each for each in shape.operators if in_envelopes(each) and each.number in after]
        if not both:
            return cls()
        names = frozenset(map(operator_name, both))
        # Spark takes one such function a query, unless its check of operators is switched off.
        if len(both) > 1 or len(found.in_envelopes) != 1:
            return cls(names, tuple(_without_function(each, found) for each in sorted(names)))
        (operator,), (store,) = both, found.in_envelopes
        revisions = stored_revisions(files, shape.batch)[operator.number]
        known = read_record(files).get(store, StoreRecord())
        item = _item(store, revisions, known, found.in_envelopes[store], operator_name(operator))
        return cls(names, (item,), {store: revisions})

    def without_own(self, items: Iterator[PlanItem]) -> Iterator[PlanItem]:
        """The verdicts on types, without those that say that an envelope is an envelope."""
        for each in items:
            if each.operator not in self.operators or each.verdict != "same":
                yield each


def envelopes_by_scripts(
    files: Files, shape: CheckpointShape, lineages: Mapping[str, Lineage]
) -> dict[int, PlanItem]:
    """What scripts alone say of a query's envelopes, by the number of the operator."""
    operators = {each.number: operator_name(each) for each in shape.operators}
    deployed = read_record(files)
    return {
        number: _by_scripts(operators[number], revisions, lineages, deployed)
        for number, revisions in stored_revisions(files, shape.batch).items()
    }


def _by_scripts(
    operator: str,
    revisions: frozenset[str],
    lineages: Mapping[str, Lineage],
    deployed: Container[str],
) -> PlanItem:
    lineage = lineage_with(revisions, lineages, deployed)
    if lineage is not None and revisions:
        return by_scripts(lineage.store, set(revisions), lineage, operator, is_live=True)
    if lineage is not None:
        return _without_values(lineage.store, operator)
    fitting = [store for store, each in lineages.items() if each.has_all(revisions)]
    listed = ", ".join(sorted(revisions)) or "no revision"
    which = f"those of {', '.join(fitting)} do" if fitting else "none do"
    text = f"its values have {listed}, and it takes scripts of one store that have that: {which}"
    return PlanItem(operator, "unknown", text, operator)


def _without_values(store: str, operator: str) -> PlanItem:
    return PlanItem(store, "goes on", "it has no values", operator, store)


def _item(
    store: str,
    revisions: frozenset[str],
    known: StoreRecord,
    found: StorePlan | StatemigrateError,
    operator: str,
) -> PlanItem:
    if isinstance(found, StatemigrateError):
        text = f"{found.headline}: {found.next_action or found.found}"
        return PlanItem(store, "cannot", text, operator, store)
    if not revisions:
        return _without_values(store, operator)
    lineage = found.lineage
    was = stored_envelopes(lineage, sorted(revisions), known).led_by(known.target, lineage)
    (item,) = compare_stores({store: was}, {store: found.stored()}, {store: lineage}, operator)
    return item


def _without_function(operator: str, found: Probed) -> PlanItem:
    if found.like is not None:
        text = "its values are in envelopes, and a checkpoint of new code does not say which "
        text += "revision that code writes: name it with --code"
    else:
        text = WITHOUT_FUNCTION
    return PlanItem(operator, "cannot", text, operator)
