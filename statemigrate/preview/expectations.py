"""What a project expects of a preview: ``[tool.statemigrate.preview]`` in its pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from statemigrate.errors import CodeError
from statemigrate.preview.comparison import ROWS, Difference, Same, equal
from statemigrate.preview.expression import Expression

EXACT, NEW, GONE, CHANGED, WITHIN = "exact", "new", "gone", "changed", "within"
_WORDS = (EXACT, NEW, GONE, CHANGED)
Expectation = str | float | Expression
"""A word, the share of the old value by which a new one may differ, or what holds of both."""


@dataclass(frozen=True)
class Expectations:
    """By store and field what is expected of it; ``noise`` has fields that do not compare."""

    fields: Mapping[str, Mapping[str, Expectation]] = field(default_factory=dict)
    noise: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Expectations:
        """Read a table of tables. Raises `CodeError` for what is none of the known words."""
        found: dict[str, dict[str, Expectation]] = {}
        for store, fields in given.items():
            if not isinstance(fields, Mapping):
                raise _unknown(store, fields)
            found[store] = {name: _read(f"{store}.{name}", each) for name, each in fields.items()}
        return cls(found)

    def of_field(self, store: str, name: str) -> Expectation | None:
        """What is expected of a field, None where nothing is."""
        return self.fields.get(store, {}).get(name)

    def same(self, store: str) -> Same:
        """How the values of a store's fields compare."""

        def compare(name: str, old: Any, new: Any) -> bool:
            wanted = self.of_field(store, name)
            if isinstance(wanted, Expression):
                return wanted.holds(old, new)
            if equal(name, old, new):
                return True
            if isinstance(wanted, float) and _is_number(old) and _is_number(new):
                return abs(float(new) - float(old)) <= wanted * abs(float(old))
            return False

        wanted = self.fields.get(store, {}).values()
        return Same(compare, any(isinstance(each, Expression) for each in wanted))

    def unexpected(self, found: Difference) -> Iterator[str]:
        """What of a difference nobody has expected, as sentences without values."""
        store = found.store
        if not found.keys:
            yield f"{store} has other keys"
            return
        if self.of_field(store, ROWS) != CHANGED and not self._is_noise(store, ROWS):
            if found.added:
                yield f"{store}: {found.added:,} rows more"
            if found.missing:
                yield f"{store}: {found.missing:,} rows missing"
        for name, count in found.fields.items():
            if self.of_field(store, name) != CHANGED and not self._is_noise(store, name):
                yield f"{store}.{name}: {count:,} values differ"
        yield from self._of_one_side(found)

    def _of_one_side(self, found: Difference) -> Iterator[str]:
        """What is not expected of fields that only old or new code has, or that both have."""
        store = found.store
        for name in found.only_old:
            if self.of_field(store, name) != GONE:
                yield f"{store}.{name} is gone"
        for name in found.only_new:
            if self.of_field(store, name) in (EXACT, GONE, CHANGED):
                yield f"{store}.{name} is new"
        for name, wanted in self.fields.get(store, {}).items():
            if wanted == NEW and name not in found.only_new:
                yield f"{store}.{name} is not new"
            if wanted == GONE and name not in found.only_old:
                yield f"{store}.{name} is not gone"

    def _is_noise(self, store: str, name: str) -> bool:
        return (store, name) in self.noise and self.of_field(store, name) != EXACT


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _read(name: str, given: Any) -> Expectation:
    if isinstance(given, Mapping) and set(given) == {WITHIN}:
        share = given[WITHIN]
        if _is_number(share) and share >= 0:
            return float(share)
    elif isinstance(given, str) and given in _WORDS:
        return given
    elif isinstance(given, str):
        try:
            return Expression.of(given)
        except ValueError as error:
            raise _unknown(name, f"{given}: {error}") from error
    raise _unknown(name, given)


def _unknown(name: str, given: Any) -> CodeError:
    return CodeError(
        "SM-PREVIEW-010",
        f"what is expected of {name} is not known",
        expected=f"{', '.join(_WORDS)}, {{within = 0.01}}, or an expression over old and new, by "
        "store and field",
        found=repr(given)[:200],
        next_action="correct [tool.statemigrate.preview] in pyproject.toml",
    )
