"""Modules that lie beside the scripts, in the scripts' folder or in ``versions``.

A script imports them by their plain names. They travel to the workers by value, as the scripts do:
what is in no one's ``sys.modules`` is taken so by cloudpickle. For that, and so that two folders
may each have a module of one name, they are there only while a script is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import invalidate_caches
from pathlib import Path
from types import ModuleType


@contextmanager
def importable_beside(versions: Path) -> Iterator[frozenset[str]]:
    """Let a script import what lies beside it; gives the names of those modules."""
    folders = [versions.parent.resolve(), versions.resolve()]
    names = _names(folders)
    added, kept = [str(each) for each in folders], sys.dont_write_bytecode
    hidden = _taken_out(names, folders, everyone=True)
    # The folder holds scripts only: nothing is written there.
    sys.path[:0], sys.dont_write_bytecode = added, True
    invalidate_caches()
    try:
        yield names
    finally:
        sys.dont_write_bytecode = kept
        # What a script has added for itself stays.
        for each in filter(sys.path.__contains__, added):
            sys.path.remove(each)
        _taken_out(names, folders, everyone=False)
        sys.modules.update(hidden)


def _names(folders: list[Path]) -> frozenset[str]:
    files = {at.stem for each in folders for at in each.glob("*.py")}
    packages = {at.parent.name for each in folders for at in each.glob("*/__init__.py")}
    return frozenset((files | packages) - set(sys.stdlib_module_names) - {"__init__", "__main__"})


def _taken_out(
    names: frozenset[str], folders: list[Path], *, everyone: bool
) -> dict[str, ModuleType]:
    """Take modules of these names out of ``sys.modules``: everyone's, or those of the folders."""
    chosen = {
        name: module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in names and (everyone or _lies_in(module, folders))
    }
    for name in chosen:
        del sys.modules[name]
    return chosen


def _lies_in(module: ModuleType, folders: list[Path]) -> bool:
    file = getattr(module, "__file__", None)
    return file is None or any(Path(file).resolve().is_relative_to(each) for each in folders)
