"""What a dry run found in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence

from statemigrate.inspect.report.dry_run import (
    Constant,
    DryRunReport,
    FamilyTrial,
    Loss,
    Meetings,
)
from statemigrate.inspect.report.text import counted, duration, size

_NAMED = 4


def headline(report: DryRunReport) -> str:
    """How many values migrate, and how many do not."""
    if not report.stored:
        return "No value is left to migrate."
    if not report.tried:
        return f"None of the {counted(report.stored, 'value')} that are left to migrate was tried."
    if report.failed:
        causes = {failure.cause for family in report.families for failure in family.failures}
        fail = "fails" if report.failed == 1 else "fail"
        reasons = f" for {counted(len(causes), 'cause')}" if causes else ""
        return (
            f"{report.passed:,} of {counted(report.tried, 'value')} migrate; "
            f"{report.failed:,} {fail}{reasons}."
        )
    tried = " that were tried" if report.tried < report.stored else ""
    but = f", but {listed(lost_fields(report))} would be lost" if report.lost else ""
    return f"All {counted(report.tried, 'value')}{tried} migrate{but}."


def sentences(report: DryRunReport) -> tuple[str, ...]:
    """What else there is to say in short, one sentence each."""
    found = (
        sample(report),
        _round_trips(report),
        _no_way_back(report),
        _sizes(report),
        already(report),
        meetings(report),
        backfill(report),
    )
    return tuple(sentence for sentence in found if sentence)


def meetings(report: DryRunReport) -> str:
    """What becomes of keys; nothing where they stay."""
    found = report.meetings
    if found is None:
        return ""
    made = "1 entry" if found.entries == 1 else f"{found.entries:,} entries"
    return f"Keys change: {made} under {counted(found.keys, 'key')}{_fates(report)}{_met(found)}."


def _fates(report: DryRunReport) -> str:
    """The values that became none, and those that became several."""
    dropped = sum(family.dropped for family in report.families)
    several = sum(family.several for family in report.families)
    gone = f", {counted(dropped, 'value')} dropped" if dropped else ""
    return gone + (f", {counted(several, 'value')} became several entries" if several else "")


def _met(found: Meetings) -> str:
    if not found.met:
        return ""
    under = counted(found.met, "key")
    meeting = f"; {found.meeting:,} of them meet under {under}"
    if found.gather:
        meeting = (
            f"; {found.meeting:,} of them come together under {under}, side by side in a list or a "
            "join; in a value or a map they meet"
        )
    if found.merges:
        return f"{meeting} and are merged, {found.entries - found.keys:,} less"
    such = ", ".join(f"{key} ({number:,} entries)" for key, number in found.examples)
    return f"{meeting} without `merge`" + (f", such as {such}" if such else "")


def round_trips(family: FamilyTrial) -> str:
    """How a family's values came back."""
    if not family.reversible:
        return "There is no way back: a migration on the path has no downgrade."
    if not family.passed:
        return "No value made a round trip."
    if not family.differing:
        return f"{counted(family.passed, 'value')} went there and back and came out the same."
    back = "upgrade" if family.direction == "downgrade" else "downgrade"
    return (
        f"{family.differing:,} of {counted(family.passed, 'value')} came back from "
        f"{back}({family.direction}(value)) other than before."
    )


def loss(each: Loss) -> str:
    """What became of a field of which nothing is left."""
    meant = "; the script says that this is meant" if each.meant else ""
    if each.values is not None:
        such = f", such as that of {each.keys[0]}" if each.keys else ""
        values = counted(each.values, "value")
        return f"had values: nothing is left after {each.direction} in {values}{such}{meant}"
    value = f", such as {each.before}" if each.before else ""
    return f"had values{value}: nothing is left of them after {each.direction}{meant}"


def constant(each: Constant) -> str:
    """What became of a field that has one value only."""
    meant = "; the script says that this is meant" if each.meant else ""
    return f"had different values: all are {each.after} after {each.direction}{meant}"


def keep(each: Loss) -> str:
    """What to do about a field of which nothing is left."""
    script = each.script or f"the script of revision {each.revision}"
    return (
        f"correct `{each.direction}` in {script} so that it keeps {each.field}; if it is meant to "
        f"be lost, add {each.field!r} to `drops` in that script."
    )


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: all of a few, the first of many."""
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def growth(before: int, after: int) -> str:
    """Both sizes and by how much they differ."""
    change = f" ({(after - before) / before:+.1%})" if before else ""
    return f"{size(before)} before and {size(after)} after{change}"


def sample(report: DryRunReport) -> str:
    """How much of what is stored was tried; nothing if it was all or none."""
    if report.tried in {0, report.stored}:
        return ""
    return (
        f"{report.tried:,} of {counted(report.stored, 'value')} were tried; "
        f"{report.stored - report.tried:,} are outside the sample."
    )


def already(report: DryRunReport) -> str:
    """How many values are in the target's format; nothing if none is."""
    if not report.in_target:
        return ""
    are = "is" if report.in_target == 1 else "are"
    return f"{counted(report.in_target, 'value')} {are} in the target's format already."


def backfill(report: DryRunReport) -> str:
    """How long a backfill would take; nothing without an estimate."""
    estimate = report.backfill
    if estimate is None:
        return ""
    return (
        f"A backfill of {counted(estimate.values, 'value')} would take about "
        f"{duration(estimate.seconds)}, {estimate.batches:,} "
        f"{'batch' if estimate.batches == 1 else 'batches'}."
    )


def lost_fields(report: DryRunReport) -> list[str]:
    """The fields that are lost without being meant to be."""
    return list(dict.fromkeys(each.label for family in report.families for each in family.lost))


def _round_trips(report: DryRunReport) -> str:
    passed = sum(family.passed for family in report.families if family.reversible)
    if not passed:
        return ""
    if report.differing:
        return (
            f"{report.differing:,} of {counted(passed, 'value')} came back from a round trip "
            "other than before."
        )
    return "Every value that went there and back came out the same."


def _no_way_back(report: DryRunReport) -> str:
    names = [family.family for family in report.families if not family.reversible]
    return f"There is no way back for {', '.join(names)}." if names else ""


def _sizes(report: DryRunReport) -> str:
    if not report.passed:
        return ""
    before = sum(family.bytes_before for family in report.families)
    after = sum(family.bytes_after for family in report.families)
    return f"The values that migrate take {growth(before, after)}."
