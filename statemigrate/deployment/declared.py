"""What the code asks for: its settings, and the state variables its ``init`` declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from statemigrate.formats import Format

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Kind = Literal["value", "list", "map"]
SETTINGS = "__statemigrate__"


@dataclass(frozen=True)
class Settings:
    """What `migrated` was given: the scripts' folder, targets by store, and how reads behave.

    What follows ``accept_edited`` is for Spark's own state alone.
    """

    migrations: str | Path = "migrations"
    targets: Mapping[str, str] = field(default_factory=dict)
    write_on_read: bool = True
    accept_edited: tuple[str, ...] = ()
    checkpoint: str | None = None
    on_error: Literal["raise", "quarantine"] = "raise"
    retire_drained: bool = True
    operator: int | None = None


@dataclass(frozen=True)
class Declared:
    """A state variable as the processor's ``init`` asks for it.

    ``given`` is what it says of the values. Where no code is at hand it is the format that code
    would be written for, so that PySpark is not loaded for its types before somebody asks.
    """

    store: str
    kind: Kind
    given: StructType | Format
    user_key: StructType | None = None
    ttl: int | None = None
    """Time to live in milliseconds; None keeps values for ever."""

    @property
    def schema(self) -> StructType:
        """The type of the values, of list state that of an element."""
        return self.given.struct_type() if isinstance(self.given, Format) else self.given
