"""Whether code is only looked at: then nothing is compared with a checkpoint when it is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LOOKING: ContextVar[bool] = ContextVar("statemigrate_looking", default=False)


@contextmanager
def only_looking() -> Iterator[None]:
    """For the length of a block, what `migrated` marks is compared with no checkpoint."""
    token = _LOOKING.set(True)
    try:
        yield
    finally:
        _LOOKING.reset(token)


def is_only_looking() -> bool:
    """Whether this is within `only_looking`."""
    return _LOOKING.get()
