"""Which checkpoint a command is about: an option, an argument, a name, or all that have one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

import click

from statemigrate.cli.options import TARGETS_SAID, Settings, configuration
from statemigrate.configuration import NamedCheckpoint

Command = TypeVar("Command", bound=Callable[..., Any])
Places = TypeVar("Places", str, tuple[str, ...])
CHECKPOINT = "STATEMIGRATE_CHECKPOINT"
"""The environment variable that names the checkpoint."""
_CHECKPOINT_HELP = (
    "Checkpoint directory of the query, or its name in pyproject.toml.  "
    f"[default: {CHECKPOINT}, else `checkpoint` in [tool.statemigrate] of pyproject.toml]"
)
_PLACE = "statemigrate.place"
ALL = "statemigrate.all"
"""In a context of which the checkpoints are all that have a name."""


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


def places_named(ctx: click.Context, parameter: click.Parameter, said: Places) -> Places:  # noqa: ARG001
    """The paths of checkpoints that an argument names; what has no name is a path."""
    if isinstance(said, tuple):
        return tuple(map(_path_of, said))
    return _path_of(said)


def _path_of(said: str) -> str:
    named = configuration().checkpoints.get(said)
    return said if named is None else named.path


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
        options = click.get_current_context().meta.get(TARGETS_SAID, {})
        found["targets"] = {**named.targets_over(given["targets"]), **options}
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
