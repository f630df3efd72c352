"""A dry run as JUnit XML, which GitHub, GitLab and Jenkins show with a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree as ET

from statemigrate.errors import StatemigrateError
from statemigrate.inspect.dry_run_report import DryRunReport, Failure, FamilyTrial, ValueExample
from statemigrate.inspect.report_text import (
    broken,
    correct,
    counted,
    headline,
    keep,
    listed,
    loss,
    round_trips,
)
from statemigrate.quoting import visible, visible_lines


@dataclass(frozen=True)
class _Case:
    name: str
    milliseconds: int = 0
    skipped: str = ""
    failure: str = ""
    details: str = ""


def junit_xml(report: DryRunReport) -> str:
    """The report as one suite, with a case for each family and check.

    A family's values migrate or not; its fields keep values or not; where there is a way back, its
    round trips come back the same or not. A family outside the sample is skipped. The time of the
    run is shared out to the families by the number of values tried. Characters that XML forbids
    are shown as escapes.
    """
    return junit_of({report.store: report})


def junit_of(reports: Mapping[str, DryRunReport | StatemigrateError]) -> str:
    """A suite, as `junit_xml` has it, for each report by its name; an error is a case."""
    root = ET.Element("testsuites", {"name": "statemigrate dry-run"})
    written = [_suite(root, name, found) for name, found in reports.items()]
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in written)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in written):.3f}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def _suite(root: ET.Element, name: str, found: DryRunReport | StatemigrateError) -> ET.Element:
    if isinstance(found, StatemigrateError):
        return _broken(root, name, found)
    cases = _cases(found)
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(1 for case in cases if case.failure)),
        "errors": "0",
    }
    time = _seconds(sum(case.milliseconds for case in cases))
    skipped = str(sum(1 for case in cases if case.skipped))
    named = {"name": visible(name), **counts, "skipped": skipped, "time": time}
    suite = ET.SubElement(root, "testsuite", named)
    properties = ET.SubElement(suite, "properties")
    for each, value in _properties(found).items():
        ET.SubElement(properties, "property", name=each, value=visible(value))
    for case in cases:
        _write(suite, case, f"statemigrate.{visible(name)}")
    ET.SubElement(suite, "system-out").text = visible(headline(found))
    return suite


def _broken(root: ET.Element, name: str, error: StatemigrateError) -> ET.Element:
    counts = {"tests": "1", "failures": "0", "errors": "1", "skipped": "0", "time": "0.000"}
    suite = ET.SubElement(root, "testsuite", {"name": visible(name), **counts})
    place = {"classname": f"statemigrate.{visible(name)}", "name": "could be tried"}
    case = ET.SubElement(suite, "testcase", {**place, "time": "0.000"})
    ET.SubElement(case, "error", message=visible(error.headline)).text = visible(str(error))
    return suite


def _cases(report: DryRunReport) -> list[_Case]:
    if not report.families:
        # Readers take a file without a case for a run that broke.
        return [_Case("nothing is left to migrate", round(report.seconds * 1000))]
    shares = _shares(report)
    cases = []
    for family, share in zip(report.families, shares, strict=True):
        cases.append(_values_migrate(family, report.target, share))
        cases.append(_no_field_is_lost(family))
        if family.broken_laws:
            cases.append(_laws_hold(family))
        if family.reversible:
            cases.append(_round_trips_are_equal(family))
    return cases


def _shares(report: DryRunReport) -> list[int]:
    """Each family's milliseconds; their sum is that of the run."""
    weights = [family.tried for family in report.families]
    if not any(weights):
        weights = [1] * len(weights)
    ends = [sum(weights[: n + 1]) for n in range(len(weights))]
    marks = [0, *(round(report.seconds * 1000 * end / ends[-1]) for end in ends)]
    return [end - start for start, end in pairwise(marks)]


