"""Whether what a dry run tried can be deployed, and what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from statemigrate.inspect.report.dry_run import Constant, DryRunReport, FamilyTrial
from statemigrate.inspect.report.sentences import keep, listed, lost_fields
from statemigrate.inspect.report.text import counted
from statemigrate.shell import argument


@dataclass(frozen=True)
class Verdict:
    """Whether the migration can be deployed: in one word, in a sentence, and what to do next."""

    grade: Literal["good", "doubtful", "bad"]
    text: str
    next_action: str


def verdict(report: DryRunReport) -> Verdict:
    """Whether the migration can be deployed: the first of the reasons not to, if there is one."""
    reasons = (_failing, _losing, _meeting, _asking, _differing, _constant, _untried, _idle)
    found = (reason(report) for reason in reasons)
    return next((each for each in found if each is not None), _ready(report))


def _failing(report: DryRunReport) -> Verdict | None:
    if not report.failed:
        return None
    functions = _functions(report, lambda family: (family.failed, family.direction))
    return Verdict(
        "bad",
        f"Not ready: {counted(report.failed, 'value')} would not migrate.",
        f"correct {functions} so that it takes these values, then run the dry run again.",
    )


def _losing(report: DryRunReport) -> Verdict | None:
    if not report.lost:
        return None
    first, *others = (each for family in report.families for each in family.lost)
    more = f" {len(others):,} more besides." if others else ""
    return Verdict(
        "bad",
        f"Not ready: {listed(lost_fields(report))} would be lost.",
        f"{keep(first)}{more} Then run the dry run again.",
    )


def _meeting(report: DryRunReport) -> Verdict | None:
    if not report.unmerged:
        return None
    return Verdict(
        "bad",
        f"Not ready: under {counted(report.unmerged, 'key')} several entries would meet.",
        "write `merge` in the script that changes keys, or keys that keep them apart, then run the "
        "dry run again.",
    )


def _differing(report: DryRunReport) -> Verdict | None:
    if not report.differing:
        return None
    functions = _functions(report, lambda family: (family.differing, _way_back(family)))
    back = "a rollback" if "downgrade" in functions else "migrating them again"
    return Verdict(
        "doubtful",
        f"Migrates, but {back} would change {counted(report.differing, 'value')}.",
        f"correct {functions} and run the dry run again, or deploy knowing that {back} changes "
        "these values.",
    )


def _constant(report: DryRunReport) -> Verdict | None:
    found = list(_unmeant(report))
    if not found:
        return None
    fields = list(dict.fromkeys(each.field for each in found))
    script = found[0].script or f"the script of revision {found[0].revision}"
    return Verdict(
        "doubtful",
        f"Migrates, but {listed(fields)} {'has' if len(fields) == 1 else 'have'} one value only "
        "afterwards.",
        f"make sure that `{found[0].direction}` in {script} means it; then add "
        f"{found[0].field!r} to `drops` in that script, or deploy.",
    )


def _asking(report: DryRunReport) -> Verdict | None:
    if not report.questions:
        return None
    are = "is" if report.questions == 1 else "are"
    return Verdict(
        "doubtful",
        f"Migrates, but {counted(report.questions, 'question')} {are} open in the scripts.",
        "answer what `statemigrate check` lists, then run the dry run again.",
    )


def _untried(report: DryRunReport) -> Verdict | None:
    if report.tried >= report.stored:
        return None
    return Verdict(
        "doubtful",
        f"Good so far: {counted(report.stored - report.tried, 'value')} not tried.",
        "run the dry run again on all values before you deploy.",
    )


def _idle(report: DryRunReport) -> Verdict | None:
    if report.stored:
        return None
    return Verdict("good", "Nothing to do.", "nothing; the store needs no migration.")


def _ready(report: DryRunReport) -> Verdict:
    if report.rewrites:
        return Verdict(
            "good",
            "Ready to rewrite: every value migrates.",
            f"stop the query, then `statemigrate rewrite {argument(report.checkpoint)} NEW`, "
            "with the code "
            f"that is written for revision {report.target}.",
        )
    return Verdict(
        "good",
        "Ready to deploy: every value migrates.",
        f"deploy the code that is written for revision {report.target}.",
    )


def _unmeant(report: DryRunReport) -> Iterator[Constant]:
    constants = (each for family in report.families for each in family.constants)
    return (each for each in constants if not each.meant)


def _way_back(family: FamilyTrial) -> str:
    return "downgrade" if family.direction == "upgrade" else "upgrade"


def _functions(report: DryRunReport, of: Callable[[FamilyTrial], tuple[int, str]]) -> str:
    """The functions to correct, of the families that ``of`` counts anything for."""
    names = [name for count, name in map(of, report.families) if count]
    return " and ".join(f"`{name}`" for name in dict.fromkeys(names))
