"""Whether a script's two functions undo each other on a value, where the script claims it.

A broken law is found with the value, made as small as still breaks it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.formats import Format, Value
from statemigrate.formats.schema import (
    Array,
    Map,
    Node,
    Record,
    accepts_none,
    is_within,
    without_none,
)
from statemigrate.inspect.causes import cause_of
from statemigrate.inspect.dry_run_report import BrokenLaw, ValueExample
from statemigrate.inspect.field_effects import Group, changes, shown
from statemigrate.migration import Lineage, MigrationPath, Step

# Making a value that shows a fault smaller, as long as it still shows it.


_ATTEMPTS = 400
"""So many smaller values are tried of one."""
_LONG = 40


def shrunk(value: Value, record: Record, shows: Callable[[Value], bool]) -> Value:
    """The value with everything emptied that is not needed for ``shows``, which it fulfils."""
    return _Shrinking(shows).value(value, record)


def needed(value: Value, record: Record, shows: Callable[[Value], bool]) -> Value:
    """The fields of a `shrunk` value that are more than the least that they can be.

    ``shows`` tells which values there can be at all.
    """
    least = shrunk(value, record, shows)
    return {name: each for name, each in value.items() if each != least[name]}


class _Shrinking:
    def __init__(self, shows: Callable[[Value], bool]) -> None:
        self._shows = shows
        self._left = _ATTEMPTS

    def value(self, value: Value, record: Record) -> Value:
        found: Value = self._record(value, record, self._tried)
        return found

    def _tried(self, value: Any) -> bool:
        self._left -= 1
        return self._left >= 0 and self._shows(value)

    def _shrink(self, value: Any, node: Node, shows: Callable[[Any], bool]) -> Any:
        if value is None or (accepts_none(node) and shows(None)):
            return None
        match without_none(node):
            case Record() as record:
                return self._record(value, record, shows)
            case Array(items=items):
                return self._list(value, items, shows)
            case Map(values=values):
                return self._map(value, values, shows)
        return self._leaf(value, shows)

    def _record(self, value: Value, record: Record, shows: Callable[[Any], bool]) -> Value:
        for field in record.fields:
            shown = _with(value, field.name, shows)
            value = {**value, field.name: self._shrink(value[field.name], field.type, shown)}
        return value

    def _list(self, value: list[Any], items: Node, shows: Callable[[Any], bool]) -> list[Any]:
        place = 0
        while place < len(value):
            shorter = [*value[:place], *value[place + 1 :]]
            if shows(shorter):
                value = shorter
            else:
                place += 1
        for place, each in enumerate(value):
            before, after = value[:place], value[place + 1 :]
            smaller = self._shrink(each, items, _between(before, after, shows))
            value = [*before, smaller, *after]
        return value

    def _map(self, value: Value, values: Node, shows: Callable[[Any], bool]) -> Value:
        for key in list(value):
            fewer = {name: each for name, each in value.items() if name != key}
            if shows(fewer):
                value = fewer
            else:
                smaller = self._shrink(value[key], values, _with(value, key, shows))
                value = {**value, key: smaller}
        return value

    def _leaf(self, value: Any, shows: Callable[[Any], bool]) -> Any:
        while True:
            smaller = next((each for each in _smaller(value) if shows(each)), None)
            if smaller is None:
                return value
            value = smaller


def _with(value: Value, name: Any, shows: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda each: shows({**value, name: each})


def _between(
    before: list[Any], after: list[Any], shows: Callable[[Any], bool]
) -> Callable[[Any], bool]:
    return lambda each: shows([*before, each, *after])


def _smaller(value: Any) -> Iterator[Any]:  # one a kind of value
    """Values of the same kind that say less, the least first."""
    match value:
        case bool():
            return iter([False] if value else [])
        case int():
            return iter(_numbers(value))
        case float():
            found = (0.0, float(int(value)) if abs(value) < 2**53 else 0.0)
            return (each for each in found if abs(each) < abs(value))
        case Decimal() if value.is_finite() and value:
            signs = value.as_tuple()
            exponent = int(signs.exponent)
            return (
                Decimal(_with_digits(signs.sign, number, exponent))
                for number in _numbers(int("".join(map(str, signs.digits))))
            )
        case str() | bytes():
            return _shorter(value)
    return iter(())


def _with_digits(sign: int, number: int, exponent: int) -> tuple[int, tuple[int, ...], int]:
    return sign if number else 0, tuple(map(int, str(number))), exponent


def _numbers(value: int) -> list[int]:
    if not value:
        return []
    sign = 1 if value > 0 else -1
    found = [0, sign, sign * (abs(value) // 2), value - sign]
    return [each for each in dict.fromkeys(found) if abs(each) < abs(value)]


def _shorter(value: Any) -> Iterator[Any]:
    half = len(value) // 2
    found = [value[:0], value[:half], value[half:]]
    if len(value) <= _LONG:
        found += [value[:place] + value[place + 1 :] for place in range(len(value))]
    return (each for each in dict.fromkeys(found) if len(each) < len(value))


Inverses = Sequence[Step | None]
"""For each step of a path the one that takes it back; None where the script claims no law."""

_GROUPS = 50


def inverses_of(lineage: Lineage, path: MigrationPath) -> Inverses:
    """The steps that take each step of a path back, where its script claims that they do."""
    return tuple(
        lineage.path(step.target, step.source).steps[0] if step.comes_back else None
        for step in path.steps
    )


class _Difference(NamedTuple):
    """One way in which a value breaks a law: at a ``field``, or with the ``cause`` of a failure.

    ``before`` and ``after`` are the whole values on both sides of the law, ``sides`` the field's.
    """

    law: str
    field: str
    cause: str
    before: Value
    after: Value | None
    sides: tuple[Any, Any]

    @property
    def name(self) -> str:
        return json.dumps([self.law, self.field, self.cause])


@dataclass(frozen=True)
class _Law:
    """Both laws of one script: ``step`` and then ``inverse`` is nothing, and so the other way."""

    old: Format
    step: Step
    inverse: Step

    def broken(self, data: bytes, written: bytes | None = None) -> Iterator[_Difference]:
        """How a value breaks them; ``written`` is what the step makes of it, where known.

        The law of what the step makes is tried where that of the value holds.
        """
        step, inverse = self.step, self.inverse
        written = written or step.format.encode(step.run(self.old.decode(data)))
        again = yield from self._same(self.old, data, step, inverse, written)
        if again is not None:
            yield from self._same(step.format, written, inverse, step, again)

    def _same(
        self, format: Format, data: bytes, first: Step, last: Step, between: bytes
    ) -> Generator[_Difference, None, bytes | None]:
        law = f"{last.direction}({first.direction}(value)) == value"
        try:
            again = format.encode(last.run(first.format.decode(between)))
        except (TransformError, ValueMismatchError) as error:
            yield _Difference(law, "", cause_of(error), format.decode(data), None, (None, None))
            return None
        if again != data:
            before, after, schema = format.decode(data), format.decode(again), format.schema
            differing = [
                _Difference(law, path, "", before, after, (one, other))
                for effect, path, one, other in changes(before, after, schema, schema)
                if effect != "kept" and not any(is_within(path, drop) for drop in last.drops)
            ]
            yield from differing
            return None if differing else again
        return again


class Laws:
    """The laws that the scripts of a path claim, tried on its values; without any it does nothing.

    ``old`` is the format of the values. Without ``examples`` no value is noted.
    """

    def __init__(
        self, old: Format, path: MigrationPath, inverses: Inverses, *, examples: bool
    ) -> None:
        formats = [old, *(step.format for step in path.steps)]
        self._examples = examples
        self._steps = path.steps
        self._old = old
        self._laws = {
            number: _Law(formats[number], path.steps[number], inverse)
            for number, inverse in enumerate(inverses)
            if inverse is not None
        }

    def __bool__(self) -> bool:
        return bool(self._laws)

    def look(
        self, data: bytes, migrated: bytes, key: Callable[[], str], groups: dict[str, Group]
    ) -> bool:
        """Try a value that the path takes to ``migrated``; note in ``groups`` what it breaks."""
        before, is_broken = data, False
        for number, step in enumerate(self._steps):
            is_last = number == len(self._steps) - 1
            given = before
            before = migrated if is_last else _after(step, self._format(number), before)
            law = self._laws.get(number)
            for found in () if law is None else law.broken(given, before):
                is_broken = True
                self._note(number, law, found, given, key, groups)
        return is_broken

    def _format(self, number: int) -> Format:
        return self._steps[number - 1].format if number else self._old

    def _note(
        self,
        number: int,
        law: _Law | None,
        found: _Difference,
        data: bytes,
        key: Callable[[], str],
        groups: dict[str, Group],
    ) -> None:
        name = f"{number} {found.name}"
        if name not in groups and len(groups) >= _GROUPS:
            return
        group = groups.setdefault(name, Group())
        group.values += 1
        if not self._examples or law is None:
            return
        if group.wants_example:
            before, after = found.sides if found.field else (found.before, None)
            sides = shown(before), None if found.cause else shown(after)
            group.examples.append((key(), *sides))
        if not group.note:
            group.note = _smallest(law, found, data)


def _after(step: Step, old: Format, data: bytes) -> bytes:
    return step.format.encode(step.run(old.decode(data)))


def _smallest(law: _Law, found: _Difference, data: bytes) -> str:
    """The smallest value that breaks the law in the same way, before and after, as JSON."""

    def breaking(value: Value) -> _Difference | None:
        try:
            written = law.old.encode(value)
            return next((each for each in law.broken(written) if each.name == found.name), None)
        except (TransformError, ValueMismatchError):
            return None

    smallest = shrunk(law.old.decode(data), law.old.schema, lambda v: breaking(v) is not None)
    shows = breaking(smallest) or found
    if found.law.startswith(law.inverse.direction):
        fields = needed(shows.before, law.old.schema, lambda v: _fits(law.old, v))
    else:
        fields = {}
    names = [*fields, *([found.field.partition(".")[0]] if found.field else [])]
    sides = [
        None if side is None else shown({name: side[name] for name in dict.fromkeys(names)})
        for side in (shows.before if names else None, shows.after)
    ]
    if sides[0] is None:
        sides[0] = shown(shows.before)
    return json.dumps(sides)


def _fits(format: Format, value: Value) -> bool:
    try:
        format.encode(value)
    except ValueMismatchError:
        return False
    return True


def described(groups: dict[str, Group], steps: Sequence[Step]) -> tuple[BrokenLaw, ...]:
    """What was found, the most frequent first."""
    return tuple(
        _described(name, group, steps)
        for name, group in sorted(groups.items(), key=lambda item: (-item[1].values, item[0]))
    )


def _described(name: str, group: Group, steps: Sequence[Step]) -> BrokenLaw:
    number, _, rest = name.partition(" ")
    law, field, cause = json.loads(rest)
    step = steps[int(number)]
    examples = group.shown()
    smallest = None
    if group.note:
        smallest = ValueExample(examples[0].key if examples else "", *json.loads(group.note))
    return BrokenLaw(
        law, step.revision, step.script, field or None, cause or None, group.values, examples,
        smallest,
    )  # fmt: skip
