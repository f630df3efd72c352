"""One migration script, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from statemigrate.formats import Format, Value

BASE = "base"
"""The revision of state that was written before the store's first migration."""

TimeToLive = Literal["keep", "restart"]
"""What migrating does to a value that expires: it keeps its time, or its time starts again."""

Direction = Literal["upgrade", "downgrade"]
"""Which of a script's two functions: the way to its revision, or back from it."""

Transform = Callable[..., Value]
"""Takes a plain value by field name and returns one; it may change the value it was given.

One that has a second parameter takes the value's key too, a dict of the key's columns.
"""

Rekey = Callable[[Value, Value], Iterable[Any]]
"""Takes a key and its value as they were before the script, and changes neither.

Gives the new keys, none to drop the entry: a dict, or an iterable of dicts. The value under each is
what `upgrade` makes; an item that is a pair of a key and a value in the format `new` has its own.
"""

Merge = Callable[[Value, Value], Value]
"""Makes one value in the format `new` of two that meet under one key, in whatever order."""

TableTransform = Callable[[Any], Any]
"""Does with many entries what `upgrade` and `rekey` do with one.

It takes and returns a ``pyarrow.Table`` with the columns ``key`` and ``value``, both structs.
"""


@dataclass(frozen=True)
class ExampleValue:
    """A plain value in the format `old`, and what `upgrade` makes of it where a script says so.

    A baseline has none of both: its examples are values in the format `new`. ``key`` is that of
    the value, for functions that take it.
    """

    value: Value
    expected: Value | None = None
    key: Value | None = None


@dataclass(frozen=True)
class Question:
    """What a generated script leaves open: the text of a comment in ``line``, counted from 1.

    Only `statemigrate check` refuses such a script; it runs.
    """

    line: int
    text: str


@dataclass(frozen=True)
class Migration:
    """What one script says: it leads from ``down_revision`` to ``revision``.

    ``old`` is None in a *baseline*: the first script of a store, which only records the format the
    state has today and so has nothing to transform. ``downgrade`` is None where the way back does
    not exist. ``checksum`` is 64 hex characters over what the script's code says, ``text_checksum``
    over its text, as earlier releases recorded it; ``path`` is for display.
    `statemigrate check` tries the ``examples`` and refuses open ``questions``. ``drops`` are the
    paths of fields that ``upgrade`` or ``downgrade`` loses on purpose.

    ``new_key``, ``rekey``, ``merge`` and ``upgrade_table`` are for a rewrite alone; in a baseline
    ``new_key`` records the key that the state has. ``upgrade`` may be None where there is an
    ``upgrade_table``, and where a ``rekey`` gives all values or leaves them as they are.
    """

    revision: str
    down_revision: str | None
    store: str
    old: Format | None
    new: Format
    upgrade: Transform | None = None
    downgrade: Transform | None = None
    message: str = ""
    checksum: str = ""
    path: str = ""
    time_to_live: TimeToLive = "keep"
    examples: tuple[ExampleValue, ...] = ()
    questions: tuple[Question, ...] = ()
    drops: tuple[str, ...] = ()
    new_key: Format | None = None
    rekey: Rekey | None = None
    merge: Merge | None = None
    upgrade_table: TableTransform | None = None
    text_checksum: str | None = None

    def was_applied_as(self, recorded: str) -> bool:
        """Whether a checksum that was recorded when a script was applied is this one's."""
        return recorded in (self.checksum, self.text_checksum)

    @property
    def makes_values(self) -> bool:
        """Whether it says what becomes of every value: with a function, or as the format stays."""
        if self.upgrade or self.upgrade_table or self.rekey:
            return True
        same = self.old is not None and self.old.fingerprint == self.new.fingerprint
        return self.merge is not None and same

    @property
    def is_baseline(self) -> bool:
        """Whether the script only records a format."""
        return self.old is None

    @property
    def is_reversible(self) -> bool:
        """Whether values can be taken back to the format before."""
        return self.downgrade is not None

    @property
    def where(self) -> str:
        """The script as an error message names it: its path, or else its revision."""
        return self.path or f"revision {self.revision}"
