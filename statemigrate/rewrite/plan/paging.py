"""State that goes into pages, out of them, or into another number of them: its values stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from statemigrate.checkpoint.operators.catalogue import is_derived, is_timers
from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.native.spark_state.operators import is_pages
from statemigrate.pages.record import RECORDS, PagesRecord, is_large, record_name
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.plan.pairing.places import Place, all_places, is_unused, place_name

WRITTEN = "statemigrate/pages-written.json"
"""Below a checkpoint whose pages a rewrite has made: the record of them as it was then.

That of an operator with a name is `written_name`."""
_WRITTEN_NAMED = "-written.json"
_BY_KEY = "_keyToTimestamp"
"""The end of the name of that family of timers which has them by key."""


def written_name(operator: str) -> str:
    """`WRITTEN` of an operator, by its name, which may be empty."""
    if not operator:
        return WRITTEN
    return f"{record_name(operator).removesuffix('.json')}{_WRITTEN_NAMED}"


def is_written_name(name: str) -> bool:
    """Whether a file has what `written_name` says."""
    return name == WRITTEN or (name.startswith(f"{RECORDS}/") and name.endswith(_WRITTEN_NAMED))


@dataclass(frozen=True)
class Paging:
    """How an operator keeps what its variables hold: ``record`` says it of pages, None of none.

    ``pages`` is the operator as Spark sees it: a variable with a binary value.
    """

    record: PagesRecord | None = None
    pages: OperatorShape | None = None


@dataclass(frozen=True)
class Layout:
    """The ``old`` and the ``new`` way in which operator ``number`` keeps its variables.

    ``files`` are those of the new checkpoint that tell of it, by their names; what is not carried
    over of the old one is named in ``left``, files and folders.
    """

    number: int
    old: Paging
    new: Paging
    files: Mapping[str, bytes] = field(default_factory=dict)
    left: tuple[str, ...] = ()


def paged_families(
    plans: tuple[FamilyPlan, ...], pages: OperatorShape, record: PagesRecord
) -> Iterator[FamilyPlan]:
    """Each family of the operator ``pages``, made from those that ``plans`` keep."""
    kept = [each for each in plans if each.old is not None and not each.is_derived]
    for place in all_places(pages):
        name = place_name(pages, place)
        plan = FamilyPlan(name, place, record=record)
        if is_derived(place.family.name):
            yield replace(plan, is_derived=True)
        elif is_unused(pages, place.family):
            yield plan
        elif is_pages(place.family.name):
            yield replace(plan, way="pages", parts=tuple(p for p in kept if _is_in_pages(p)))
        elif is_large(place.family.name):
            large = tuple(each for each in kept if not is_timers(each.new.family.name))
            yield replace(plan, way="large values", parts=large)
        elif is_timers(place.family.name):
            yield replace(plan, way="page timers", parts=tuple(_timers(kept, place)))
        else:
            yield plan


def _is_in_pages(plan: FamilyPlan) -> bool:
    """Whether pages have it; of timers, which Spark has by key and by time, those by key."""
    name = plan.new.family.name
    return not is_timers(name) or name.endswith(_BY_KEY)


def _timers(plans: list[FamilyPlan], place: Place) -> Iterator[FamilyPlan]:
    return (each for each in plans if each.new.family.name == place.family.name)
