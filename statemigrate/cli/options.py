"""The options every verb has, before or after its name, and those that several share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class Settings:
    """What the shared options say."""

    migrations: str = "migrations"
    json: bool = False
    debug: bool = False

    def scripts(self) -> str | None:
        """The folder of scripts; None where the default one does not exist: there may be none."""
        default = self.migrations == Settings.migrations
        return None if default and not Path(self.migrations).is_dir() else self.migrations


def shared_options(envvar: str | None = None) -> Callable[[Command], Command]:
    """Give a command --migrations, --json and --debug; the function takes them as Settings.

    Only the group reads ``envvar``, so that an option given before the verb outranks it.
    """

    def decorate(command: Command) -> Command:
        for option in reversed(_options(envvar)):
            command = option(command)
        return command

    return decorate


def checkpoint_option(command: Command) -> Command:
    """Give a command --checkpoint, without which it cannot run."""
    option = click.option(
        "--checkpoint", metavar="PATH", required=True, help="Checkpoint directory of the query."
    )
    return option(command)


def accept_edited_option(command: Command) -> Command:
    """Give a command --accept-edited; the function takes ``accept_edited``, revisions."""
    option = click.option(
        "--accept-edited",
        metavar="REVISION",
        multiple=True,
        help="Applied script that was corrected since, as in accept_edited= of the query.",
    )
    return option(command)


def target_option(command: Command) -> Command:
    """Give a command --target; the function takes ``targets``, revisions by store."""
    option = click.option(
        "--target",
        "targets",
        metavar="STORE=REVISION",
        multiple=True,
        callback=_targets,
        help="Revision the code is written for, if not the head; may be repeated.",
    )
    return option(command)


def _targets(
    ctx: click.Context,  # noqa: ARG001
    parameter: click.Parameter,  # noqa: ARG001
    pairs: tuple[str, ...],
) -> dict[str, str]:
    split = [pair.partition("=") for pair in pairs]
    for store, _, revision in split:
        if not store or not revision:
            raise click.UsageError("--target takes STORE=REVISION, as in auctions=base.")
    return {store: revision for store, _, revision in split}


def _options(envvar: str | None) -> list[Callable[[Command], Command]]:
    option = partial(click.option, expose_value=False, callback=_remember)
    return [
        option(
            "--migrations",
            metavar="DIR",
            envvar=envvar,
            show_envvar=envvar is not None,
            help="Folder of the migration scripts.  [default: migrations]",
        ),
        option("--json", is_flag=True, help="Print JSON for machines."),
        option("--debug", is_flag=True, help="Print a traceback with an error."),
    ]


def _remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    settings = ctx.find_root().ensure_object(Settings)
    ctx.obj = settings
    if value and parameter.name is not None:
        setattr(settings, parameter.name, value)
