"""Looking at every checkpoint that has a name: what is wrong with one hides no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from statemigrate.configuration import NamedCheckpoint
from statemigrate.errors import StatemigrateError

Found = TypeVar("Found")
Named = Mapping[str, str | Path] | Iterable[NamedCheckpoint]
"""Checkpoints that have a name: their paths by it, or with targets of their own."""


def named_checkpoints(checkpoints: Named) -> tuple[NamedCheckpoint, ...]:
    """The checkpoints in their order."""
    if isinstance(checkpoints, Mapping):
        return tuple(NamedCheckpoint(name, str(path)) for name, path in checkpoints.items())
    return tuple(checkpoints)


def look_at_each(
    checkpoints: Iterable[NamedCheckpoint],
    look: Callable[..., Found],
    targets: Mapping[str, str] | None,
    **shared: Any,
) -> Iterator[tuple[NamedCheckpoint, Found | None, StatemigrateError | None]]:
    """What ``look`` finds at each checkpoint, or why it finds nothing.

    It is given the path, the checkpoint's own targets over ``targets``, its operator, and what is
    ``shared``.
    """
    for named in checkpoints:
        own = {"targets": named.targets_over(targets), "operator": named.operator}
        found = found_or_error(named, partial(look, named.path, **own, **shared))
        if isinstance(found, StatemigrateError):
            yield named, None, found
        else:
            yield named, found, None


def found_or_error(named: NamedCheckpoint, look: Callable[[], Found]) -> Found | StatemigrateError:
    """What a look at a checkpoint finds, or what is told in its place."""
    try:
        return look()
    except StatemigrateError as error:
        return error
    except OSError as error:
        return StatemigrateError(
            "SM-CONFIG-001", f"{named.path} cannot be read: {error}", path=named.path
        )
