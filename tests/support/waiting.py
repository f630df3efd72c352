"""What comes a little later, waited for as long as a slow machine may take."""

import time
from collections.abc import Callable

_PATIENCE = 120  # seconds


def eventually(condition: Callable[[], object]) -> None:
    """Return as soon as the condition holds; fail where it never does."""
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
