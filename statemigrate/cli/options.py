"""The options every verb has, before or after its name, and those that several share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from statemigrate.configuration import (
    Configuration,
    ConfigurationError,
    NamedCheckpoint,
    configured,
)
from statemigrate.errors import NO_VALUES, values_hidden

Command = TypeVar("Command", bound=Callable[..., Any])
CHECKPOINT = "STATEMIGRATE_CHECKPOINT"
"""The environment variable that names the checkpoint."""
_CHECKPOINT_HELP = (
    "Checkpoint directory of the query, or its name in pyproject.toml.  "
    f"[default: {CHECKPOINT}, else `checkpoint` in [tool.statemigrate] of pyproject.toml]"
)
_PLACE = "statemigrate.place"
ALL = "statemigrate.all"
"""In a context of which the checkpoints are all that have a name."""
_TARGETS = "statemigrate.targets"


@dataclass
class Settings:
    """What the shared options say."""

    migrations: str = "migrations"
    json: bool = False
    debug: bool = False
    operator: int | None = None


def shared_options(envvar: str | None = None) -> Callable[[Command], Command]:
    """Give a command what every verb has; the function takes it as Settings.

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
        "--checkpoint", metavar="PATH", callback=_some_checkpoint, help=_CHECKPOINT_HELP
    )
    return option(as_configured(command))


def checkpoint_or(other: str) -> Callable[[Command], Command]:
    """Give a command --checkpoint; nothing is said of it where the eager option ``other`` is."""

    def named(ctx: click.Context, parameter: click.Parameter, option: str | None) -> str | None:  # noqa: ARG001
        return option or (None if ctx.params.get(other) else configured_checkpoint())

    def decorate(command: Command) -> Command:
        option = click.option("--checkpoint", metavar="PATH", callback=named, help=_CHECKPOINT_HELP)
        return option(as_configured(command))

    return decorate


def _some_checkpoint(ctx: click.Context, parameter: click.Parameter, option: str | None) -> str:
    found = option or configured_checkpoint()
    if found is None:
        raise click.MissingParameter(ctx=ctx, param=parameter)
    return found


def checkpoint_named(command: Command) -> Command:
    """Give a command --checkpoint, which may also be its one argument."""
    argument = click.argument(
        "place",
        metavar="[CHECKPOINT]",
        required=False,
        expose_value=False,
        is_eager=True,
        callback=_place,
    )
    option = click.option(
        "--checkpoint", metavar="PATH", callback=_one_checkpoint, help=_CHECKPOINT_HELP
    )
    return argument(option(as_configured(command)))


def as_configured(command: Command) -> Command:
    """Give a command the path of a checkpoint that was named, and what is said of it."""

    @wraps(command)
    def call(*arguments: Any, **given: Any) -> Any:
        named = configuration().checkpoints.get(given["checkpoint"] or "")
        if named is not None:
            given |= _said_of(named, given)
        return command(*arguments, **given)

    return cast("Command", call)


def _said_of(named: NamedCheckpoint, given: Mapping[str, Any]) -> dict[str, Any]:
    settings = click.get_current_context().find_object(Settings)
    if settings is not None and settings.operator is None:
        settings.operator = named.operator
    found: dict[str, Any] = {"checkpoint": named.path}
    if "targets" in given:
        options = click.get_current_context().meta.get(_TARGETS, {})
        found["targets"] = {**given["targets"], **named.targets, **options}
    return found


def _place(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:  # noqa: ARG001
    ctx.meta[_PLACE] = value


def _one_checkpoint(
    ctx: click.Context,
    parameter: click.Parameter,  # noqa: ARG001
    option: str | None,
) -> str:
    argument = ctx.meta.get(_PLACE)
    if ALL in ctx.meta and not (argument or option):
        return ""
    found = argument or option or configured_checkpoint()
    if found is None or (argument and option):
        raise click.UsageError("Name one checkpoint: CHECKPOINT, or --checkpoint PATH.")
    return found


def configured_checkpoint() -> str | None:
    """The checkpoint that commands are about where none is named."""
    return os.environ.get(CHECKPOINT) or configuration().checkpoint


def all_option(command: Command) -> Command:
    """Give a command --all, for every checkpoint that has a name; the function takes ``every``."""
    option = click.option(
        "--all",
        "every",
        is_flag=True,
        is_eager=True,
        callback=_every,
        help="Every checkpoint that has a name in pyproject.toml.",
    )
    return option(command)


def _every(ctx: click.Context, parameter: click.Parameter, value: bool) -> bool:  # noqa: ARG001
    if value:
        ctx.meta[ALL] = True
        if not configuration().checkpoints:
            raise click.UsageError(
                "--all needs names: [tool.statemigrate.checkpoints] of pyproject.toml has none."
            )
    return value


def accept_edited_option(command: Command) -> Command:
    """Give a command --accept-edited; the function takes ``accept_edited``, revisions."""
    option = click.option(
        "--accept-edited",
        metavar="REVISION",
        multiple=True,
        help="Applied script that was corrected since, as in accept_edited= of the query.",
    )
    return option(command)


def operator_option(command: Command) -> Command:
    """Give a command --operator, which Settings keep."""
    option = click.option(
        "--operator",
        metavar="NUMBER",
        type=click.IntRange(min=0),
        expose_value=False,
        callback=_remember,
        help="Spark's number of the stateful operator, where a query has several.",
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
    ctx.meta[_TARGETS] = options = {store: revision for store, _, revision in split}
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
        raise click.UsageError(error.summary) from error


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
