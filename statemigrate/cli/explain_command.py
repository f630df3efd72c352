"""`explain`: what an error means, what causes it and what to do about it."""

from __future__ import annotations

import sys

import click

from statemigrate.cli.options import Settings, shared_options
from statemigrate.cli.output import print_json, print_line, print_sentence
from statemigrate.commands.explain import Explanation


@click.command(epilog="Example: statemigrate explain SM-CHECKPOINT-003")
@click.argument("text", nargs=-1)
@shared_options()
@click.pass_obj
def explain(settings: Settings, text: tuple[str, ...]) -> None:
    """Explain an error code, the text of an error, or a log: the cause, and what to do.

    TEXT is an error code of statemigrate, or the printed text of an error of statemigrate or Spark.
    Without TEXT, or with -, the command reads standard input, for example a log. It explains each
    known error once, in the order of the text. Exit code 1 if it knows none.
    """
    from statemigrate.commands.explain import explain as explanations

    text = () if text == ("-",) else text
    if not text and sys.stdin.isatty():
        raise click.UsageError("Name a code, or give a log on standard input.")
    # A log may hold anything.
    log = (line.decode("utf-8", errors="replace") for line in sys.stdin.buffer)
    found = explanations(" ".join(text) if text else log)
    if settings.json:
        print_json([each.to_json() for each in found])
    else:
        for each in found:
            _print(each)
    if not found:
        if not settings.json:
            print_line(
                "Nothing is known about this: it has no error code of this release, and no error "
                "of Spark that statemigrate knows.",
                stderr=True,
            )
        click.get_current_context().exit(1)


def _print(each: Explanation) -> None:
    print_sentence(f"  {each.title}", mark=each.code, style="bold")
    print_sentence(f" {each.cause}", mark="  cause:", style="bold")
    print_sentence(f" {each.cure}", mark="  what to do:", style="bold cyan")
    if each.count > 1 or each.line > 1:
        lines = "one line" if each.count == 1 else f"{each.count:,} lines"
        print_sentence(f" in {lines}, the first is line {each.line:,}", mark="  found:")
