"""Whether anything that a transform returns depends on a field: tried by changing the field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.formats import Format, Value
from statemigrate.formats.made_up import samples
from statemigrate.formats.schema.places import Place, places, replaced, values_at
from statemigrate.inspect.trial.fields.fates import holds_something
from statemigrate.migration import Step

_MOST = 24
"""After so many values without an effect a field is taken to have none."""
_A_VALUE = 8
"""How many changes are tried of one value."""


class Flows:
    """Runs one step on values in which a field was changed, until something comes out otherwise.

    A transform that fails on the changed value has looked at it too. What comes out otherwise
    without any change, such as the present time, counts for nothing.
    """

    def __init__(self, old: Format, step: Step) -> None:
        self._format, self._step = old, step
        self._fields = [_Field(place) for place in places(old.schema) if place.is_leaf]
        self._untried = self._fields

    @property
    def is_settled(self) -> bool:
        """Whether no further value needs to be looked at."""
        return not any(each.is_open for each in self._fields)

    def wants(self, value: Value) -> bool:
        """Whether a value has a field that was never tried."""
        if not self._untried:
            return False
        self._untried = [each for each in self._untried if not each.attempts]
        return any(each.is_held_by(value) for each in self._untried)

    def look(self, data: bytes) -> None:
        """Try the fields of one value, given as its format writes it."""
        value = self._format.decode(data)
        wanted = [each for each in self._fields if each.is_open and each.is_held_by(value)]
        known = (self._result(data), self._result(data)) if wanted else (None, None)
        for each in wanted:
            each.attempts += 1
            each.flows = self._shows(each, value, known)
            each.note(value)

    def told(self) -> Iterator[tuple[str, bool, int]]:
        """Each field's path, whether anything depends on it, and how many values were tried."""
        for each in self._fields:
            yield each.place.path, each.flows, each.attempts

    def _shows(self, field: _Field, value: Value, known: tuple[Any, Any]) -> bool:
        for data in self._written(field.changes(value)):
            found = self._result(data)
            if found is None or any(_differ(found, *known)):
                return True
        return False

    def _written(self, values: Iterator[Value]) -> Iterator[bytes]:
        for value in values:
            try:
                yield self._format.encode(value)
            except ValueMismatchError:
                # What is made up of a type may be more than the type holds.
                continue

    def _result(self, data: bytes) -> dict[str, str] | None:
        whole_result = getattr(self._step.transform, "whole_result", None)
        try:
            if whole_result is not None:
                return {"": repr(whole_result(self._format.decode(data)))}
            result = self._step.run(self._format.decode(data))
        except TransformError:
            return None
        return {name: repr(each) for name, each in result.items()}


class _Field:
    def __init__(self, place: Place) -> None:
        self.place = place
        self.flows = False
        self.attempts = 0
        self._seen: list[Any] = []
        self._samples = samples(place.type)

    @property
    def is_open(self) -> bool:
        return not self.flows and self.attempts < _MOST

    def is_held_by(self, value: Value) -> bool:
        if len(self.place.parts) == 1:  # most fields
            return holds_something(value.get(self.place.parts[0]))
        return any(map(holds_something, values_at(value, self.place.parts)))

    def changes(self, value: Value) -> Iterator[Value]:
        """The value with the field as another value had it, and as values were made up."""
        turn = self.attempts % max(len(self._samples), 1)
        others = [*self._seen, *self._samples[turn:], *self._samples[:turn]]
        present = list(values_at(value, self.place.parts))
        differing = [each for each in others if each not in present]
        for other in differing[:_A_VALUE]:
            yield replaced(value, self.place.parts, other)

    def note(self, value: Value) -> None:
        """Keep what real values have: code may know of these alone."""
        for each in values_at(value, self.place.parts):
            if each not in self._seen:
                self._seen = [each, *self._seen][:2]


def _differ(found: dict[str, str], one: Any, other: Any) -> Iterator[bool]:
    if one is None or other is None:
        return
    for name in {*found, *one}:
        if one.get(name) == other.get(name):
            yield found.get(name) != one.get(name)
