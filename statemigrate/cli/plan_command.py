"""`plan`: what happens to a query's state when its code changes."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import (
    Settings,
    all_option,
    checkpoint_named,
    configuration,
    file_to_write,
    match_option,
    named_by,
    shared_options,
)
from statemigrate.cli.output import console, print_error, print_json, print_line, print_sentence
from statemigrate.cli.rewrite_output import (
    lock_option,
    new_code_of,
    new_code_options,
    old_code_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from statemigrate.commands.change_plan import ChangePlan, Plans
    from statemigrate.commands.new_code import NewCode
    from statemigrate.meaning import PlanItem

_STYLES = {
    "live": "bold cyan",
    "rewrite": "bold cyan",
    "unnoticed": "bold yellow",
    "unknown": "bold yellow",
    "cannot": "bold red",
}


@click.command(epilog="Example: statemigrate plan checkpoints/orders --code pipeline:orders")
@checkpoint_named
@all_option
@match_option
@new_code_options
@old_code_option
@lock_option
@click.option("--markdown", is_flag=True, help="Print Markdown, for a pull request.")
@click.option("--sarif", is_flag=True, help="Print SARIF, for a code review.")
@click.option(
    "--html", metavar="FILE", callback=file_to_write, help="Also write an HTML page for a review."
)
@shared_options()
@click.pass_obj
def plan(
    settings: Settings,
    /,
    checkpoint: str,
    match: str | None,
    html: str | None,
    *,
    every: bool,
    markdown: bool,
    sarif: bool,
    **given: Any,
) -> None:
    """Report what happens to the state of CHECKPOINT when new code starts on it.

    The command runs the code once, on empty streams, and compares it with the checkpoint. It prints
    a verdict on every source, state and variable, and then the steps as commands to copy. It writes
    nothing, and the query may be running. Without --code it compares only the migration scripts
    with the state.

    Spark compares the types of state and not their meaning. Another key of the same type, or `max`
    in place of `min`, starts without an error. --old-code or --lock names the code that wrote the
    state.

    --all plans for every checkpoint that has a name in pyproject.toml: `query` in its table names
    the code, and `lock` the lock file of the deployed code. A checkpoint with a `query` needs no
    --code by itself either.

    Exit code 0 if the code can start as it is, 1 if there is something to do or to decide first.
    """
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.plan import plan as make_plan

    if every and (checkpoint or any(given.values())):
        raise click.UsageError("--all takes checkpoints and their code from pyproject.toml alone.")
    if match and not every:
        raise click.UsageError("--match is for --all.")
    shared: dict[str, Any] = {
        "migrations": settings.migrations,
        "stores": configuration().stores,
        "rules": configuration().rules,
    }
    found: ChangePlan | Plans
    with spark_when_needed() as spark:
        if every:
            found = make_plan(checkpoints=named_by(match), spark=spark, **shared)
        else:
            found = make_plan(checkpoint, target=_target(checkpoint, given), spark=spark, **shared)
    if html is not None:
        _write(html, found)
    if settings.json:
        print_json(found.to_json())
    elif sarif:
        print_json(sarif_of(_plans_in(found, settings)))
    elif markdown:
        for line in chain.from_iterable(map(markdown_of, _plans_in(found, settings))):
            print_line(line)
    else:
        _print_found(found, settings)
    if found.asks:
        click.get_current_context().exit(1)


def _target(checkpoint: str, given: dict[str, Any]) -> NewCode | None:
    """The code that the options name, else that of the checkpoint's own table."""
    from statemigrate.commands.plan import code_of

    if any(given.values()):
        return new_code_of(given)
    of_path = [each for each in configuration().checkpoints.values() if each.path == checkpoint]
    return code_of(of_path[0]) if of_path else None


def _write(path: str, found: ChangePlan | Plans) -> None:
    from statemigrate.commands.plan_page import plan_page
    from statemigrate.files import replacing

    with replacing(Path(path)) as stream:
        stream.write(plan_page(found).encode())


def _plans_in(found: ChangePlan | Plans, settings: Settings) -> list[ChangePlan]:
    """The plans that there are, and errors of the others on stderr."""
    from statemigrate.commands.change_plan import ChangePlan

    if isinstance(found, ChangePlan):
        return [found]
    for each in found.by_need:
        if each.error is not None:
            print_error(each.error, settings)
    return [each.plan for each in found.by_need if each.plan is not None]


def _print_found(found: ChangePlan | Plans, settings: Settings) -> None:
    from statemigrate.commands.change_plan import ChangePlan

    plans = _plans_in(found, settings)
    if isinstance(found, ChangePlan):
        print_plan(found)
        return
    for each in plans:
        if each.asks:
            print_plan(each)
            console().print()
    for named in found.by_need:
        if not named.asks:
            print_sentence(f"{named.checkpoint.name}: nothing to do")


