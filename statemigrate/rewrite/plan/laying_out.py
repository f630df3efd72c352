"""A plan in which values stay, and are kept in another way: in pages, or in none."""

from __future__ import annotations

from dataclasses import replace

from statemigrate.rewrite.plan.paging import Layout, paged_families
from statemigrate.rewrite.plan.plan import OperatorPlan, RewritePlan
from statemigrate.rewrite.plan.refusals import refuse_unsupported


def laid_out(plan: RewritePlan, layout: Layout) -> RewritePlan:
    """The same plan as the new checkpoint keeps what is in it.

    Raises `UnsupportedError` for what could not be written.
    """
    operators = tuple(
        _paged(each, layout) if each.old and each.old.number == layout.number else each
        for each in plan.operators
    )
    # Files have the same ids: these go by operator and store, which stay.
    kept = tuple(each.new for each in operators if each.new is not None)
    new = replace(plan.new, operators=kept)
    refuse_unsupported(plan.old, new)
    return replace(plan, operators=operators, new=new, layout=layout)


def _paged(operator: OperatorPlan, layout: Layout) -> OperatorPlan:
    pages, record = layout.new.pages, layout.new.record
    if pages is None or record is None or operator.new is None:
        return operator
    partitions = operator.new.stores[0].partitions
    stores = tuple(replace(each, partitions=partitions) for each in pages.stores)
    wanted = replace(pages, stores=stores)
    families = tuple(paged_families(operator.families, wanted, record))
    return replace(operator, new=wanted, families=families)
