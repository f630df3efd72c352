"""The options every verb has, before or after its name, and those that several share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from statemigrate.configuration import (
    Configuration,
    ConfigurationError,
    NamedCheckpoint,
    configured,
)
from statemigrate.errors import (
    IN_TEXTS,
    NO_VALUES,
    SHOWN,
    CheckpointError,
    did_you_mean,
    rows_hidden,
    values_hidden,
)
from statemigrate.quoting import argument

Command = TypeVar("Command", bound=Callable[..., Any])
TARGETS_GIVEN = "statemigrate.targets"
"""In a context, the targets that its options say."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass
class Settings:
    """What the shared options say."""

    migrations: str = "migrations"
    json: bool = False
    debug: bool = False
    operator: int | str | None = None

    def words(self, checkpoint: str) -> str:
        """The same checkpoint and operator in a command."""
        option = "" if self.operator is None else f" --operator {argument(self.operator)}"
        return f"{argument(checkpoint)}{option}"

    def of_one(self, spark: Any, **others: Any) -> dict[str, Any]:
        """How one checkpoint is read, and ``others``: as the library's functions take it."""
        return {
            "migrations": self.migrations,
            "operator": self.operator,
            "spark": spark,
            **others,
        }

    def of_all(self, spark: Any, **others: Any) -> dict[str, Any]:
        """How every checkpoint that has a name is read, each with its own operator."""
        stores = configuration().stores
        return {"migrations": self.migrations, "stores": stores, "spark": spark, **others}


