"""Which checkpoint a command is about: an option, an argument, a name, or all that have one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from statemigrate.cli.options import TARGETS_SAID, Settings, configuration
from statemigrate.configuration import NamedCheckpoint
from statemigrate.errors import CheckpointError, did_you_mean

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


def checkpoint_named(command: Command) -> Command:
    """Give a command CHECKPOINT, or --checkpoint, without which it cannot run."""
    return _positional(command, _one_checkpoint)


def checkpoint_or(other: str) -> Callable[[Command], Command]:
    """Give a command the same; none is needed where the eager option ``other`` is."""

    def named(ctx: click.Context, parameter: click.Parameter, option: str | None) -> str | None:  # noqa: ARG001
        found = _said(ctx, option)
        return found or (None if ctx.params.get(other) else configured_checkpoint())

    return lambda command: _positional(command, named)


def checkpoint_if_said(text: str) -> Callable[[Command], Command]:
    """Give a command the same, which does without one as well; ``text`` is what it is for."""

    def named(ctx: click.Context, parameter: click.Parameter, option: str | None) -> str | None:  # noqa: ARG001
        return _said(ctx, option)

    return lambda command: _positional(command, named, text)


def checkpoint_and_key(command: Command) -> Command:
    """Give a command [CHECKPOINT] and KEY, which has several words; the function takes both.

    What is the checkpoint does not depend on what is in the words: the first of them is where no
    option, variable or configuration names one.
    """

    @wraps(command)
    def call(*arguments: Any, words: tuple[str, ...], **given: Any) -> Any:
        checkpoint = given.pop("checkpoint") or configured_checkpoint()
        if checkpoint is None:
            checkpoint, words = words[0], words[1:]
        if not words:
            raise click.UsageError(
                "Name the checkpoint and a key: STORE CHECKPOINT KEY, or STORE KEY --checkpoint "
                "PATH."
            )
        return as_configured(command)(*arguments, checkpoint=checkpoint, key=words, **given)

    argument = click.argument("words", metavar="[CHECKPOINT] KEY...", nargs=-1, required=True)
    option = click.option("--checkpoint", metavar="PATH", help=_CHECKPOINT_HELP)
    return cast("Command", argument(option(call)))


def _positional(command: Command, callback: Any, text: str = _CHECKPOINT_HELP) -> Command:
    argument = click.argument(
        "place",
        metavar="[CHECKPOINT]",
        required=False,
        expose_value=False,
        is_eager=True,
        callback=_place,
    )
    option = click.option("--checkpoint", metavar="PATH", callback=callback, help=text)
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
            given |= _configured_for(named, given)
        try:
            return command(*arguments, **given)
        except CheckpointError as error:
            close = _close_name(error, given["checkpoint"])
            if not close:
                raise
            raise error.but(next_action=f"{error.next_action}{close}") from error

    return cast("Command", call)


def _close_name(error: CheckpointError, said: str | None) -> str:
    """Of a path that is not there, the name of a checkpoint that is like it, as text."""
    if said is None or error.data.get("path") != said or Path(said).exists():
        return ""
    return did_you_mean(said, configuration().checkpoints)


def _configured_for(named: NamedCheckpoint, given: Mapping[str, Any]) -> dict[str, Any]:
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


def _said(ctx: click.Context, option: str | None) -> str | None:
    """The checkpoint that the command's words name; None where none does."""
    argument: str | None = ctx.meta.get(_PLACE)
    if argument and option:
        raise click.UsageError(_ONE)
    return argument or option


def checkpoint_said() -> bool:
    """Whether the command's words have a CHECKPOINT."""
    return bool(click.get_current_context().meta.get(_PLACE))


_ONE = "Name one checkpoint: CHECKPOINT, or --checkpoint PATH."


def _one_checkpoint(
    ctx: click.Context,
    parameter: click.Parameter,  # noqa: ARG001
    option: str | None,
) -> str:
    said = _said(ctx, option)
    if ALL in ctx.meta and not said:
        return ""
    found = said or configured_checkpoint()
    if found is None:
        raise click.UsageError(_ONE)
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


def match_option(command: Command) -> Command:
    """Give a command --match, for some of --all; `named_by` has those that are meant."""
    option = click.option(
        "--match",
        metavar="GLOB",
        help="With --all: only checkpoints whose name is like this, as in 'orders-*'.",
    )
    return option(command)


def named_by(match: str | None) -> tuple[NamedCheckpoint, ...]:
    """The checkpoints that have a name, or whose name is like ``match``."""
    named = configuration().checkpoints.values()
    found = tuple(each for each in named if fnmatchcase(each.name, match or "*"))
    if not found:
        known = ", ".join(each.name for each in named)
        raise click.UsageError(f"No checkpoint has a name like {match}: there are {known}.")
    return found


def _every(ctx: click.Context, parameter: click.Parameter, value: bool) -> bool:  # noqa: ARG001
    if value:
        ctx.meta[ALL] = True
        if not configuration().checkpoints:
            raise click.UsageError(
                "--all needs names: [tool.statemigrate.checkpoints] of pyproject.toml has none."
            )
    return value
