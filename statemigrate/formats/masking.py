"""Hashes in place of what named columns have, for people who may see the rest."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from statemigrate.formats.json_values import json_text

MASK_KEY = "STATEMIGRATE_MASK_KEY"
"""The environment variable with the secret of the hashes; without it each process draws one."""
_BYTES = 8


@dataclass(frozen=True)
class Mask:
    """The columns that are shown as hashes, by their names in small letters.

    A hash depends on a secret, so that nobody without it finds a value by hashing all that there
    may be. Equal values have equal hashes, and a null stays one.
    """

    names: frozenset[str]
    secret: bytes

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        """The mask of some columns, with this process's secret."""
        found = frozenset(each.casefold() for each in names)
        return cls(found, _secret(os.environ.get(MASK_KEY, "")) if found else b"")

    def covers(self, field: Mapping[str, Any]) -> bool:
        """Whether a field, as Spark's JSON has it, or a field anywhere in it has such a name."""
        if not self.names:
            return False
        return str(field["name"]).casefold() in self.names or self._covers_type(field["type"])

    def hashed(self, value: Any) -> str | None:
        """The hash of a plain value, as text; None for None."""
        if value is None:
            return None
        text = json_text(value).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, key=self.secret, digest_size=_BYTES).hexdigest()

    def shown(self, fields: Mapping[str, Any], value: Any) -> Any:
        """A value, or a list of values, whose ``fields`` are a struct of Spark's JSON."""
        if isinstance(value, list):
            return [self.shown(fields, each) for each in value]
        if not isinstance(value, dict):
            return value
        hidden = {str(each["name"]) for each in fields["fields"] if self.covers(each)}
        return {name: self.hashed(each) if name in hidden else each for name, each in value.items()}

    def type_shown(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The struct of what is shown of a struct, both as Spark's JSON: a hash is a text."""
        found = [
            {**each, "type": "string"} if self.covers(each) else each for each in fields["fields"]
        ]
        return {**fields, "fields": found}

    def _covers_type(self, kind: Any) -> bool:
        if not isinstance(kind, Mapping):
            return False
        if kind.get("type") == "struct":
            return any(map(self.covers, kind["fields"]))
        return any(
            self._covers_type(kind.get(part)) for part in ("elementType", "keyType", "valueType")
        )


@cache
def _secret(phrase: str) -> bytes:
    # Slow on purpose: a phrase may be one that a person thought of.
    if phrase:
        return hashlib.scrypt(
            phrase.encode(), salt=b"statemigrate mask", n=1 << 14, r=8, p=1, dklen=32
        )
    return secrets.token_bytes(32)
