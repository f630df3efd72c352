"""What the key columns of operators mean, as the code that computes them says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from statemigrate.rewrite.windows.kinds import Window


@dataclass(frozen=True)
class KeyMeaning:
    """A key column: its ``name``, what it is computed from, and the windows that it has.

    ``expression`` is over columns of the sources, and the same in each run of the same code.
    ``window`` is None for a column that has none, and for a struct that looks like one and is of
    another making.
    """

    name: str
    expression: str
    window: Window | None = None


Meanings = Mapping[int, tuple[KeyMeaning, ...]]
"""The key columns of operators by their numbers, in the order in which the state has them.

That of a session window comes last.
"""


@dataclass(frozen=True)
class ChangedKey:
    """A key ``column`` of a ``store`` that another expression computes now than did before."""

    store: str
    column: str
    old: str
    new: str

    @property
    def name(self) -> str:
        """What a question about it goes by."""
        return f"{self.store}.{self.column}:computed"


def differs(old: KeyMeaning, new: KeyMeaning) -> bool:
    """Whether a column is computed from something else, be it in the same type."""
    return old.expression != new.expression
