"""What was read of a store in Spark's own state, before any code is compared with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from statemigrate.deployment.declared import Declared, Kind
from statemigrate.deployment.stored import StoredFamily, StoredStore
from statemigrate.formats.struct.shape import shape_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class StoreFacts:
    """A store as Spark tells of it.

    ``kind`` is None where Spark lists no variable of it, ``user_key`` is the key of a map.
    ``expires`` says of each listed family whether its values do. ``families`` are those listed and,
    last, those that a killed batch may have made without being listed. ``applied`` has the scripts'
    checksums.
    """

    kind: Kind | None = None
    user_key: StructType | None = None
    expires: Mapping[str, bool] = field(default_factory=dict)
    families: tuple[StoredFamily, ...] = ()
    applied: Mapping[str, str] = field(default_factory=dict)

    def stored(self) -> StoredStore | None:
        """What the checkpoint has of the store; None where Spark lists no variable of it."""
        if self.kind is None:
            return None
        return StoredStore(self.kind, self.families, self.applied, _document(self.user_key))

    def stored_for(self, declared: Declared) -> StoredStore | None:
        """The same for code that declares the store; None where there is none of its families.

        A family that is not listed is of the kind that is declared. Nullability and metadata do not
        change what a key is: one that holds the same is as declared.
        """
        if not self.families:
            return None
        stored, asked = self.user_key, declared.user_key
        if self.kind is None or (stored and asked and shape_of(stored) == shape_of(asked)):
            stored = asked
        return StoredStore(
            self.kind or declared.kind, self.families, self.applied, _document(stored)
        )


def _document(user_key: StructType | None) -> dict[str, Any] | None:
    return None if user_key is None else user_key.jsonValue()
