"""Hashes in place of what named columns have, for people who may see the rest."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

from statemigrate.errors import CheckpointError
from statemigrate.formats.json_values import json_text

MASK_KEY = "STATEMIGRATE_MASK_KEY"
"""The environment variable with the secret of the hashes; without it each process draws one."""
_log = logging.getLogger("statemigrate.formats")
_BYTES = 8
_NAMES_SHOWN = 20
_PARTS = ("elementType", "keyType", "valueType")
"""Where Spark's JSON has the types within a list or a map."""


@dataclass(frozen=True)
class NamedColumn:
    """A column, or a field of one: its ``name``, and with its ``place`` in front ``path``.

    The path of the field ``email`` in the column ``to`` of the store ``orders`` is
    ``orders.to.email``.
    """

    name: str
    path: str


class SharedMask(tuple[str, ...]):
    """Names of columns that are masked in each of several checkpoints, which need not have all."""

    __slots__ = ()


@dataclass(frozen=True)
class Mask:
    """The columns that are shown as hashes, by their names in small letters.

    A name is that of a column, or of a field at any depth; or it begins with the place, as
    ``aggregation-0.max`` does, which is a column of one store. ``places`` are the names of the
    store whose columns are asked about. ``is_shared`` says that they are those of a `SharedMask`.

    A hash depends on a secret, so that nobody without it finds
    a value by hashing all that there may be. Equal values have equal hashes, and a null stays one.
    """

    names: frozenset[str]
    secret: bytes
    places: tuple[str, ...] = ()
    is_shared: bool = False

    @classmethod
    def of(cls, names: Iterable[str], stores: Mapping[str, str] | None = None) -> Self:
        """The mask of some columns, with this process's secret.

        ``stores`` has the engine's names of stores by those that the project gives them. A column
        named with the latter is masked as the engine calls it.
        """
        engine = {given.casefold(): own for given, own in (stores or {}).items()}
        found = frozenset(_of_engine(each.casefold(), engine) for each in names)
        secret = _secret(os.environ.get(MASK_KEY, "")) if found else b""
        return cls(found, secret, is_shared=isinstance(names, SharedMask))

    def at(self, *places: str) -> Self:
        """The same for the columns of a store, which may have several names."""
        return replace(self, places=places)

    def hides(self, name: str, places: Iterable[str]) -> bool:
        """Whether it names the column or field of some places."""
        found = {name.casefold(), *(f"{place}.{name}".casefold() for place in places)}
        return not self.names.isdisjoint(found)

    def covers(self, field: Mapping[str, Any]) -> bool:
        """Whether a field, as Spark's JSON has it, or a field anywhere in it has such a name."""
        return bool(self.names) and self._covers(field, self.places)

    def require_columns(self, there: Iterable[NamedColumn]) -> None:
        """Raise `CheckpointError` for a name that none of the columns has, or log it if shared.

        No more of them are looked at than it takes to find all names.
        """
        missing, others = set(self.names), set[str]()
        if not missing:
            return
        for each in there:
            missing -= {each.name.casefold(), each.path.casefold()}
            others.add(each.name)
            if not missing:
                return
        if self.is_shared:
            # A refusal would be one for each checkpoint that another one's column is not in.
            names = ", ".join(sorted(missing))
            _log.warning("no column here is masked as %s, which `mask` names", names)
        else:
            raise _no_column(min(missing), others)

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

    def _covers(self, field: Mapping[str, Any], places: tuple[str, ...]) -> bool:
        name = str(field["name"])
        within = tuple(f"{each}.{name}" for each in places)
        return self.hides(name, places) or self._covers_type(field["type"], within)

    def _covers_type(self, kind: Any, places: tuple[str, ...]) -> bool:
        if not isinstance(kind, Mapping):
            return False
        if kind.get("type") == "struct":
            return any(self._covers(each, places) for each in kind["fields"])
        return any(self._covers_type(kind.get(part), places) for part in _PARTS)


def _of_engine(name: str, stores: Mapping[str, str]) -> str:
    store, dot, column = name.partition(".")
    return f"{stores[store]}.{column}".casefold() if dot and store in stores else name


def columns_in(kind: Any, place: str) -> Iterator[NamedColumn]:
    """The columns of a place, and all fields in them; ``kind`` is a type as Spark's JSON has it."""
    if not isinstance(kind, Mapping):
        return
    for each in kind.get("fields", ()):
        name = str(each["name"])
        yield NamedColumn(name, f"{place}.{name}")
        yield from columns_in(each["type"], f"{place}.{name}")
    for part in _PARTS:
        yield from columns_in(kind.get(part), place)


def _no_column(name: str, there: set[str]) -> CheckpointError:
    listed = sorted(there)
    more = f" and {len(listed) - _NAMES_SHOWN} more" if len(listed) > _NAMES_SHOWN else ""
    return CheckpointError(
        "SM-PREVIEW-030",
        f"no column is called {name}, which is to be masked",
        expected="names of columns of the state or of the input, or such a name with its store in "
        "front",
        found=f"{', '.join(listed[:_NAMES_SHOWN])}{more}" or "no column",
        next_action="correct the name, or leave it out; --mask names the columns of a bundle",
        column=name,
    )


@cache
def _secret(phrase: str) -> bytes:
    # Slow on purpose: a phrase may be one that a person thought of.
    if phrase:
        return hashlib.scrypt(
            phrase.encode(), salt=b"statemigrate mask", n=1 << 14, r=8, p=1, dklen=32
        )
    return secrets.token_bytes(32)
