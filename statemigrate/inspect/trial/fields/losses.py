"""Which fields a migration empties, told from their fates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from statemigrate.formats.schema.places import is_within, places
from statemigrate.inspect.report.dry_run import Constant, Loss
from statemigrate.inspect.trial.fields.fates import Fate
from statemigrate.migration import Step

Fates = Mapping[tuple[int, str], Fate]
"""By the number of a step on the path and a field's path."""


def losses(steps: Sequence[Step], fates: Fates) -> tuple[Loss, ...]:
    """The fields that had values and keep none, and those that keep none in some values.

    Of the first either the field is there and None in every value, or it is gone, and nothing that
    the step returns depends on it.
    """
    return (*_whole(steps, fates), *_partial(steps, fates))


def _whole(steps: Sequence[Step], fates: Fates) -> Iterator[Loss]:
    yield from (
        Loss(path, step.direction, step.revision, step.script, meant, _text(path, mine))
        for step, mine in _by_step(steps, fates)
        for meant, lost in _lost(step, mine).items()
        for path in _outermost(lost, [path for path, fate in mine.items() if fate.before.holds])
    )


def _partial(steps: Sequence[Step], fates: Fates) -> Iterator[Loss]:
    for step, mine in _by_step(steps, fates):
        whole = [path for lost in _lost(step, mine).values() for path in lost]
        had = [path for path, fate in mine.items() if fate.before.holds]
        emptied = [path for path, fate in mine.items() if fate.emptied and path not in whole]
        for meant in (False, True):
            lost = [path for path in emptied if _meant(step, path) is meant]
            for path in _outermost(lost, had):
                most = max(
                    (mine[each] for each in lost if is_within(each, path)),
                    key=lambda fate: fate.emptied,
                )
                values, keys = most.emptied, tuple(most.keys)
                text = _text(path, mine)
                yield Loss(
                    path, step.direction, step.revision, step.script, meant, text, values, keys
                )


def constants(steps: Sequence[Step], fates: Fates) -> tuple[Constant, ...]:
    """The fields whose values differed, and are one and the same after a step."""
    return tuple(
        Constant(
            path, step.direction, step.revision, step.script, _meant(step, path), fate.after.text
        )
        for step, mine in _by_step(steps, fates)
        for path, fate in mine.items()
        if fate.before.varies and fate.after.holds and not fate.after.varies
    )


def _by_step(steps: Sequence[Step], fates: Fates) -> Iterator[tuple[Step, dict[str, Fate]]]:
    for number, step in enumerate(steps):
        yield step, {path: fate for (of, path), fate in fates.items() if of == number}


def _lost(step: Step, fates: Mapping[str, Fate]) -> dict[bool, list[str]]:
    """The lost fields, apart by whether that is meant."""
    there = {place.path for place in places(step.format.schema)}
    lost = [
        path
        for path, fate in fates.items()
        if fate.before.holds and not fate.after.holds and (path in there or _goes_nowhere(fate))
    ]
    return {meant: [p for p in lost if _meant(step, p) is meant] for meant in (False, True)}


def _goes_nowhere(fate: Fate) -> bool:
    return fate.attempts > 0 and not fate.flows


def _meant(step: Step, path: str) -> bool:
    return any(is_within(path, drop) for drop in step.drops)


def _outermost(lost: list[str], had: list[str]) -> Iterable[str]:
    """The lost fields; a struct in place of its fields where all that had values are lost."""
    return dict.fromkeys(_widest(path, lost, had) for path in lost)


def _widest(path: str, lost: list[str], had: list[str]) -> str:
    for end in (place for place, sign in enumerate(path) if sign in ".[{"):
        outer = path[:end]
        if all(each in lost for each in had if is_within(each, outer)):
            return outer
    return path


def _text(path: str, fates: Mapping[str, Fate]) -> str:
    return fates[path].before.text if path in fates else ""
