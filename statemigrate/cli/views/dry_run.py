"""How `dry-run` looks: what migrates, what fails and why, what it costs, and what to do next."""

from __future__ import annotations

from statemigrate.cli.output import console, print_rows, print_sentence
from statemigrate.commands.dry_run_all import Trials
from statemigrate.errors import values_hidden
from statemigrate.escapes import visible, visible_lines
from statemigrate.inspect.report.dry_run import DryRunReport, Example, Failure, FamilyTrial
from statemigrate.inspect.report.sentences import (
    already,
    backfill,
    constant,
    growth,
    headline,
    loss,
    meetings,
    round_trips,
    sample,
)
from statemigrate.inspect.report.text import counted, duration
from statemigrate.inspect.report.verdict import verdict
from statemigrate.shell import argument

_STYLES = {"good": "bold green", "doubtful": "bold yellow", "bad": "bold red"}
_FAMILIES = ("family\n  revision", "stored", "tried", "passed", "failed", "differing")
_FIELDS = ("  field", "effect", "values", "key", "before", "after")


def print_report(report: DryRunReport) -> None:
    """Print what a dry run found: the headline first, the verdict and the next step last.

    Text that comes from state is shown with an escape for each character that a terminal would act
    on.
    """
    _say(f"Dry run of {visible(report.store)} to {visible(report.target)}", "bold cyan")
    _say(headline(report), "bold")
    for sentence in (sample(report), already(report), meetings(report)):
        if sentence:
            _say(sentence)
    if report.families:
        _say()
        print_rows(_FAMILIES, [_row(family) for family in report.families], lines=True)
    if values_hidden():
        _say("Keys and values are not shown.")
    for family in report.families:
        _print_family(family)
    _print_costs(report)
    _print_verdict(report)


def print_trials(found: Trials) -> None:
    """Print every store's report, below its checkpoint's name, and each error in its place."""
    for trial in found.trials:
        _say(visible(trial.name), "bold magenta")
        if isinstance(trial.found, DryRunReport):
            print_report(trial.found)
        else:
            print_sentence(str(trial.found), mark="Error: ", style="bold red", lines=True)
        _say()
    if not found.trials:
        _say("No store of any checkpoint has scripts.")


def _print_family(family: FamilyTrial) -> None:
    if not family.tried:
        return
    _say()
    _say(f"{visible(family.family)} ({visible(family.revision)})", "bold cyan")
    if family.failed:
        _say(f"Failures: {counted(family.failed, 'value')}", "bold red")
    for failure in family.failures:
        _print_failure(failure)
    _print_fates(family)
    _say(f"Round trips: {round_trips(family)}")
    _print_differences(family)
    if family.fields:
        _say(f"Fields, compared in {counted(family.looked_at, 'value')}:")
        print_rows(_FIELDS, _effects(family), lines=True)
    if family.passed:
        _say(f"Size as Avro: {growth(family.bytes_before, family.bytes_after)}.")


def _print_failure(failure: Failure) -> None:
    first, *rest = visible_lines(failure.cause)
    _data(f"  {counted(failure.values, 'value')}: {first}")
    for line in rest:
        _data(f"    {line}")
    for key in failure.keys:
        _data(f"    key {argument(key)}")


def _print_fates(family: FamilyTrial) -> None:
    for each in family.losses:
        style = None if each.meant else "bold red"
        _say(f"Lost: {visible(each.field)} {visible(loss(each))}", style)
    for one in family.constants:
        style = None if one.meant else "bold yellow"
        _say(f"Constant: {visible(one.field)} {visible(constant(one))}", style)


def _print_differences(family: FamilyTrial) -> None:
    for difference in family.differences:
        _data(f"  {visible(difference.field)}: {counted(difference.values, 'value')}")
        for example in difference.examples:
            key, before, after = _sides(example)
            _data(f"    key {key}: {before} came back as {after}")


def _print_costs(report: DryRunReport) -> None:
    _say()
    if report.tried:
        rate = f"{report.rate:,.0f} a second"
        _say(f"Tried {counted(report.tried, 'value')} in {duration(report.seconds)}, {rate}.")
    if report.backfill is not None:
        _say(f"{backfill(report)} Reckoned from: {visible(report.backfill.basis)}")


def _print_verdict(report: DryRunReport) -> None:
    found = verdict(report)
    _say(found.text, _STYLES[found.grade])
    _say(f"Next: {visible(found.next_action)}")


def _row(family: FamilyTrial) -> tuple[str, ...]:
    numbers = (family.stored, family.tried, family.passed, family.failed)
    return (
        f"{visible(family.family)}\n  {visible(family.revision)}",
        *(f"{number:,}" for number in numbers),
        f"{family.differing:,}" if family.reversible else "no way back",
    )


def _effects(family: FamilyTrial) -> list[tuple[str, ...]]:
    return [
        (
            f"  {visible(each.label)}",
            each.effect,
            f"{each.values:,}",
            *(_sides(each.examples[0]) if each.examples else ("", "", "")),
        )
        for each in family.fields
    ]


def _sides(example: Example) -> tuple[str, str, str]:
    sides = (example.before, example.after)
    before, after = ("nothing" if side is None else visible(side) for side in sides)
    # As a shell takes it, for `statemigrate get`.
    return argument(example.key) if example.key else "", before, after


def _say(text: str = "", style: str | None = None) -> None:
    console().print(visible(text), style=style, soft_wrap=False)


def _data(line: str) -> None:
    # Not folded here, so that a key can be copied whole.
    console().print(visible(line))
