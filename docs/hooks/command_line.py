"""Writes the reference of the command line from the click commands, at every build."""

from __future__ import annotations

from collections.abc import Iterator

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from statemigrate.cli import main
from statemigrate.cli.options import shared_options

PLACE = "<!-- every command -->"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Put the commands where the page has a place for them."""
    return markdown.replace(PLACE, "\n".join(_everything())) if PLACE in markdown else markdown


def _everything() -> Iterator[str]:
    context = click.Context(main, info_name="statemigrate", **main.context_settings)
    shared = [each for each in main.get_params(context) if isinstance(each, click.Option)]
    yield from _options([each for each in shared if each.name != "version"], context)
    for verb in main.list_commands(context):
        command = main.get_command(context, verb)
        assert command is not None, verb  # noqa: S101 - it was listed
        yield from _command(command, click.Context(command, context, info_name=verb))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"\n## {context.info_name}\n"
    yield from _paragraphs(command.help)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{context.command_path} {usage}\n```\n"
    own = [each for each in command.params if isinstance(each, click.Option)]
    yield from _options([each for each in own if each.name not in _shared_names()], context)
    yield f"{_example(command)}\n"


def _shared_names() -> set[str | None]:
    @shared_options()
    def nothing() -> None:
        pass

    return {each.name for each in click.command()(nothing).params}


def _options(options: list[click.Option], context: click.Context) -> Iterator[str]:
    records = [each.get_help_record(context) for each in options]
    yield from (
        f"`{names}`\n:   {_prose(' '.join(text.split()))}\n"
        for names, text in filter(None, records)
    )


def _prose(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")


def _paragraphs(text: str | None) -> Iterator[str]:
    yield from (f"{_prose(' '.join(part.split()))}\n" for part in (text or "").split("\n\n"))


def _example(command: click.Command) -> str:
    label, _, example = (command.epilog or "").partition(": ")
    assert label == "Example", f"{command.name} has no example"  # noqa: S101 - the build shows it
    return f'```text title="Example"\n{example}\n```'
