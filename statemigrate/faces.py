"""The face of a room: the names that other rooms import from it, loaded when one asks for them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType


class Face(ModuleType):
    """A package whose public names load their module when they are asked for."""

    _homes: Mapping[str, str]

    def __getattr__(self, name: str) -> object:
        home = self._homes.get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        # Nothing is stored here: what a test puts in the place of a name is found through its face.
        module = sys.modules.get(home)
        # Importing it again waits for a thread that is at it; a command asks a thousand times.
        if module is None or not hasattr(module, name):
            module = import_module(home)
        return getattr(module, name)

    def __setattr__(self, name: str, value: object) -> None:
        # Python makes a module that is imported an attribute of its package. One that has the name
        # of a function would be found then in the function's place.
        if not (name in self._homes and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self._homes)


def make_face(package: str, names: Mapping[str, str], kind: type[Face] = Face) -> None:
    """Make a package that is being imported the face of the modules in it.

    ``names`` has by module, relative to the package, the names that it gives, with blanks between
    them. Type checkers read the same names as imports: under ``if TYPE_CHECKING``. This
    call is in its ``else``.
    """
    module = sys.modules[package]
    module.__dict__["_homes"] = {
        name: f"{package}.{home}" for home, given in names.items() for name in given.split()
    }
    module.__class__ = kind
