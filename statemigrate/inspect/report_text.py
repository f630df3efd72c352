"""The report of a dry run as text.

What a dry run found in plain sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from statemigrate.inspect.dry_run_report import (
    BrokenLaw,
    ConstantField,
    DryRunReport,
    FamilyTrial,
    Loss,
    Meetings,
)
from statemigrate.quoting import argument

# Numbers and texts of a report as people read them.


_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def counted(number: int, noun: str) -> str:
    """The number with its noun, which takes an s: ``1 value``, ``2,000 values``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: float) -> str:
    """Bytes in the unit that fits, as in ``11.8 MiB``."""
    if number < 1024:
        return f"{number:,.0f} B"
    for unit in _UNITS:
        number /= 1024
        # 1023.96 would be shown as 1,024.0.
        if number < 1023.95 or unit == _UNITS[-1]:
            break
    return f"{number:,.1f}".removesuffix(".0") + f" {unit}"


def utc_time(seconds: float) -> str:
    """Unix seconds as everybody everywhere reads them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def duration(seconds: float) -> str:
    """Seconds in the units that fit, as in ``3 min 20 s``."""
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, smaller, length, part in (("min", "s", 60, 1), ("h", "min", 3600, 60)):
        if whole < length * (60 if unit == "min" else 24):
            return f"{whole // length} {unit} {whole % length // part} {smaller}"
    return f"{whole // 86400:,} d {whole % 86400 // 3600} h"


def rough(seconds: float) -> str:
    """A `duration` that nobody needs to the hundredth of a second."""
    return f"{seconds:.0f} s" if seconds < 59.5 else duration(seconds)


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
    of_fields = _field_outcomes(report)
    return f"Keys change: {made} under {counted(found.keys, 'key')}{of_fields}{_met(found)}."


def _field_outcomes(report: DryRunReport) -> str:
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


def broken(each: BrokenLaw) -> str:
    """Which law a script breaks, and where."""
    where = f"for {each.field} " if each.field else ""
    why = f": {each.cause}" if each.cause else ""
    return (
        f"{each.law} does not hold {where}in {counted(each.values, 'value')}, as the script of "
        f"{each.revision} claims{why}"
    )


def correct(each: BrokenLaw) -> str:
    """What to do about a broken law."""
    script = each.script or f"the script of revision {each.revision}"
    return (
        f"correct the functions or lenses in {script} so that they undo each other; if they are "
        "not meant to, write `lossless = False` in that script."
    )


def loss(each: Loss) -> str:
    """What became of a field that is empty now."""
    meant = "; the script says that this is meant" if each.meant else ""
    if each.values is not None:
        such = f", such as that of {each.keys[0]}" if each.keys else ""
        values = counted(each.values, "value")
        return f"had values: nothing is left after {each.direction} in {values}{such}{meant}"
    value = f", such as {each.before}" if each.before else ""
    return f"had values{value}: nothing is left of them after {each.direction}{meant}"


def constant(each: ConstantField) -> str:
    """What became of a field that has one value only."""
    meant = "; the script says that this is meant" if each.meant else ""
    return f"had different values: all are {each.after} after {each.direction}{meant}"


def keep(each: Loss) -> str:
    """What to do about a field that is empty now."""
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


# Whether what a dry run tried can be deployed, and what to do next.


@dataclass(frozen=True)
class DeploymentVerdict:
    """Whether the migration can be deployed: in one word, in a sentence, and what to do next."""

    grade: Literal["good", "doubtful", "bad"]
    text: str
    next_action: str


def verdict(report: DryRunReport) -> DeploymentVerdict:
    """Whether the migration can be deployed: the first of the reasons not to, if there is one."""
    bad = (_failing, _losing, _breaking, _meeting)
    doubtful = (_asking, _differing, _constant, _untried)
    found = (reason(report) for reason in (*bad, *doubtful, _idle))
    return next((each for each in found if each is not None), _ready(report))


def _failing(report: DryRunReport) -> DeploymentVerdict | None:
    if not report.failed:
        return None
    functions = _functions(report, lambda family: (family.failed, family.direction))
    return DeploymentVerdict(
        "bad",
        f"Not ready: {counted(report.failed, 'value')} would not migrate.",
        f"correct {functions} so that it takes these values, then run the dry run again.",
    )


def _losing(report: DryRunReport) -> DeploymentVerdict | None:
    if not report.lost:
        return None
    first, *others = (each for family in report.families for each in family.lost)
    more = f" {len(others):,} more." if others else ""
    return DeploymentVerdict(
        "bad",
        f"Not ready: {listed(lost_fields(report))} would be lost.",
        f"{keep(first)}{more} Then run the dry run again.",
    )


def _breaking(report: DryRunReport) -> DeploymentVerdict | None:
    if not report.lawless:
        return None
    first = next(each for family in report.families for each in family.broken_laws)
    come = "comes" if report.lawless == 1 else "come"
    return DeploymentVerdict(
        "bad",
        f"Not ready: {counted(report.lawless, 'value')} {come} back other than the scripts claim.",
        f"{correct(first)} Then run the dry run again.",
    )


def _meeting(report: DryRunReport) -> DeploymentVerdict | None:
    if not report.unmerged:
        return None
    return DeploymentVerdict(
        "bad",
        f"Not ready: under {counted(report.unmerged, 'key')} several entries would meet.",
        "write `merge` in the script that changes keys, or keys that keep them apart, then run the "
        "dry run again.",
    )


def _differing(report: DryRunReport) -> DeploymentVerdict | None:
    if not report.differing:
        return None
    functions = _functions(report, lambda family: (family.differing, _way_back(family)))
    back = "a rollback" if "downgrade" in functions else "migrating them again"
    return DeploymentVerdict(
        "doubtful",
        f"Migrates, but {back} would change {counted(report.differing, 'value')}.",
        f"correct {functions} and run the dry run again, or deploy knowing that {back} changes "
        "these values.",
    )


def _constant(report: DryRunReport) -> DeploymentVerdict | None:
    found = list(_unmeant(report))
    if not found:
        return None
    fields = list(dict.fromkeys(each.field for each in found))
    script = found[0].script or f"the script of revision {found[0].revision}"
    return DeploymentVerdict(
        "doubtful",
        f"Migrates, but {listed(fields)} {'has' if len(fields) == 1 else 'have'} one value only "
        "afterwards.",
        f"make sure that `{found[0].direction}` in {script} means it; then add "
        f"{found[0].field!r} to `drops` in that script, or deploy.",
    )


def _asking(report: DryRunReport) -> DeploymentVerdict | None:
    if not report.questions:
        return None
    are = "is" if report.questions == 1 else "are"
    return DeploymentVerdict(
        "doubtful",
        f"Migrates, but {counted(report.questions, 'question')} {are} open in the scripts.",
        "answer what `statemigrate check` lists, then run the dry run again.",
    )


def _untried(report: DryRunReport) -> DeploymentVerdict | None:
    if report.tried >= report.stored:
        return None
    return DeploymentVerdict(
        "doubtful",
        f"Good so far: {counted(report.stored - report.tried, 'value')} not tried.",
        "run the dry run again on all values before you deploy.",
    )


def _idle(report: DryRunReport) -> DeploymentVerdict | None:
    if report.stored:
        return None
    return DeploymentVerdict("good", "Nothing to do.", "nothing; the store needs no migration.")


def _ready(report: DryRunReport) -> DeploymentVerdict:
    if report.rewrites:
        return DeploymentVerdict(
            "good",
            "Ready to rewrite: every value migrates.",
            f"stop the query, then `statemigrate rewrite {argument(report.checkpoint)} NEW`, "
            "with the code "
            f"that is written for revision {report.target}.",
        )
    return DeploymentVerdict(
        "good",
        "Ready to deploy: every value migrates.",
        f"deploy the code that is written for revision {report.target}.",
    )


def _unmeant(report: DryRunReport) -> Iterator[ConstantField]:
    constants = (each for family in report.families for each in family.constants)
    return (each for each in constants if not each.meant)


def _way_back(family: FamilyTrial) -> str:
    return "downgrade" if family.direction == "upgrade" else "upgrade"


def _functions(report: DryRunReport, of: Callable[[FamilyTrial], tuple[int, str]]) -> str:
    """The functions to correct, of the families that ``of`` counts anything for."""
    names = [name for count, name in map(of, report.families) if count]
    return " and ".join(f"`{name}`" for name in dict.fromkeys(names))
