"""What a processor keeps in itself from key to key, which is no state, is refused by name."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

from statemigrate.errors import ProcessorError

KEPT = "kept_between_keys"
"""The attribute of a processor's class that names what may change from key to key."""
_COMPARED_WHOLE = 1_000
"""Of a collection with more, only the number of its elements is compared."""
_PLAIN = (bool, int, float, complex, str, bytes)

_Each = TypeVar("_Each")
_Look = dict[str, tuple[Any, Sequence[Any]]]


class BetweenKeys:
    """Looks at a processor's attributes when ``init`` is over, after one key, and after the last.

    What is made at its first use stays unsaid: an attribute that was missing or None, and is then
    the same for every key. Of what an attribute refers to only a collection's elements are seen.
    """

    def __init__(self, processor: Any) -> None:
        self._processor = processor
        self._looks = [_look(processor)]

    def watched(self, keys: Iterable[_Each]) -> Iterator[_Each]:
        """The same keys; the processor is looked at when it is done with the task's first one."""
        return iter(keys) if len(self._looks) > 1 else self._after_first(iter(keys))

    def check(self) -> None:
        """Raises `ProcessorError` for attributes that have changed from one key to another."""
        self._looks.append(_look(self._processor))
        named = getattr(type(self._processor), KEPT, ())
        allowed = {named} if isinstance(named, str) else set(named)
        pairs = zip(self._looks, self._looks[1:], strict=False)
        changed = {name for before, after in pairs for name in _changed(before, after)}
        if changed - allowed:
            raise _carried_over_error(self._processor, sorted(changed - allowed))

    def _after_first(self, keys: Iterator[_Each]) -> Iterator[_Each]:
        for first in keys:
            yield first
            self._looks.append(_look(self._processor))
            yield from keys


def _look(processor: Any) -> _Look:
    return {name: (value, _elements(value)) for name, value in vars(processor).items()}


def _elements(value: Any) -> list[Any]:
    """What is in a collection that can be changed; a long one's number of elements."""
    if not isinstance(value, dict | list | set | deque | bytearray):
        return []
    if len(value) > _COMPARED_WHOLE:
        return [len(value)]
    return list(chain.from_iterable(value.items()) if isinstance(value, dict) else value)


def _changed(before: _Look, after: _Look) -> Iterator[str]:
    for name, (value, elements) in before.items():
        now = after.get(name)
        is_same = now is not None and _is_same(value, now[0]) and _are_same(elements, now[1])
        # A processor without the attribute yet may make it at its first use.
        if not is_same and value is not None:
            yield name


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, tuple) and isinstance(other, tuple):
        return _are_same(one, other)
    return type(one) is type(other) and isinstance(one, _PLAIN) and bool(one == other)


def _are_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(map(_is_same, some, others))


def _carried_over_error(processor: Any, names: Sequence[str]) -> ProcessorError:
    kind, attributes = type(processor).__qualname__, ", ".join(names)
    return ProcessorError(
        "SM-STATE-032",
        f"{kind} keeps something in itself from one key to the next: {attributes}",
        expected="what belongs to a key in its state, and the rest as init has left it: which keys "
        "meet in one processor, and for how long, is up to the engine",
        found=f"{attributes} changed while keys were processed",
        next_action="keep it in a state variable or in a local one; or, if rows and state do not "
        f"depend on it, say so in the class: {KEPT} = {tuple(names)}",
        attributes=list(names),
    )
