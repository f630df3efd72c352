"""Which fields have a value before a step and none after it, counted over all values.

One value of a million is enough. A field that is there before and after is compared with itself. Of
one that has another name afterwards, or is part of something else, it is tried which fields of the
result change with it: there is something left of it in a value if any of those has a value.

Values are looked at by columns, many at once. Fields are those of formats that have columns: within
structs, and not in lists or maps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.formats import Format, Value, samples
from statemigrate.formats.schema import (
    Array,
    FieldAddress,
    Map,
    Node,
    Record,
    field_addresses,
    replaced,
    values_at,
    without_none,
)
from statemigrate.migration import Step

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]


def validity(array: Any, parts: Sequence[str]) -> Mask:
    """For each value whether it has more than a null at a place, which may not be there at all."""
    import numpy as np
    import pyarrow as pa

    mask = np.ones(len(array), bool)
    found = array
    for name in parts:
        place = found.type.get_field_index(name) if pa.types.is_struct(found.type) else -1
        if place < 0:
            return np.zeros(len(array), bool)
        found = found.field(place)
        if found.null_count:
            mask &= found.is_valid().to_numpy(zero_copy_only=False)
    return mask


def equal_to(array: Any, parts: Sequence[str], value: Any) -> Mask:
    """For each value whether it surely has this plain one at a place, None where it has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from statemigrate.formats import plain_array

    has = validity(array, parts)
    if value is None or not has.any():
        return ~has
    found = array
    for name in parts:
        found = found.field(name)
    try:
        same = pc.equal(found, plain_array([value], found.type)[0])
    except (pa.ArrowException, TypeError, ValueError, AttributeError):
        # A struct, or what another type has become: whoever asks looks at a value more.
        return has & False
    mask: Mask = has & pc.fill_null(same, fill_value=False).to_numpy(zero_copy_only=False)
    return mask


def first_of(mask: Mask) -> Iterator[int]:
    """The first place that a mask has, or none."""
    place = int(mask.argmax()) if mask.size else 0
    if mask.size and mask[place]:
        yield place


Parts = tuple[str, ...]
Counts = tuple[int, int]
"""How many values a place has, and how many nulls: several of both within lists and maps."""
Count = Callable[[Value], Counts]

_TESTS = 24
"""After so many values in which nothing changes with a field, no more are tried."""
_CHANGES = 8
_ONE, _NULL, _NOTHING = (1, 0), (0, 1), (0, 0)


class CommonField:
    """A field that is there before a step and after it. ``path`` is its name."""

    is_pending = False

    def __init__(self, address: FieldAddress) -> None:
        self.path = address.path
        self.count = counter(address)
        self._address = address

    def suspects_in(self, before: Any, after: Any) -> Any:
        """A mask of the values in columns that may have less there than they had."""
        parts = self._address.parts
        return validity(before, parts) & ~validity(after, parts)

    def may_be_empty(self, after: Value) -> bool:
        """Whether a value has nothing there, or nulls: only then its past is looked at."""
        found = self.count(after)
        return not found[0] or found[1] > 0

    def is_empty(self, before: Value, after: Value) -> bool:
        """Whether a value that had something there has nothing or more nulls after the step."""
        had = self.count(before)
        return had[0] > 0 and _is_less(had, self.count(after))


