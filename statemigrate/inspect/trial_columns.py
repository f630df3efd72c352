"""Taking many values of a dry run along a path, and back, by columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from statemigrate.formats import Format
from statemigrate.inspect.laws import Inverses
from statemigrate.migration import ArrowThreshold, MigrationPath, Step, through

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class TriedColumns:
    """Values as columns, before the path and after each of its steps, and as it writes them.

    ``differing`` are the places of those that do not come back as they were.
    """

    columns: Sequence[Any]
    written: Sequence[bytes]
    differing: Sequence[int]


class TrialColumns:
    """A path, and the way back where there is one, whose steps are all lenses in columns."""

    def __init__(
        self, formats: Sequence[Format], forth: Sequence[Function], back: Sequence[_Return]
    ) -> None:
        self._formats, self._forth, self._back = formats, forth, back
        self._threshold = ArrowThreshold()

    @classmethod
    def of(
        cls, old: Format, path: MigrationPath, back: MigrationPath | None, inverses: Inverses
    ) -> TrialColumns | None:
        """None where a format or a step has no columns: values go one by one then."""
        formats = [old, *(step.format for step in path.steps)]
        forth = _functions(path.steps)
        ways = [] if back is None else [_Return.of(back.steps, len(path.steps), 0)]
        # A single step's way back is the inverse that its law is about.
        for number, inverse in enumerate(inverses if len(path.steps) > 1 else ()):
            if inverse is not None:
                ways.append(_Return.of([inverse], number + 1, number))
        known = [each for each in ways if each is not None]
        if forth is None or not forth or len(known) < len(ways):
            return None
        if not all(each.is_flat for each in formats):
            return None
        return cls(formats, forth, known)

    def run(self, stored: Sequence[bytes]) -> TriedColumns | None:
        """Take bytes of the first format along the path; None where one may fail.

        Few values are not worth their columns, nor is a small state worth loading Arrow.
        """
        if not self._threshold.is_reached(len(stored)):
            return None
        first = self._formats[0].decode_columns(stored)
        if first is None:
            return None
        columns = _along(first, self._forth, self._formats[1:])
        if columns is None:
            return None
        written = self._formats[-1].encode_columns(columns[-1])
        if written is None:
            return None
        differing: set[int] = set()
        for way in self._back:
            returned = _along(columns[way.start], way.functions, way.formats)
            before = (
                stored if not way.end else self._formats[way.end].encode_columns(columns[way.end])
            )
            again = None if returned is None else way.formats[-1].encode_columns(returned[-1])
            if again is None or before is None:
                return None
            differing.update(
                place
                for place, (one, other) in enumerate(zip(before, again, strict=True))
                if one != other
            )
        return TriedColumns(columns, written, sorted(differing))


@dataclass(frozen=True)
class _Return:
    """Steps that take the values after ``start`` steps back to those after ``end``."""

    functions: Sequence[Function]
    formats: Sequence[Format]
    start: int
    end: int

    @classmethod
    def of(cls, steps: Sequence[Step], start: int, end: int) -> _Return | None:
        functions = _functions(steps)
        formats = [step.format for step in steps]
        return None if functions is None else cls(functions, formats, start, end)


def _functions(steps: Sequence[Step]) -> list[Function] | None:
    found = [None if step.only_by_rewriting else step.by_columns for step in steps]
    return [each for each in found if each is not None] if None not in found else None


def _along(
    array: Any, functions: Sequence[Function], formats: Sequence[Format]
) -> list[Any] | None:
    """The array, and what each function makes of the one before; None where one refuses a value."""
    found = [array]
    try:
        for function, fmt in zip(functions, formats, strict=True):
            found.append(through(function, found[-1]))
            if not fmt.takes_nulls_of(found[-1]):
                return None
    except Exception:
        # A lens does not take one of the values, and names it when they go one by one.
        return None
    return found
