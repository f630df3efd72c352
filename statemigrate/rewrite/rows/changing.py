"""What a family's old rows become, whichever way they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.checkpoint.operators.shown_keys import shown_key
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.plan.pairing.places import part_of
from statemigrate.rewrite.rows.arrow.entries import MERGED, ORIGINS, EntryFormats
from statemigrate.rewrite.rows.arrow.fields import FieldChanges, with_fields
from statemigrate.rewrite.rows.kinds.apart import CARRIED, ORIGIN, POSITION, entries_of
from statemigrate.rewrite.rows.kinds.expiring import with_expirations
from statemigrate.rewrite.rows.kinds.joined import entries_together
from statemigrate.rewrite.rows.kinds.timeouts import timers_of
from statemigrate.rewrite.rows.kinds.together import counts_of, rows_of
from statemigrate.rewrite.rows.paged.packing import large_values, page_timers, pages_of
from statemigrate.rewrite.rows.reading import RowReader
from statemigrate.rewrite.rows.scripted import along, one_of_each, upgraded
from statemigrate.rewrite.rows.wrapping import unwrapped, wrapped_again

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Changes:
    """Changes rows of the operator ``old`` to those of ``new``.

    ``starts`` has what the author said of fields that old rows lack, and of expirations;
    ``batch_time`` is when the last batch was begun, in milliseconds since 1970.
    """

    reader: RowReader
    old: OperatorShape
    new: OperatorShape
    families: Sequence[FamilyPlan]
    starts: Mapping[str, Any]
    batch_time: int

    def rows(self, plan: FamilyPlan) -> DataFrame:
        """The rows as they become: ``key``, ``value`` and the counts of `entries`."""
        match plan.way:
            case "entries":
                return rows_of(self._entries(plan), plan)
            case "joined":
                found = [self._entries(each) for each in plan.parts]
                return rows_of(entries_together(found, plan), plan)
            case "timers":
                return timers_of(self._read(plan), plan)
            case "pages" | "page timers" | "large values":
                return self._paged(plan)
            case "counts":
                return counts_of(self._entries(self._counted(plan)), plan)
        scripted = plan.script is not None
        return upgraded(self._read(plan), plan) if scripted else self._matched(plan)

    def _paged(self, plan: FamilyPlan) -> DataFrame:
        parts = [(each, self._read(each)) for each in plan.parts]
        ways = {"pages": pages_of, "page timers": page_timers, "large values": large_values}
        return ways[plan.way](self.old, parts, plan)

    def _read(self, plan: FamilyPlan) -> DataFrame:
        assert plan.old is not None, "only what has old rows is changed"  # noqa: S101
        return self.reader.rows(self.old, plan.old)

    def _matched(self, plan: FamilyPlan) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        assert plan.old is not None, "rows go on"  # noqa: S101
        family = plan.new.family
        contents = unwrapped(self._read(plan), plan.old.family)
        changes = FieldChanges.of(plan, self.starts, family.key, is_list=family.is_list)
        changed = wrapped_again(with_fields(contents, changes, plan, family.key), family).select(
            "key",
            "value",
            F.lit(1).cast("long").alias(ORIGINS),
            F.lit(0).cast("long").alias(MERGED),
        )
        return one_of_each(changed) if plan.key and plan.key.dropped else changed

    def _entries(self, plan: FamilyPlan) -> DataFrame:
        assert plan.old is not None, "only what has old rows is changed"  # noqa: S101
        found = entries_of(self._read(plan), self.old, plan.old)
        said = self.starts.get(f"{plan.name}:expires")
        found = with_expirations(found, plan, said, self.batch_time)
        return self._matched_entries(found, plan) if plan.script is None else _along(found, plan)

    def _matched_entries(self, entries: DataFrame, plan: FamilyPlan) -> DataFrame:
        key = shown_key(self.new, plan.new.store, plan.new.family)
        changes = FieldChanges.of(plan, self.starts, key, is_list=False)
        return with_fields(entries, changes, plan, key)

    def _counted(self, plan: FamilyPlan) -> FamilyPlan:
        return next(
            each
            for each in self.families
            if each.way == "entries"
            and each.old is not None
            and part_of(self.old, each.old) == plan.counts
        )


def _along(entries: DataFrame, plan: FamilyPlan) -> DataFrame:
    assert plan.script is not None, "asked before"  # noqa: S101
    formats = EntryFormats(plan.script.key, plan.script.value, carried=CARRIED)
    return along(entries, plan, formats, (ORIGIN, POSITION))
