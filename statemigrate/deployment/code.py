"""The user's code as a command names it: MODULE:OBJECT.

The object of the user's code that a command gets as MODULE:OBJECT.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.deployment.stored import Call, DeploymentSettings
from statemigrate.errors import CodeError, StatemigrateError

if TYPE_CHECKING:
    from statemigrate.deployment.store_plan import StorePlan


def named_object(reference: str) -> Any:
    """The object that ``MODULE:OBJECT`` names, imported as ``python -m`` would from here.

    Raises `CodeError`.
    """
    module_name, separator, name = reference.partition(":")
    if not (separator and module_name and name):
        raise CodeError(
            "SM-CODE-002",
            f"{reference} names no object",
            expected="MODULE:OBJECT, as in pipeline.totals:Totals",
            found=reference,
            next_action="name the module and the object in it",
            reference=reference,
        )
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as cause:
        raise CodeError(
            "SM-CODE-003",
            f"{reference} cannot be imported",
            expected="a module that imports, with an object of that name",
            found=f"{type(cause).__name__}: {cause}",
            next_action="run it from the folder that `import` starts at, with everything installed "
            "that the module needs",
            reference=reference,
        ) from cause
    return found


# Whether code is only looked at: then nothing is compared with a checkpoint when it is made.


@dataclass(frozen=True)
class Looking:
    """A look at code: the checkpoint that it gets, and what it asks of functions of ours.

    ``calls`` are those that declare an operator. ``pages`` has the number of pages by the name of
    an operator, where the code gives one. ``functions`` are those of ``applyInPandasWithState`` by
    their stores: how the values are read and written, or why they cannot be. ``variables`` are
    those of processors by their stores, if scripts lead to what the code declares.
    """

    checkpoint: str | None = None
    calls: set[Call] = field(default_factory=set)
    pages: dict[str, int] = field(default_factory=dict)
    functions: dict[str, StorePlan | StatemigrateError] = field(default_factory=dict)
    variables: dict[str, StorePlan] = field(default_factory=dict)


_LOOKING: ContextVar[Looking | None] = ContextVar("statemigrate_looking", default=None)


@contextmanager
def only_looking(checkpoint: str | None = None) -> Iterator[Looking]:
    """For the length of a block, what `migrated` marks is compared with no checkpoint.

    With a ``checkpoint``, `with_backfill` and `paged` take that one for the query's, whichever the
    code names: code that is tried out leaves no trace in the checkpoint that it is written for.
    """
    looking = Looking(checkpoint)
    token = _LOOKING.set(looking)
    try:
        yield looking
    finally:
        _LOOKING.reset(token)


@dataclass(frozen=True)
class Copy:
    """A copy of a checkpoint that code runs on, and the revisions that it is deployed with.

    ``named`` are the checkpoints that the code has named to functions of ours.
    """

    checkpoint: str
    deployed: Mapping[str, str] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)


_COPY: ContextVar[Copy | None] = ContextVar("statemigrate_copy", default=None)


@contextmanager
def running_on_copy(copy: Copy) -> Iterator[None]:
    """For the length of a block, code that names a checkpoint is made for a copy of it.

    Its values migrate when they are used. It has no backfill source, and is not compared with the
    record of the last start: it is run to see what it does.
    """
    token = _COPY.set(copy)
    try:
        yield
    finally:
        _COPY.reset(token)


def is_on_copy() -> bool:
    """Whether this is within `running_on_copy`."""
    return _COPY.get() is not None


def is_only_looking() -> bool:
    """Whether this is within `only_looking`."""
    return _LOOKING.get() is not None


def is_tried() -> bool:
    """Whether code is only looked at, or run on a copy: the query itself does not start."""
    return is_only_looking() or is_on_copy()


def query_checkpoint(named: str) -> str:
    """The checkpoint that code works on which names this one: another one while it is tried out."""
    looking, copy = _LOOKING.get(), _COPY.get()
    if copy is not None:
        copy.named.add(named)
    if looking is not None and looking.checkpoint is not None:
        return looking.checkpoint
    return named if copy is None else copy.checkpoint


def settings_for_query(settings: DeploymentSettings) -> DeploymentSettings:
    """The settings with the checkpoint of the query, and the revisions that are deployed there."""
    copy = _COPY.get()
    if settings.checkpoint is not None:
        settings = replace(settings, checkpoint=query_checkpoint(settings.checkpoint))
    return settings if copy is None else replace(settings, deployed=copy.deployed)


def note_call(call: Call) -> None:
    """Note a call of ours in code that is only looked at."""
    looking = _LOOKING.get()
    if looking is not None:
        looking.calls.add(call)


def note_pages(operator: str, pages: int) -> None:
    """Note the number of pages that code gives for an operator, if it is only looked at."""
    looking = _LOOKING.get()
    if looking is not None:
        looking.pages[operator] = pages


def note_function(store: str, found: StorePlan | StatemigrateError) -> None:
    """Note what a function keeps, if its code is only looked at."""
    looking = _LOOKING.get()
    if looking is not None:
        looking.functions[store] = found


def note_variable(plan: StorePlan) -> None:
    """Note how a processor reads and writes a store, if its code is only looked at."""
    looking = _LOOKING.get()
    if looking is not None:
        looking.variables[plan.declared.store] = plan
