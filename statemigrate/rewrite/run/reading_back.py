"""Whether what a rewrite wrote is what Spark's own reader gives back."""

from __future__ import annotations

from collections.abc import Iterator

from statemigrate.errors import RewriteError
from statemigrate.rewrite.plan.plan import RewritePlan
from statemigrate.rewrite.rows.checksum import Checksum
from statemigrate.rewrite.rows.reading import StateReader
from statemigrate.rewrite.rows.surveying import survey
from statemigrate.rewrite.rows.windows import windows_in
from statemigrate.rewrite.run.report import FamilyReport, RewriteReport
from statemigrate.rewrite.windows.findings import WindowFinding


def check_written(plan: RewritePlan, report: RewriteReport, reader: StateReader) -> None:
    """Read every row of the new state back, and compare it with what was written.

    Raises `RewriteError` where a row is missing, another one, or not in the partition where Spark
    would look for it; and where a script makes windows that the new code does not.
    """
    families = {each.name: each for each in report.families}
    for operator in plan.operators:
        for family in operator.families:
            if operator.new is not None and not family.is_derived:
                rows = reader.rows(operator.new, family.new)
                found = survey(rows, operator.new, family.new, family.name)
                problem = next(_differences(families[family.name], found.partitions), None)
                if problem is not None:
                    raise problem
    kept = [each.new for each in plan.operators if each.new is not None]
    for finding, others in windows_in(kept, reader, plan.windows):
        if others != finding.left:
            raise _of_other_windows(finding, others)


def _of_other_windows(finding: WindowFinding, others: int) -> RewriteError:
    return RewriteError(
        "SM-REWRITE-047",
        f"{finding.store} has windows in {finding.column} that the new code does not make",
        expected=f"{finding.new_text}, and {finding.left:,} others",
        found=f"{others:,} others",
        next_action=f"correct the script of {finding.store}, which says what the new windows are; "
        "no checkpoint was published",
        store=finding.store,
    )


def _differences(family: FamilyReport, found: dict[int, Checksum]) -> Iterator[RewriteError]:
    for partition in sorted({*family.written, *found}):
        written = family.written.get(partition, Checksum())
        read = found.get(partition, Checksum())
        if written != read:
            yield RewriteError(
                "SM-REWRITE-048",
                f"what was written of {family.name} in partition {partition} is not what Spark "
                "reads there",
                expected=f"{written.count:,} rows with the checksum {written.text}",
                found=f"{read.count:,} rows with the checksum {read.text}",
                next_action="no checkpoint was published; report this, as it is a fault of "
                "statemigrate's or of this release of Spark",
                store=family.name,
            )
