"""What `rewrite` and `plan` are asked for, and how a rewrite looks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType

from statemigrate.checkpoint.logs import PARTITIONS, PROVIDER
from statemigrate.checkpoint.stores import PROVIDERS
from statemigrate.cli.options import (
    Settings,
    apply_option,
    parsed_operator,
)
from statemigrate.cli.output import (
    console,
    partition_counts,
    print_found,
    print_parts,
    print_rows,
    print_sentence,
    progress_bar,
    rows_of,
    sentence,
)
from statemigrate.formats import json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from statemigrate.commands.new_code import NewCode
    from statemigrate.commands.rewrite import Rewriting
    from statemigrate.commands.seed import Seeding
    from statemigrate.rewrite import RewriteReport, Verified


def _with(command: Callable[..., Any], *options: Callable[..., Any]) -> Callable[..., Any]:
    """The command with these options, shown in their order."""
    for option in reversed(options):
        command = option(command)
    return command


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Say what code runs on that is run on empty streams."""
    return _with(
        command,
        click.option(
            "--input",
            "inputs",
            metavar="NAME=DDL",
            multiple=True,
            help="Schema of an input stream, if the function's annotation does not name it.",
        ),
        click.option("--output-mode", "mode", type=click.Choice(["append", "update", "complete"])),
    )


old_code_option = click.option(
    "--old-code",
    metavar="MODULE:FUNCTION",
    help="The code that wrote the checkpoint, to compare the meaning of its state.",
)


def new_code_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Say what the code keeps that goes on with a new checkpoint."""
    return _with(
        command,
        click.option(
            "--code", metavar="MODULE:FUNCTION", help="The new code, from streams to the result."
        ),
        input_options,
        click.option(
            "--like", metavar="PROBE", help="A checkpoint that the new code made on some input."
        ),
    )


lock_option = click.option(
    "--lock",
    metavar="FILE",
    type=click.Path(),
    help="The lock file of that code, in place of --old-code.",
)


def new_code_of(given: dict[str, Any]) -> NewCode:
    """The code that the options name."""
    from statemigrate.commands.new_code import NewCode

    return NewCode(
        given["code"],
        named_values("--input", given["inputs"]),
        given["mode"],
        given["like"],
        given.get("old_code"),
        given.get("lock"),
    )


def described_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Say what is pinned to the query, and what a plan asks."""
    return _with(
        command,
        click.option(
            "--partitions", type=click.IntRange(min=1), help="Number of state partitions."
        ),
        click.option(
            "--provider", type=click.Choice(list(PROVIDERS)), help="State store provider."
        ),
        click.option(
            "--conf",
            metavar="NAME=VALUE",
            multiple=True,
            help="Another setting pinned to the query.",
        ),
        click.option(
            "--offsets", metavar="SOURCE=JSON", multiple=True, help="Where a source continues."
        ),
        click.option(
            "--taken",
            metavar="SOURCE=FILES",
            multiple=True,
            help="Files for a new source to skip, because the state includes them already.",
        ),
        click.option(
            "--watermark", metavar="MS", type=click.IntRange(min=0), help="Event-time watermark."
        ),
        click.option(
            "--accept",
            metavar="NAME:DIGITS",
            multiple=True,
            help="Accept the proposal of a question, which shows this option.",
        ),
        click.option(
            "--start", metavar="NAME=JSON", multiple=True, help="The first value of a new field."
        ),
        click.option(
            "--take",
            metavar="NAME=OLD",
            multiple=True,
            help="Old field or state for a new one; NAME=OLD,OLD for variables that become one.",
        ),
        apply_option,
    )


def plan_or_make(
    make: Callable[..., Any], settings: Settings, given: dict[str, Any], show: Callable[[Any], None]
) -> None:
    """Show the plan of a new checkpoint, or what was done; exit code 1 for open questions."""
    from statemigrate.cli.session import spark_when_needed

    asked = asked_for(given)
    with (
        spark_when_needed() as spark,
        progress_bar("rows written", shown=not settings.json) as progress,
    ):
        named = settings.of_all(spark, apply=given["apply"], progress=progress)
        found = make(**asked, **named)
    print_found(settings, found, show)
    if found.plan.questions:
        click.get_current_context().exit(1)