class _Gone(CommonField):
    """A field that is not there after the step."""

    def __init__(self, address: FieldAddress, flows: Flow) -> None:
        super().__init__(address)
        self._flows = flows
        self._into: dict[str, Count] = {}
        self._tests = _TESTS

    @property
    def is_pending(self) -> bool:  # type: ignore[override]
        """Whether nothing is known of it yet, and may still be found."""
        return not self._into and self._tests > 0

    def suspects_in(self, before: Any, after: Any) -> Any:
        had = validity(before, self._address.parts)
        if not self._into:
            return had if self.is_pending else had & False
        for path in self._into:
            had = had & ~validity(after, self._flows.leaves[path].parts)
        return had

    def may_be_empty(self, after: Value) -> bool:
        return all(not held or nulls for held, nulls in self._counts(after))

    def is_empty(self, before: Value, after: Value) -> bool:
        had = self.count(before)
        if not had[0] or self._is_in(had, after, self._into):
            return False
        if self._tests:
            self._tests -= 1
            found = self._flows.into(self._address, before)
            self._into |= found
            if self._is_in(had, after, found):
                # What it flows into is other fields in some values than in others.
                self._tests += 1
                return False
        # Of what nothing is known to depend on, `losses` speaks as a whole.
        return bool(self._into)

    def _counts(self, after: Value) -> Iterator[Counts]:
        return (count(after) for count in self._into.values())

    def _is_in(self, had: Counts, after: Value, into: dict[str, Count]) -> bool:
        return any(not _is_less(had, count(after)) for count in into.values())


class Flow:
    """Which fields that a step returns change with a field of what it is given."""

    def __init__(self, old: Format, step: Step) -> None:
        self._old, self._step = old, step
        every = field_addresses(step.format.schema)
        self.leaves = {each.path: each for each in every if each.is_leaf}

    def into(self, address: FieldAddress, value: Value) -> dict[str, Count]:
        """Those that come out otherwise where the field is another."""
        known = self._result(value), self._result(value)
        found: dict[str, Count] = {}
        if known[0] is None or known[1] is None:
            return found
        stable = {name for name in known[0] if known[0][name] == known[1][name]}
        for other in self._changed(address, value):
            result = self._result(other)
            if result is None:
                # It has looked at the field, and nothing says for which of them.
                return {each.path: counter(each) for each in self.leaves.values()}
            for each in self.leaves.values():
                if each.path in stable and result[each.path] != known[0][each.path]:
                    found.setdefault(each.path, counter(each))
        return found

    def _changed(self, address: FieldAddress, value: Value) -> Iterable[Value]:
        present = list(values_at(value, address.parts))
        others = [each for each in samples(address.type) if each not in present]
        for other in others[:_CHANGES]:
            changed = replaced(value, address.parts, other)
            try:
                yield self._old.decode(self._old.encode(changed))
            except ValueMismatchError:
                # What is made up of a type may be more than the type holds.
                continue

    def _result(self, value: Value) -> dict[str, str] | None:
        """The text of each field; None where the step fails. ``value`` stays as it is."""
        try:
            given = self._old.decode(self._old.encode(value))
            result = self._step.conformed(self._step.run(given))
        except TransformError:
            return None
        return {
            each.path: repr(list(values_at(result, each.parts))) for each in self.leaves.values()
        }


class Emptied:
    """Looks at every value before and after one step.

    ``given`` makes again what the step was given, from the bytes of a value at the path's start.
    """

    def __init__(self, old: Format, step: Step, given: Callable[[bytes], Value]) -> None:
        self._given = given
        flow = Flow(old, step)
        there = {each.path: each for each in field_addresses(step.format.schema)}
        leaves = [each for each in field_addresses(old.schema) if each.is_leaf]
        new = {field.name: field.type for field in step.format.schema.fields}
        # Most fields are these, and all of them together cost one call before and one after.
        plain = [
            each.path
            for each in leaves
            if len(each.parts) == 1 and _is_plain(each.type) and _is_plain(new.get(each.path))
        ]
        self._old_values = _getter(plain)
        self._new_values = _getter(list(new))
        self._at = [(index, list(new).index(path)) for index, path in enumerate(plain)]
        self._plain = [CommonField(there[path]) for path in plain]
        self._full = [
            (index, _full(node)) for index, node in enumerate(new.values()) if not _is_plain(node)
        ]
        self._others: list[CommonField] = [
            CommonField(each) for each in leaves if each.path in there and each.path not in plain
        ]
        self._others += [_Gone(each, flow) for each in leaves if each.path not in there]
        self._is_pending = any(each.is_pending for each in self._others)

    def before(self, value: Value) -> Sequence[Any]:
        """What `after` wants to know, noted before the step, which may change the value."""
        return self._old_values(value)

    def suspects_in(self, before: Any, after: Any) -> Any:
        """A mask of the values in columns that may have less somewhere than they had."""
        fields = [*self._plain, *self._others]
        found = validity(before, ()) & False
        for each in fields:
            found |= each.suspects_in(before, after)
        return found

    def after(self, had: Sequence[Any], value: Value, data: bytes) -> Sequence[CommonField]:
        """The fields where a value has less than it had, or nothing."""
        now = self._new_values(value)
        if None not in now and not self._is_pending:
            for index, is_full in self._full:
                if not is_full(now[index]):
                    break
            else:
                return ()
        return self._looked_for(had, now, value, data)

    def _looked_for(
        self, had: Sequence[Any], now: Sequence[Any], value: Value, data: bytes
    ) -> Sequence[CommonField]:
        found = [
            field
            for field, (before, after) in zip(self._plain, self._at, strict=True)
            if now[after] is None and had[before] is not None
        ]
        suspects = [each for each in self._others if each.may_be_empty(value)]
        if suspects:
            try:
                given = self._given(data)
            except TransformError:
                # It got through a moment ago: a transform that depends on more than its value.
                return found
            found += [each for each in suspects if each.is_empty(given, value)]
            if self._is_pending:
                self._is_pending = any(each.is_pending for each in self._others)
        return found