stopped_option = click.option(
    "--stopped",
    is_flag=True,
    help="Confirm that the query is stopped, if its newest batch is not committed.",
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


def chosen_mode(modes: Mapping[str, Collection[str]], usual: Collection[str]) -> str | None:
    """The one among ``modes``, options, that the command is given; None if it is given none.

    Each has the names of the options and arguments that go with it, ``usual`` those that go without
    any. Raises `click.UsageError` for one that does not go with what else is given.
    """
    ctx = click.get_current_context()
    named = {each.name: each for each in ctx.command.params if each.name is not None}
    given = [name for name in named if _is_given(ctx, name)]
    mode = next((each for each in given if each in modes), None)
    allowed = {*_ALWAYS, *(usual if mode is None else {mode, *modes[mode]})}
    for name in given:
        if name in allowed:
            continue
        if mode is not None:
            raise click.UsageError(f"{_shown(named[mode])} excludes {_shown(named[name])}.")
        of = " or ".join(_shown(named[each]) for each, own in modes.items() if name in own)
        raise click.UsageError(f"{_shown(named[name])} needs {of}.")
    return mode


_ALWAYS = ("migrations", "json", "debug", "values", "help")


def _is_given(ctx: click.Context, name: str) -> bool:
    is_typed = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    return is_typed and ctx.params.get(name, True) not in ((), False)


def _shown(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return parameter.human_readable_name
    return next((each for each in parameter.opts if each.startswith("--")), parameter.opts[0])


def accept_edited_option(command: Command) -> Command:
    """Give a command --accept-edited; the function takes ``accept_edited``, revisions."""
    option = click.option(
        "--accept-edited",
        metavar="REVISION",
        multiple=True,
        help="Script that you edited after it was applied, as in accept_edited= of the query.",
    )
    return option(command)


def parsed_operator(text: str) -> int | str:
    """An operator as one types it: Spark's number, or the name of one on pages.

    Raises `click.BadParameter` for what is neither.
    """
    if text.isascii() and text.isdecimal():
        return int(text)
    # As `statemigrate.native.checkpoint.is_name`, without what that needs.
    if not _NAME.fullmatch(text):
        raise click.BadParameter(f"{text!r} is neither a number nor the name of an operator.")
    return text


def operator_option(command: Command) -> Command:
    """Give a command --operator, which Settings keep."""
    option = click.option(
        "--operator",
        metavar="NUMBER|NAME",
        type=parsed_operator,
        expose_value=False,
        callback=_remember,
        help="The stateful operator, if a query has several: Spark's number, or the name in "
        "`paged(operator=)`.",
    )
    return option(command)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --target, --accept-edited, --operator, and what every verb has.

    The function takes the settings first, ``targets`` and ``accept_edited``.
    """
    passed: Callable[..., Any] = click.pass_obj(command)
    return target_option(accept_edited_option(operator_option(shared_options()(passed))))


def wait_option(when: str) -> Callable[[Command], Command]:
    """Give a command ``--wait``; ``when`` says, as a beginning of its help, where it counts."""
    return click.option(
        "--wait",
        type=click.FloatRange(min=0),
        default=5,
        show_default=True,
        metavar="SECONDS",
        help=f"{when}how long to watch for a running query.",
    )


def apply_option(command: Command) -> Command:
    """Give a command ``--apply``, without which it changes nothing."""
    return click.option(
        "--apply", is_flag=True, help="Make the changes.  [default: only show them]"
    )(command)


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
        help="Revision that the code is written for; may be repeated.  [default: `targets` in "
        "[tool.statemigrate] of pyproject.toml, else the head]",
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
    ctx.meta[TARGETS_GIVEN] = options = {store: revision for store, _, revision in split}
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
            help="Whether to show keys and values of state; not with STATEMIGRATE_NO_VALUES=1, or "
            "`values = false` in [tool.statemigrate] of pyproject.toml.  [default: show]",
        ),
    ]


def require_values(verb: str) -> None:
    """Raise `click.UsageError` where ``verb`` could do nothing without showing values."""
    if rows_hidden():
        raise click.UsageError(
            f"{verb} shows keys and values, which are hidden here. Add --values."
        )


def require_all_values(verb: str) -> None:
    """Raise the same also where columns are masked, which ``verb`` does not know."""
    require_values(verb)
    if values_hidden():
        raise click.UsageError(
            f"{verb} writes values as they are, and `mask` of the configuration hides some of them."
        )


def _show_values(ctx: click.Context, parameter: click.Parameter, value: bool | None) -> None:  # noqa: ARG001
    root = ctx.find_root()
    if value is None and ctx is not root:
        return
    before = wanted = os.environ.get(NO_VALUES)
    if value is not None or before is None:
        value = configuration().values if value is None else value
        wanted = None if value is None else "0" if value else "1"
    if configuration().mask and (wanted is None or wanted.lower() in SHOWN):
        wanted = IN_TEXTS
    # In the environment: what starts from here, Spark and its workers, knows it too.
    root.call_on_close(partial(_set_environment, before))
    _set_environment(wanted)


def configured_mask() -> Sequence[str]:
    """The columns that the configuration masks, in whichever of its checkpoints they are."""
    from statemigrate.formats import SharedMask

    found = configuration()
    return SharedMask(found.mask) if len(found.checkpoints) > 1 else found.mask


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


# Which checkpoint a command is about: an option, an argument, a name, or all that have one.


PathOrPaths = TypeVar("PathOrPaths", str, tuple[str, ...])
CHECKPOINT = "STATEMIGRATE_CHECKPOINT"
"""The environment variable that names the checkpoint."""
_CHECKPOINT_HELP = (
    "Checkpoint directory of the query, or its name in pyproject.toml.  "
    f"[default: {CHECKPOINT}, else `checkpoint` in [tool.statemigrate] of pyproject.toml]"
)
_POSITIONAL = "statemigrate.place"
ALL = "statemigrate.all"
"""In a context whose checkpoints are all that have a name."""


def checkpoint_named(command: Command) -> Command:
    """Give a command CHECKPOINT, or --checkpoint, without which it cannot run."""
    return _positional(command, _one_checkpoint)


def checkpoint_or(other: str) -> Callable[[Command], Command]:
    """Give a command the same; none is needed where the eager option ``other`` is."""

    def named(ctx: click.Context, parameter: click.Parameter, option: str | None) -> str | None:  # noqa: ARG001
        found = _chosen_checkpoint(ctx, option)
        return found or (None if ctx.params.get(other) else configured_checkpoint())

    return lambda command: _positional(command, named)


def checkpoint_if(mode: str) -> Callable[[Command], Command]:
    """Give a command the same; one is needed only where the eager option ``mode`` is."""

    def named(ctx: click.Context, parameter: click.Parameter, option: str | None) -> str | None:
        if ctx.params.get(mode):
            return _one_checkpoint(ctx, parameter, option)
        return _chosen_checkpoint(ctx, option)

    return lambda command: _positional(command, named)


def optional_checkpoint(text: str) -> Callable[[Command], Command]:
    """Give a command the same, which does without one as well; ``text`` is what it is for."""

    def named(ctx: click.Context, parameter: click.Parameter, option: str | None) -> str | None:  # noqa: ARG001
        return _chosen_checkpoint(ctx, option)

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
        callback=_remember_positional,
    )
    option = click.option("--checkpoint", metavar="PATH", callback=callback, help=text)
    return argument(option(as_configured(command)))


def named_paths(ctx: click.Context, parameter: click.Parameter, given: Any) -> Any:  # noqa: ARG001
    """The paths of checkpoints that an argument names; what has no name is a path."""
    if given is None:
        return None
    if isinstance(given, tuple):
        return tuple(map(_path_of, given))
    return _path_of(given)


def _path_of(given: str) -> str:
    named = configuration().checkpoints.get(given)
    return given if named is None else named.path


def as_configured(command: Command) -> Command:
    """Give a command the path of a checkpoint that was named, and its settings."""

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


def _close_name(error: CheckpointError, given: str | None) -> str:
    """Of a path that is not there, the name of a checkpoint that is like it, as text."""
    if given is None or error.data.get("path") != given or Path(given).exists():
        return ""
    return did_you_mean(given, configuration().checkpoints)


def _configured_for(named: NamedCheckpoint, given: Mapping[str, Any]) -> dict[str, Any]:
    settings = click.get_current_context().find_object(Settings)
    if settings is not None and settings.operator is None:
        settings.operator = named.operator
    found: dict[str, Any] = {"checkpoint": named.path}
    if "targets" in given:
        options = click.get_current_context().meta.get(TARGETS_GIVEN, {})
        found["targets"] = {**named.targets_over(given["targets"]), **options}
    return found


def _remember_positional(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:  # noqa: ARG001
    ctx.meta[_POSITIONAL] = value


def _chosen_checkpoint(ctx: click.Context, option: str | None) -> str | None:
    """The checkpoint that the command's words name; None where none does."""
    argument: str | None = ctx.meta.get(_POSITIONAL)
    if argument and option:
        raise click.UsageError(_ONE)
    return argument or option


def has_checkpoint_argument() -> bool:
    """Whether the command's words have a CHECKPOINT."""
    return bool(click.get_current_context().meta.get(_POSITIONAL))


_ONE = "Name one checkpoint: CHECKPOINT, or --checkpoint PATH."


def _one_checkpoint(
    ctx: click.Context,
    parameter: click.Parameter,  # noqa: ARG001
    option: str | None,
) -> str:
    given = _chosen_checkpoint(ctx, option)
    if ALL in ctx.meta and not given:
        return ""
    found = given or configured_checkpoint()
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
        help="All checkpoints that have a name in pyproject.toml.",
    )
    return option(command)


def match_option(command: Command) -> Command:
    """Give a command --match, for some of --all; `named_by` has those that are meant."""
    option = click.option(
        "--match",
        metavar="GLOB",
        help="With --all: only checkpoints with a name that matches, as in 'orders-*'.",
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