def asked_for(given: dict[str, Any]) -> dict[str, Any]:
    """What the options say, as the library's functions take it."""
    from statemigrate.checkpoint.logs import PROVIDER
    from statemigrate.rewrite import RewriteAnswers, RewriteOptions

    conf = named_values("--conf", given["conf"])
    if given["provider"]:
        conf[PROVIDER] = PROVIDERS[given["provider"]].class_name
    return {
        "target": new_code_of(given),
        "options": RewriteOptions(
            given["partitions"],
            conf,
            _json("--offsets", given["offsets"]),
            given["watermark"],
            _sources(given.get("sources", ())),
            named_values("--taken", given["taken"]),
            _pages(given),
            *_paged_operator(given),
        ),
        "answers": RewriteAnswers(
            frozenset(given["accept"]),
            _json("--start", given["start"]),
            named_values("--take", given["take"]),
            _operators(given.get("operators", ())),
            accept_new=given.get("accept_new", False),
        ),
    }


def named_values(option: str, given: Iterable[str]) -> dict[str, str]:
    """The values of an option by their names. Raises `click.UsageError`."""
    found: dict[str, str] = {}
    for name, _, value in (each.partition("=") for each in given):
        if not name or not value:
            raise click.UsageError(f"{option} takes NAME=VALUE.")
        if name in found:
            raise click.UsageError(f"{option} says {name} twice: {found[name]} and {value}.")
        found[name] = value
    return found


def _json(option: str, given: Iterable[str]) -> dict[str, Any]:
    found = {}
    for name, text in named_values(option, given).items():
        try:
            found[name] = json.loads(text)
        except ValueError as error:
            raise click.UsageError(f"{option} {name}: {text} is no JSON: {error}") from error
    return found


def _pages(given: dict[str, Any]) -> int | None:
    """The number of pages that is asked for, 0 for none of them."""
    if given.get("pages") and given.get("no_pages"):
        raise click.UsageError("--pages and --no-pages say two things.")
    pages: int | None = 0 if given.get("no_pages") else given.get("pages")
    return pages


def _paged_operator(given: dict[str, Any]) -> tuple[int | str | None, str | None]:
    """The operator that pages are of, and its new name."""
    stated = given.get("paged_operator")
    if stated is None:
        return None, None
    if _pages(given) is None:
        raise click.UsageError("--paged-operator goes with --pages or --no-pages.")
    which, is_named, name = stated.partition("=")
    return parsed_operator(which), name if is_named else None


def _sources(given: Iterable[str]) -> dict[str, str | None]:
    return {
        old: None if new == "gone" else new for old, new in named_values("--source", given).items()
    }


def _operators(given: Iterable[str]) -> dict[int, int | None]:
    found: dict[int, int | None] = {}
    for old, new in named_values("--operator", given).items():
        if not old.isdecimal() or not (new.isdecimal() or new == "gone"):
            raise click.UsageError("--operator takes OLD=NEW, two numbers, or OLD=gone.")
        found[int(old)] = None if new == "gone" else int(new)
    return found


# A rewrite's plan and report, for people.


_SETTINGS = {PARTITIONS: "partitions", PROVIDER: "state store"}
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


def _labels() -> dict[str | None, str]:
    """What people call a state store, by its class."""
    return {each.class_name: each.label for each in PROVIDERS.values()}


def print_rewriting(found: Rewriting) -> None:
    """Print the plan; then what was done, or which answer or command comes next."""
    plan = found.document
    print_sentence(f"{found.old} -> {found.new}")
    from statemigrate.checkpoint import time_since

    begun = time_since(found.begun)
    print_sentence(f"  query {plan['query']}, as of batch {plan['batch']}, begun {begun}")
    for each in found.warnings:
        print_sentence(each, mark="! ", style="bold yellow")
    for name, (before, after) in plan["settings"].items():
        names = (_labels().get(each, each) or "not set" for each in (before, after))
        print_sentence(f"  {_SETTINGS.get(name, name)}: {' -> '.join(names)}")
    for source in plan["sources"]:
        _print_source(source)
    for operator in plan["operators"]:
        _print_operator(operator)
    _print_rest(plan, found)


def print_seeding(found: Seeding) -> None:
    """Print what becomes of tables; then what was done, or which answer or command comes next."""
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
    print_sentence(found.covered, mark="  counts and checksums cover: ")
    print_sentence(found.not_covered, mark="  they do not cover: ")
    if found.problems:
        screen.print("Next: do not start a query on it; rewrite again, to another place")
    else:
        screen.print("Next: start the new code on it; the old checkpoint stays as it is")


def _print_rest(plan: dict[str, Any], found: Rewriting | Seeding) -> None:
    screen = console()
    for each in plan["answers"]:
        print_sentence(f"  answered: {each['name']} = {each['answer']}")
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