def _is_less(before: Counts, after: Counts) -> bool:
    """Whether nothing is left, or more of it is null; what a list is rid of, it is rid of."""
    return not after[0] or after[1] > before[1]


def _getter(names: Sequence[str]) -> Callable[[Value], Sequence[Any]]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda value: [value[name] for name in names]


def _is_plain(node: Node | None) -> bool:
    return node is not None and not (_containers(node) or isinstance(without_none(node), Record))


def _full(node: Node) -> Callable[[Any], bool]:
    """Tells whether a value that is not null has no null in it, and nothing that is empty."""
    match without_none(node):
        case Record(fields=fields) if fields:
            values = _getter([field.name for field in fields])
            inner = [
                (index, _full(field.type))
                for index, field in enumerate(fields)
                if not _is_plain(field.type)
            ]

            def is_full(value: Any) -> bool:
                found = values(value)
                return None not in found and all(full(found[index]) for index, full in inner)

            return is_full
        case Array(items=item):
            return _items_full(item, lambda value: value)
        case Map(values=item):
            return _items_full(item, lambda value: value.values())
    return lambda _: True


def _items_full(node: Node, items: Callable[[Any], Any]) -> Callable[[Any], bool]:
    if _is_plain(node):
        return lambda value: bool(value) and None not in items(value)
    full = _full(node)
    return lambda value: (
        bool(value) and all(each is not None and full(each) for each in items(value))
    )


def _containers(node: Node) -> Parts:
    """The lists and maps that a type is made of, one within another."""
    match without_none(node):
        case Array(items=items):
            return ("[]", *_containers(items))
        case Map(values=values):
            return ("{}", *_containers(values))
    return ()


def counter(address: FieldAddress) -> Count:
    """A function that counts what a value has at a place."""
    parts = (*address.parts, *_containers(address.type))
    containers = [part for part in parts if part in ("[]", "{}")]
    if not containers:
        return lambda value: _of_one(value, parts)
    if len(parts) == 2:  # a list or a map of plain values
        name, is_list = parts[0], containers == ["[]"]
        return lambda value: _of_items(value.get(name), is_list=is_list)
    return lambda value: _of_many(list(values_at(value, parts)))


def _of_one(value: Any, parts: Parts) -> Counts:
    for name in parts:
        if not isinstance(value, dict):
            return _NOTHING
        value = value.get(name)
    return _NULL if value is None else _ONE


def _of_items(items: Any, *, is_list: bool) -> Counts:
    if not items:
        return _NOTHING
    if isinstance(items, list) if is_list else isinstance(items, dict):
        return _of_many(items if is_list else list(items.values()))
    return _ONE


def _of_many(values: list[Any]) -> Counts:
    nulls = values.count(None)
    return len(values) - nulls, nulls