def print_plan(found: ChangePlan) -> None:
    """Print the verdicts, the steps, and the way back."""
    from statemigrate.checkpoint import time_since

    screen = console()
    print_sentence(found.checkpoint)
    print_sentence(
        f"  query {found.query}, as of batch {found.batch}, begun {time_since(found.begun)}; "
        f"{size_text(found.size)} of state"
    )
    if found.open_batch is not None:
        print_sentence(
            f"  batch {found.open_batch} is begun and not committed: the next start runs it again, "
            "with the code that starts"
        )
    screen.print()
    print_items(found.items)
    screen.print()
    for number, step in enumerate(found.steps, 1):
        print_sentence(f"{number}. {step.text}{_about(step.seconds)}")
        if step.command:
            print_sentence(f"   {step.command}")
    if found.stops:
        stopped = _about(found.seconds_stopped)
        print_sentence(f"The query is stopped while its state is rewritten{stopped}.")
    if found.basis:
        print_sentence(f"Times are for {found.basis}.")
    if found.undo:
        print_sentence(f"Back: {found.undo}")


def _about(seconds: float | None) -> str:
    from statemigrate.inspect import rough

    return "" if seconds is None else f" (about {rough(seconds)})"


def print_items(items: Sequence[PlanItem]) -> None:
    """Print a verdict on each line."""
    from statemigrate.meaning import VERDICTS

    wide = max((len(each.name) for each in items), default=0)
    for each in items:
        level = f" ({each.level})" if each.level else ""
        print_sentence(
            f": {each.text}",
            mark=f"  {each.name:<{wide}}  {VERDICTS[each.verdict]}{level}",
            style=_STYLES.get(each.verdict, ""),
        )


def markdown_of(found: ChangePlan) -> list[str]:
    """The plan as Markdown: a table of what is not the same, and the steps."""
    from statemigrate.meaning import VERDICTS
    from statemigrate.quoting import markdown_text

    asked = [each for each in found.items if each.asks]
    rest = len(found.items) - len(asked)
    lines = [f"### State of {markdown_text(found.checkpoint)}", ""]
    if asked:
        lines += ["| what | verdict | why |", "|---|---|---|"]
        lines += [
            f"| {markdown_text(each.name)} | {VERDICTS[each.verdict]} "
            f"| {markdown_text(each.text)} |"
            for each in asked
        ]
        lines.append("")
    lines += [f"{rest} {'other is' if rest == 1 else 'others are'} the same, or go on.", ""]
    for number, step in enumerate(found.steps, 1):
        lines.append(f"{number}. {markdown_text(step.text)}{_about(step.seconds)}")
        if step.command:
            lines += ["   ```sh", f"   {step.command}", "   ```"]
    if found.undo.startswith("statemigrate "):
        lines += ["", "Back:", "```sh", found.undo, "```"]
    elif found.undo:
        lines += ["", f"Back: {markdown_text(found.undo)}"]
    return lines


def sarif_of(plans: Sequence[ChangePlan]) -> dict[str, Any]:
    """The plans as SARIF 2.1.0: a result for each item that asks for something, at the code's line.

    Format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
    """
    from statemigrate.meaning import RULES, VERDICTS

    found = [(plan, each) for plan in plans for each in plan.items if each.asks or each.level]
    names = {each.rule or each.verdict for _, each in found}
    rules = [
        {"id": name, "shortDescription": {"text": RULES.get(name) or VERDICTS[name]}}  # type: ignore[index]
        for name in sorted(names)
    ]
    results = [
        {
            "ruleId": each.rule or each.verdict,
            "level": "error" if each.asks else "warning",
            "message": {"text": f"{each.name}: {VERDICTS[each.verdict]}: {each.text}"},
            "locations": _locations(plan.code),
        }
        for plan, each in found
    ]
    driver = {"name": "statemigrate", "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _locations(code: str | None) -> list[dict[str, Any]]:
    """Where the function stands, relative to the working directory; nothing if it is elsewhere."""
    import inspect
    from pathlib import Path

    from statemigrate.deployment import named_object

    if code is None:
        return []
    function = inspect.unwrap(named_object(code))
    source = Path(inspect.getsourcefile(function) or "").resolve()
    if not source.is_relative_to(Path.cwd()):
        return []
    place = {
        "artifactLocation": {"uri": source.relative_to(Path.cwd()).as_posix()},
        "region": {"startLine": inspect.getsourcelines(function)[1]},
    }
    return [{"physicalLocation": place}]


def size_text(size: int) -> str:
    """A number of bytes as a person reads it."""
    for unit, factor in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size} bytes"
