"""The options every verb has, before or after its name, and those that several share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from statemigrate.configuration import Configuration, ConfigurationError, configured
from statemigrate.errors import NO_VALUES, values_hidden

Command = TypeVar("Command", bound=Callable[..., Any])
TARGETS_SAID = "statemigrate.targets"
"""In a context, the targets that its options say."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass
class Settings:
    """What the shared options say."""

    migrations: str = "migrations"
    json: bool = False
    debug: bool = False
    operator: int | str | None = None


def looking(settings: Settings, targets: dict[str, str], spark: Any) -> dict[str, Any]:
    """What a look is told, at one checkpoint or at every one."""
    return {
        "migrations": settings.migrations,
        "targets": targets,
        "stores": configuration().stores,
        "spark": spark,
    }


stopped_option = click.option(
    "--stopped",
    is_flag=True,
    help="Confirm that the query is stopped, when its newest batch was not committed.",
)
"""Of the verbs that change the checkpoint of a stopped query on Spark's own state."""


def shared_options(envvar: str | None = None) -> Callable[[Command], Command]:
    """Give a command what every verb has; the function takes it as Settings.

    Only the group reads ``envvar``, so that an option given before the verb outranks it.
    """

    def decorate(command: Command) -> Command:
        for option in reversed(_options(envvar)):
            command = option(command)
        return command

    return decorate


def accept_edited_option(command: Command) -> Command:
    """Give a command --accept-edited; the function takes ``accept_edited``, revisions."""
    option = click.option(
        "--accept-edited",
        metavar="REVISION",
        multiple=True,
        help="Applied script that was corrected since, as in accept_edited= of the query.",
    )
    return option(command)


def operator_said(text: str) -> int | str:
    """An operator as one types it: Spark's number, or the name of one on pages.

    Raises `click.BadParameter` for what is neither.
    """
    if text.isascii() and text.isdecimal():
        return int(text)
    # As `statemigrate.native.spark_state.operators.is_name`, without what that needs.
    if not _NAME.fullmatch(text):
        raise click.BadParameter(f"{text!r} is neither a number nor the name of an operator.")
    return text


def operator_option(command: Command) -> Command:
    """Give a command --operator, which Settings keep."""
    option = click.option(
        "--operator",
        metavar="NUMBER|NAME",
        type=operator_said,
        expose_value=False,
        callback=_remember,
        help="The stateful operator, where a query has several: Spark's number, or the name that "
        "`paged(operator=)` gave it.",
    )
    return option(command)


def check_heads_option(command: Command) -> Command:
    """Give a command --check-heads, as alembic's `current` has it."""
    option = click.option(
        "--check-heads",
        is_flag=True,
        help="Exit code 1 unless every store is known to be deployed at the head of its scripts, "
        "or at the revision that --target names.",
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
        help="Revision the code is written for, if not the head; may be repeated. Others are as "
        "`targets` in [tool.statemigrate] of pyproject.toml says.",
    )
    return option(command)


def _targets(
    ctx: click.Context,
    parameter: click.Parameter,  # noqa: ARG001
    pairs: tuple[str, ...],
) -> dict[str, str]:
    split = [pair.partition("=") for pair in pairs]
    for store, _, revision in split:
        if not store or not revision:
            raise click.UsageError("--target takes STORE=REVISION, as in auctions=base.")
    ctx.meta[TARGETS_SAID] = options = {store: revision for store, _, revision in split}
    return {**configuration().targets, **options}


def _options(envvar: str | None) -> list[Callable[[Command], Command]]:
    option = partial(click.option, expose_value=False)
    return [
        option(
            "--migrations",
            callback=_remember,
            metavar="DIR",
            envvar=envvar,
            show_envvar=envvar is not None,
            help="Folder of the migration scripts.  [default: `migrations` in [tool.statemigrate] "
            "of pyproject.toml, else migrations]",
        ),
        option("--json", is_flag=True, callback=_remember, help="Print JSON for machines."),
        option(
            "--debug", is_flag=True, callback=_remember, help="Print a traceback with an error."
        ),
        option(
            "--values/--no-values",
            default=None,
            callback=_show_values,
            help="Whether keys and values of state are shown; no for STATEMIGRATE_NO_VALUES=1, or "
            "`values = false` in [tool.statemigrate] of pyproject.toml.  [default: shown]",
        ),
    ]


def require_values(verb: str) -> None:
    """Raise `click.UsageError` where ``verb`` could do nothing without showing values."""
    if values_hidden():
        raise click.UsageError(
            f"{verb} shows keys and values, which are hidden here. Add --values."
        )


def _show_values(ctx: click.Context, parameter: click.Parameter, value: bool | None) -> None:  # noqa: ARG001
    root = ctx.find_root()
    if value is None and ctx is root and NO_VALUES not in os.environ:
        value = configuration().values
    if value is None:
        return
    # In the environment: what starts from here, Spark and its workers, knows it too.
    before = os.environ.get(NO_VALUES)
    root.call_on_close(partial(_set_environment, before))
    _set_environment("0" if value else "1")


def configuration() -> Configuration:
    """What pyproject.toml of the working directory says; what is wrong with it is bad usage."""
    try:
        return configured()
    except ConfigurationError as error:
        raise click.UsageError(error.headline) from error


def _set_environment(value: str | None) -> None:
    if value is None:
        os.environ.pop(NO_VALUES, None)
    else:
        os.environ[NO_VALUES] = value


def _remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    root = ctx.find_root()
    settings = root.ensure_object(Settings)
    ctx.obj = settings
    if ctx is root and parameter.name == "migrations" and value is None:
        value = configuration().migrations
    if value is not None and value is not False and parameter.name is not None:
        setattr(settings, parameter.name, value)


def file_to_write(
    ctx: click.Context,  # noqa: ARG001
    parameter: click.Parameter,
    path: str | None,
) -> str | None:
    """Refuse, before any work is done, a file that could not be written in the end."""
    if path is None:
        return None
    place = Path(path)
    if not place.parent.is_dir():
        raise click.BadParameter(f"there is no directory {place.parent}", param=parameter)
    if place.is_dir():
        raise click.BadParameter(f"{path} is a directory", param=parameter)
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        raise click.BadParameter(f"{path} cannot be written", param=parameter)
    return path
