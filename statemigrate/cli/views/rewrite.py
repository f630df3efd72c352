"""A rewrite's plan and report, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from statemigrate.checkpoint.logs.pinned import (
    HDFS_PROVIDER,
    PARTITIONS,
    PROVIDER,
    ROCKSDB_PROVIDER,
)
from statemigrate.cli.output import (
    console,
    partition_counts,
    print_parts,
    print_rows,
    print_sentence,
    rows_of,
    sentence,
)
from statemigrate.formats.json_values import json_text
from statemigrate.rewrite.run.running import time_since

if TYPE_CHECKING:
    from statemigrate.commands.rewriting.rewrite import Rewriting
    from statemigrate.commands.rewriting.seed import Seeding
    from statemigrate.rewrite.run.report import RewriteReport
    from statemigrate.rewrite.verifying.verify import Verified

_SETTINGS = {PARTITIONS: "partitions", PROVIDER: "state store"}
_STORES = {HDFS_PROVIDER: "HDFS-backed", ROCKSDB_PROVIDER: "RocksDB"}
_NOTHING = "__dummy__"
"""The value of a row that has none."""
_CHANGES = {
    "kept": "kept: every row as it is",
    "values": "its values change",
    "keys": "its keys change",
    "kind": "becomes state of another kind",
    "joined": "several of its states become one",
    "paged": "its entries go into pages",
    "new": "new, and empty",
    "gone": "gone",
}


def print_rewriting(found: Rewriting) -> None:
    """Print the plan; then what was done, or what is to be said or typed next."""
    plan = found.document
    print_sentence(f"{found.old} -> {found.new}")
    begun = time_since(found.begun)
    print_sentence(f"  query {plan['query']}, as of batch {plan['batch']}, begun {begun}")
    for each in found.warnings:
        print_sentence(each, mark="! ", style="bold yellow")
    for name, (before, after) in plan["settings"].items():
        said = (_STORES.get(each, each) or "not set" for each in (before, after))
        print_sentence(f"  {_SETTINGS.get(name, name)}: {' -> '.join(said)}")
    for source in plan["sources"]:
        _print_source(source)
    for operator in plan["operators"]:
        _print_operator(operator)
    _print_rest(plan, found)


def print_seeding(found: Seeding) -> None:
    """Print what becomes of tables; then what was done, or what is to be said or typed next."""
    plan, screen = found.document, console()
    print_sentence(f"{', '.join(found.tables.values())} -> {found.new}")
    screen.print(f"  a new query, as after batch {plan['batch']}")
    for name in ("spark.sql.shuffle.partitions", PROVIDER):
        print_sentence(f"  {name}: {found.plan.new.conf.get(name)}")
    for source in plan["sources"]:
        _print_source(source)
    for operator in plan["operators"]:
        screen.print()
        screen.print(operator["name"], style="bold cyan")
        print_rows(("  state", "field", "comes from"), list(_seeded(operator, found.columns)))
    _print_rest(plan, found)


def print_report(report: RewriteReport) -> None:
    """Print what a rewrite read and wrote."""
    print_parts(report_parts(report))


def report_parts(report: RewriteReport) -> Iterator[RenderableType]:
    """What `print_report` prints."""
    word = "Seeded" if report.tables else "Rewritten"
    yield sentence(f"{word} from {report.old} in {report.seconds:,.1f} s")
    yield rows_of(
        ("  state", "change", "read", "written", "merged", "dropped", "by partition"),
        [
            (
                f"  {each.name}",
                each.change,
                "-" if each.read is None else f"{each.read.count:,}",
                f"{each.total.count:,}",
                f"{each.merged:,}",
                f"{each.dropped:,}",
                partition_counts(total.count for total in each.written.values()),
            )
            for each in report.families
        ],
    )
    for name, total in report.gone.items():
        yield sentence(f"  {name}: {total.count:,} rows are gone, as was confirmed")


def print_verified(found: Verified) -> None:
    """Print what was compared, what is wrong last."""
    screen = console()
    print_report(found.report)
    screen.print()
    for each in found.fine:
        print_sentence(each, mark="  as it must be: ")
    for each in found.untried:
        print_sentence(each, mark="  not compared: ", style="bold yellow")
    for each in found.problems:
        print_sentence(each, mark="  wrong: ", style="bold red")
    if found.problems:
        screen.print("Next: do not start a query on it; rewrite again, to another place")
    else:
        screen.print("Next: start the new code on it; the old checkpoint stays as it is")


def _print_rest(plan: dict[str, Any], found: Rewriting | Seeding) -> None:
    screen = console()
    for each in plan["answers"]:
        print_sentence(f"  said: {each['name']} = {each['said']}")
    if found.report is not None:
        screen.print()
        print_report(found.report)
    else:
        _print_questions(plan["questions"])
    screen.print(f"Next: {found.next_action}")


def _print_source(source: dict[str, Any]) -> None:
    if source["new"] is None:
        print_sentence(f"  source {source['old']}: gone")
        return
    called = f" ({source['input']})" if source["input"] else ""
    old = "new" if source["old"] is None else f"as the old source {source['old']}"
    begin = "where it begins by itself" if source["offset"] == "-" else f"at {source['offset']}"
    taken = f", without the files in {source['taken']}" if source["taken"] else ""
    print_sentence(f"  source {source['new']}{called}: {old}, {begin}{taken}")


def _print_operator(operator: dict[str, Any]) -> None:
    screen = console()
    screen.print()
    screen.print(operator["name"], style="bold cyan", end="")
    moved = operator["old"] != operator["new"] and None not in (operator["old"], operator["new"])
    screen.print(f"  {_CHANGES[operator['change']]}", end="")
    screen.print(f"; it was number {operator['old']}" if moved else "")
    functions = [row for each in operator["families"] for row in _function_rows(each)]
    if functions:
        print_rows(("  state", "function", "kept in", "goes on with"), functions)
    rows = list(_rows(operator))
    if rows:
        print_rows(("  state", "field", "becomes"), rows)
    for each in operator["windows"]:
        column = f"{each['store']}.{each['column']}"
        by = ", by a script" if each["is_scripted"] else ""
        print_sentence(f"  {column}: {each['old_text']}; the new code: {each['new_text']}{by}")


def _seeded(
    operator: dict[str, Any], columns: Mapping[str, Mapping[str, Sequence[str]]]
) -> Iterator[tuple[str, str, str]]:
    """Each field of the state with the columns of the table that are in it."""
    for family in operator["families"]:
        operator_part, _, internal = family["name"].partition(".$")
        own = columns.get(f"{operator_part}.timers" if internal else family["name"])
        if own is None:
            yield f"  {family['name']}", "", "nothing: it begins empty"
            continue
        for part in ("key", "value"):
            for field in family[part]:
                found = own.get(field["field"]) or own.get(family["name"]) or ()
                if field["change"] == "new":
                    found = [_becomes(field)]
                name = f"  {family['name']}" + (" (key)" if part == "key" else "")
                yield name, field["field"], ", ".join(found) or "what Spark keeps there"
        if not (family["key"] or family["value"]):
            for field, found in own.items():
                yield f"  {family['name']}", f"{field}, by scripts", ", ".join(found)
        elif "expires" in own:
            yield f"  {family['name']}", "expires", ", ".join(own["expires"])


def _rows(operator: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for family in operator["families"]:
        for part in ("key",) if family.get("functions") else ("key", "value"):
            for field in family[part]:
                if family["change"] != "kept" and field["field"] != _NOTHING:
                    name = f"  {family['name']}" + (" (key)" if part == "key" else "")
                    of = f" (of {field['of']})" if "of" in field else ""
                    yield name, field["field"] + of, _becomes(field)
    for name in operator["gone"]:
        yield f"  {name}", "", "gone"


def _function_rows(family: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Each aggregate function with the old one that it goes on with."""
    for each in family.get("functions", ()):
        kept = each["field"] + (
            f" and {each['fields'] - 1} more" if each.get("fields", 1) > 1 else ""
        )
        yield f"  {family['name']}", each["function"], kept, _goes_on(each)


def _goes_on(function: dict[str, Any]) -> str:
    words = {
        "open": "not known",
        "gone": "gone",
        "empty": "nothing: it is new",
        "begun": "nothing: it is new",
        "same": "itself",
        "derived": f"{function.get('from')}, from which it is computed",
    }
    return words.get(function["how"], f"the old {function.get('at')}")


def _becomes(field: dict[str, Any]) -> str:
    if field["change"] == "new":
        return f"new, starts at {json_text(field['start'])}" if "start" in field else "new"
    if field["change"] == "gone":
        return "gone"
    source = "" if field["from"] == field["field"] else f", from {field['from']}"
    words = {
        "derived": "computed",
        "kept": "kept",
        "widened": "kept, in a wider type",
        "nested": "changed within",
    }
    return words[field["change"]] + source


def _print_questions(questions: list[dict[str, Any]]) -> None:
    console().print()
    for each in questions:
        print_sentence(each["text"], mark="? ", style="bold yellow")
        if each["facts"]:
            print_sentence(f"    {each['facts']}")
        print_sentence(f"    {each['answer']}")
