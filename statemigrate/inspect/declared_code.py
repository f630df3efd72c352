"""What the user's code declares, found without running a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import unwrap
from typing import Any

from statemigrate.deployment import (
    SETTINGS,
    Declared,
    DeploymentSettings,
    named_object,
    only_looking,
)
from statemigrate.errors import (
    CodeError,
    StatemigrateError,
)
from statemigrate.native import MigratedFunction
from statemigrate.processor import Listening, declared_variables
from statemigrate.quoting import argument


@dataclass(frozen=True)
class Code:
    """What an object of the user's code says of its state.

    ``declared`` are a processor's state variables; a function for ``applyInPandasWithState`` has
    none, and only names its ``store``. ``targets`` are those that `migrated` was given.
    """

    declared: tuple[Declared, ...]
    targets: Mapping[str, str]
    store: str | None = None


def code_in(reference: str) -> Code:
    """What ``MODULE:OBJECT`` says of its state.

    ``OBJECT`` is a ``StatefulProcessor``, an instance, or a class that is made without arguments;
    or a function that `migrated` was given with ``store=``. The module is imported as
    ``python -m`` would from the current directory; of a processor only ``init`` runs, without
    `migrated`'s checks, so neither a query nor a checkpoint is needed.

    Raises `CodeError`.
    """
    with only_looking():
        return code_of(named_object(reference), reference)


def code_of(found: Any, reference: str) -> Code:
    """What an object says of its state that the code named ``reference`` is, or has made.

    Raises as `code_in`.
    """
    settings = getattr(found, SETTINGS, DeploymentSettings())
    if isinstance(found, MigratedFunction):
        return Code((), settings.targets, found.store)
    return Code(_declared(reference, found), settings.targets)


def declared_in(reference: str) -> tuple[Declared, ...]:
    """The state variables that a processor declares in its ``init``; see `code_in`."""
    found = code_in(reference)
    if found.store is None:
        return found.declared
    raise _error(
        "SM-CODE-004",
        reference,
        "declares no format",
        expected="a StatefulProcessor, whose init declares the formats of its state",
        found="a function, whose state has the format of its target",
        next_action=f"write its next script by hand: `statemigrate new {argument(found.store)} "
        "-m MESSAGE`",
    )


def _declared(reference: str, found: Any) -> tuple[Declared, ...]:
    if not isinstance(found, type) and not hasattr(found, "handleInputRows"):
        raise _not_marked(reference, found)
    try:
        return declared_variables(_Bare(_instance(found)), Listening)
    except StatemigrateError:
        raise
    except Exception as cause:
        raise _error(
            "SM-CODE-005",
            reference,
            "declares no state that could be seen",
            expected="a StatefulProcessor whose __init__ takes no arguments, or an instance of one",
            found=f"{type(cause).__name__}: {cause}",
            next_action="name an instance that the module makes, or correct the code",
        ) from cause


def _not_marked(reference: str, found: Any) -> CodeError:
    return _error(
        "SM-CODE-006",
        reference,
        "is no code whose state has migrations",
        expected="a StatefulProcessor, or a function that migrated(..., store=...) was given",
        found=f"a {type(found).__name__}",
        next_action="put @migrated(store=STORE) on a function for applyInPandasWithState, or name "
        "a processor; a function from streams to the result is for `statemigrate rewrite --code`",
    )


class _Bare:
    """A processor's own ``init``, without what a decorator put around it."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    def init(self, handle: Listening) -> None:
        unwrap(type(self._processor).init)(self._processor, handle)


def _instance(found: Any) -> Any:
    if not isinstance(found, type):
        return found
    return _made(found)


def _made(found: Any) -> Any:
    made: Any = object.__new__(found)
    # `migrated` compares with a checkpoint when an instance is made; here nothing is to be read.
    unwrap(found.__init__)(made)
    return made


def _error(
    code: str, reference: str, problem: str, *, expected: object, found: object, next_action: str
) -> CodeError:
    return CodeError(
        code,
        f"{reference} {problem}",
        expected=expected,
        found=found,
        next_action=next_action,
        reference=reference,
    )
