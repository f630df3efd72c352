"""Histories of queries on Spark's own state: deployments, kills, lost files, copies, reverts."""

from __future__ import annotations

import os
import shutil
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.sessions import use_folders

from soak.runner import Outcome

if TYPE_CHECKING:
    from history import History

_SHRINKING = 180  # seconds


class NativeSoak:
    """Histories below a folder, all in one session of Spark.

    ``state`` is where a query's state lives: "native", "embedded" or "paged". ``HISTORY`` in the
    environment, a line that a failure was printed with, is played in place of them all.
    """

    def __init__(self, folder: Path, state: str = "native") -> None:
        use_folders("histories", "native", "spark")
        from session import Session

        self._state = state
        self._folder = folder
        self._session: Any = Session(folder / "warehouse")

    def history(self, seed: int) -> Outcome:
        """See `soak.runner.Engine`."""
        made = self._made(seed)
        figures, failure = self._played(made)
        if failure is not None:
            failure = self._shortened(made, failure)
        return Outcome(figures.lives, figures.kills, figures.values, failure)

    def close(self) -> None:
        """See `soak.runner.Engine`."""
        self._session.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _made(self, seed: int) -> History:
        import generate
        from history import History

        line = os.environ.get("HISTORY")
        if line:
            return History.of(line)
        if self._state == "native":
            return generate.native_history(seed)
        made = generate.embedded_history if self._state == "embedded" else generate.paged_history
        return made(seed)

    def _played(self, made: History) -> tuple[Any, str | None]:
        from embedded_lives import EmbeddedLives
        from native_lives import NativeLives
        from paged_lives import PagedLives
        from trial import Figures, WrongError, run

        figures = Figures()
        engines = {"native": NativeLives, "embedded": EmbeddedLives, "paged": PagedLives}
        try:
            run(self._session, self._folder / "history", made, figures, engines[self._state])
        except WrongError as error:
            return figures, str(error)
        except Exception:
            return figures, traceback.format_exc()
        return figures, None

    def _shortened(self, made: History, failure: str) -> str:
        from shrinking import shrunk

        kind = failure.split(maxsplit=4)[:3]
        short = shrunk(made, lambda each: self._fails_as(each, kind), _SHRINKING)
        _, again = self._played(short)
        return f"{failure}\n{made.text()}\nshortened to\n{short.text()}\nwhich gives {again}"

    def _fails_as(self, made: History, kind: list[str]) -> bool:
        _, failure = self._played(made)
        return failure is not None and failure.split(maxsplit=4)[:3] == kind


def engine(folder: Path) -> NativeSoak:
    """See `soak.runner`."""
    return NativeSoak(folder)
