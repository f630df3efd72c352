"""`new`: a script to be filled in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from statemigrate.formats import Format
from statemigrate.migration import Question
from statemigrate.scripts import ScriptFolder


@dataclass(frozen=True)
class NewScript:
    """A script that was written; ``questions`` are to be answered in it before it is used."""

    store: str
    path: Path
    is_baseline: bool
    questions: tuple[Question, ...] = ()


def new(
    store: str,
    message: str,
    *,
    old: Format | None = None,
    new: Format | None = None,
    baseline: bool = False,
    migrations: str | Path = "migrations",
) -> NewScript:
    """Write a script on the store's newest one, or its first.

    ``old`` is filled in from the newest script's ``new``, and otherwise left open, as ``new`` and
    ``upgrade`` are. With ``baseline``, for a store without scripts, it only records ``new``, the
    format that the state has today; so it does where only ``new`` is given and no script is there
    to take ``old`` from, and the result says so. Raises `LineageError` if ``old`` is not the newest
    format or a baseline would not come first, and `ScriptError` for what is no folder of scripts.
    """
    folder = ScriptFolder(migrations)
    scripts = folder.survey()
    is_first = store not in scripts.stores
    baseline = baseline or (is_first and new is not None and old is None)
    path = folder.new(store, message, old=old, new=new, baseline=baseline, scripts=scripts)
    return NewScript(store, path, baseline)