def _values_migrate(family: FamilyTrial, target: str, milliseconds: int) -> _Case:
    name = f"{_named(family)}: values migrate to {target}"
    if family.stored and not family.tried:
        reason = f"none of {counted(family.stored, 'value')} was in the sample"
        return _Case(name, milliseconds, skipped=reason)
    if not family.failed:
        return _Case(name, milliseconds)
    message = f"{family.failed:,} of {counted(family.tried, 'value')} do not migrate"
    details = [line for failure in family.failures for line in _failure(failure)]
    return _Case(name, milliseconds, failure=message, details="\n".join(details))


def _round_trips_are_equal(family: FamilyTrial) -> _Case:
    name = f"{_named(family)}: round trips come back the same"
    if family.stored and not family.passed:
        return _Case(name, skipped="no value made a round trip")
    if not family.differing:
        return _Case(name)
    return _Case(name, failure=round_trips(family), details="\n".join(_differences(family)))


def _laws_hold(family: FamilyTrial) -> _Case:
    name = f"{_named(family)}: scripts undo each other as they claim"
    details = [
        line
        for each in family.broken_laws
        for line in (broken(each), *_smallest(each.smallest), f"  next: {correct(each)}")
    ]
    message = f"{counted(family.lawless, 'value')} broke a law that a script claims"
    return _Case(name, failure=message, details="\n".join(map(visible, details)))


def _smallest(example: ValueExample | None) -> list[str]:
    if example is None:
        return []
    return [f"  smallest: {_side(example.before)} came back as {_side(example.after)}"]


def _no_field_is_lost(family: FamilyTrial) -> _Case:
    name = f"{_named(family)}: no field is lost"
    if family.stored and not family.passed:
        return _Case(name, skipped="no value was compared")
    if not family.lost:
        return _Case(name)
    message = f"{listed([visible(each.field) for each in family.lost])} would be lost"
    details = [
        line
        for each in family.lost
        for line in (f"{visible(each.field)} {visible(loss(each))}", f"  next: {keep(each)}")
    ]
    return _Case(name, failure=message, details="\n".join(map(visible, details)))


def _failure(failure: Failure) -> list[str]:
    first, *rest = visible_lines(failure.cause)
    keys = [f"  key: {visible(key)}" for key in failure.keys]
    return [f"{counted(failure.values, 'value')}: {first}", *(f"  {line}" for line in rest), *keys]


def _differences(family: FamilyTrial) -> list[str]:
    lines = []
    for difference in family.differences:
        lines.append(f"{counted(difference.values, 'value')}: field {visible(difference.field)}")
        for example in difference.examples:
            sides = f"{_side(example.before)} came back as {_side(example.after)}"
            lines.append(f"  key: {visible(example.key)}: {sides}")
    return lines


def _side(text: str | None) -> str:
    return "nothing" if text is None else visible(text)


def _named(family: FamilyTrial) -> str:
    return f"{family.family} ({family.revision})"


def _properties(report: DryRunReport) -> dict[str, object]:
    return {
        "engine": report.engine,
        "kind": report.kind,
        "checkpoint": report.checkpoint,
        "batch": "none" if report.batch is None else report.batch,
        "target": report.target,
        "sample": "all" if report.sample is None else report.sample,
        "stored": report.stored,
        "tried": report.tried,
        "passed": report.passed,
        "failed": report.failed,
        "differing": report.differing,
        "lost": report.lost,
        "lawless": report.lawless,
        "in_target": report.in_target,
    }


def _write(suite: ET.Element, case: _Case, classname: str) -> None:
    element = ET.SubElement(
        suite,
        "testcase",
        classname=classname,
        name=visible(case.name),
        time=_seconds(case.milliseconds),
    )
    if case.skipped:
        ET.SubElement(element, "skipped", message=visible(case.skipped))
    if case.failure:
        kind = "DryRunFailure"
        failure = ET.SubElement(element, "failure", message=visible(case.failure), type=kind)
        failure.text = "\n".join(visible_lines(case.details))


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.3f}"
