"""The complements of a store's values: a family of their own, under the keys of the values.

Each has what scripts have left out of the value that is there under the same key, in whichever
family it is. A value without one has no entry.
"""

from __future__ import annotations

from typing import Any

from statemigrate.errors import CheckpointError
from statemigrate.families import Family, Key, Span
from statemigrate.formats import Struct, Value
from statemigrate.lenses import Complement

REVISION = "complement"
"""In the place of a revision, in the name of the family; no script can have it."""
FORMAT = Struct("complement BINARY NOT NULL")


class Complements:
    """The complements of one store, over the family that an engine opened for them."""

    def __init__(self, family: Family[Value]) -> None:
        self.family = family

    def get(self, key: Key) -> Complement:
        """The complement of the value under a key. Raises CheckpointError for damaged bytes."""
        stored = self.family.get(key)
        if stored is None:
            return Complement()
        try:
            return Complement.from_bytes(stored["complement"])
        except CheckpointError as error:
            raise error.but(family=self.family.name) from error.__cause__

    def put(self, key: Key, complement: Complement) -> None:
        """Write the complement of the value under a key; an empty one is no entry."""
        if complement:
            self.family.put(key, {"complement": complement.to_bytes()})
        else:
            self.delete(key)

    def delete(self, key: Key) -> None:
        """Remove the complement of the value under a key, if there is one."""
        if self.family.contains(key):
            self.family.delete(key)

    def clear(self, span: Span) -> None:
        """Remove those of all keys of a span."""
        keys: list[Any] = [key for key, _ in self.family.scan(span)]
        for key in keys:
            self.family.delete(key)
