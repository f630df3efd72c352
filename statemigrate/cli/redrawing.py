"""What is shown again and again: in one place of a terminal, elsewhere line below line."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import RenderableType
from rich.live import Live

from statemigrate.cli.output import console

Draw = Callable[[RenderableType], None]


@contextmanager
def redrawn() -> Iterator[Draw | None]:
    """A function that draws over what it drew before; None where there is no place for that.

    What is higher than the terminal is cut at its end while it is drawn again, and whole at last.
    """
    screen = console(soft_wrap=False)
    if not screen.is_terminal or screen.is_dumb_terminal:
        yield None
        return
    with Live(
        console=screen,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="ellipsis",
    ) as live:

        def draw(frame: RenderableType) -> None:
            with _whole():
                live.update(frame, refresh=True)

        yield draw


@contextmanager
def _whole() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block: half a frame cannot be drawn over."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
