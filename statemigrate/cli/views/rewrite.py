"""A rewrite's plan and report, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from statemigrate.cli.output import console, print_rows

if TYPE_CHECKING:
    from statemigrate.commands.rewriting.rewrite import Rewriting
    from statemigrate.rewrite.run.report import RewriteReport
    from statemigrate.rewrite.verifying.verify import Verified

_CHANGES = {
    "kept": "kept",
    "values": "its values change",
    "keys": "its keys change",
    "new": "new, and empty",
    "gone": "gone",
}


def print_rewriting(found: Rewriting) -> None:
    """Print the plan; then what was done, or what is to be said or typed next."""
    plan, screen = found.document, console()
    screen.print(f"{found.old} -> {found.new}")
    screen.print(f"  query {plan['query']}, as of batch {plan['batch']}")
    for name, (before, after) in plan["settings"].items():
        screen.print(f"  {name}: {before or 'not set'} -> {after}")
    for operator in plan["operators"]:
        _print_operator(operator)
    for each in plan["answers"]:
        screen.print(f"  said: {each['name']} = {each['said']}")
    if found.report is not None:
        screen.print()
        print_report(found.report)
    else:
        _print_questions(plan["questions"])
    screen.print(f"Next: {found.next_action}")


def print_report(report: RewriteReport) -> None:
    """Print what a rewrite read and wrote."""
    console().print(f"Rewritten from {report.old} in {report.seconds:,.1f} s")
    print_rows(
        ("  state", "change", "read", "written", "merged", "dropped", "by partition"),
        [
            (
                f"  {each.name}",
                each.change,
                "-" if each.read is None else f"{each.read.count:,}",
                f"{each.total.count:,}",
                f"{each.merged:,}",
                f"{each.dropped:,}",
                " ".join(f"{total.count:,}" for total in each.written.values()),
            )
            for each in report.families
        ],
    )
    for name, total in report.gone.items():
        console().print(f"  {name}: {total.count:,} rows are gone, as was confirmed")


def print_verified(found: Verified) -> None:
    """Print what was compared, what is wrong last."""
    screen = console()
    print_report(found.report)
    screen.print()
    for each in found.fine:
        screen.print(f"  as it must be: {each}")
    for each in found.problems:
        screen.print("  wrong: ", style="bold red", end="")
        screen.print(each)
    if found.problems:
        screen.print("Next: do not start a query on it; rewrite again, to another place")
    else:
        screen.print("Next: start the new code on it; the old checkpoint stays as it is")


def _print_operator(operator: dict[str, Any]) -> None:
    screen = console()
    screen.print()
    screen.print(operator["name"], style="bold cyan", end="")
    moved = operator["old"] != operator["new"] and None not in (operator["old"], operator["new"])
    screen.print(f"  {_CHANGES[operator['change']]}", end="")
    screen.print(f"; it was number {operator['old']}" if moved else "")
    rows = list(_rows(operator))
    if rows:
        print_rows(("  state", "field", "becomes"), rows)


def _rows(operator: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for family in operator["families"]:
        for part in ("key", "value"):
            for field in family[part]:
                if family["change"] != "kept":
                    name = f"  {family['name']}" + (" (key)" if part == "key" else "")
                    yield name, field["field"], _becomes(field)
    for name in operator["gone"]:
        yield f"  {name}", "", "gone"


def _becomes(field: dict[str, Any]) -> str:
    if field["change"] == "new":
        return f"new, starts at {field['start']!r}" if "start" in field else "new"
    if field["change"] == "gone":
        return "gone"
    source = "" if field["from"] == field["field"] else f", from {field['from']}"
    words = {"kept": "kept", "widened": "kept, in a wider type", "nested": "changed within"}
    return words[field["change"]] + source


def _print_questions(questions: list[dict[str, Any]]) -> None:
    screen = console()
    screen.print()
    for each in questions:
        screen.print("? ", style="bold yellow", end="")
        screen.print(each["text"])
        screen.print(f"    {each['answer']}")
