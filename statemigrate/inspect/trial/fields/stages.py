"""The steps of a path one by one, with an eye on what each makes of the fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.formats import Format, Value
from statemigrate.inspect.trial.fields.emptied import Emptied, Field
from statemigrate.inspect.trial.fields.fates import KEYS, Fate, Seen, Watch
from statemigrate.inspect.trial.fields.flows import Flows
from statemigrate.migration import Path, Step


@dataclass
class Noted:
    """What one value has before and after a step."""

    before: list[Seen]
    had: Any
    after: list[Seen] = field(default_factory=list)
    emptied: Sequence[Field] = ()


class Stages:
    """Takes values along a path as `Path.apply` does, and notes every field's fate at each step.

    ``old`` is the format of the values at the start; without ``examples`` no value is kept.
    """

    def __init__(self, old: Format, path: Path, *, examples: bool = True) -> None:
        formats = [old, *(step.format for step in path.steps)]
        self._old = old
        self._examples = examples
        self._stages = [
            _Stage(before, step, partial(self._given, number), examples=examples)
            for number, (before, step) in enumerate(zip(formats, path.steps, strict=False))
        ]
        self._single = self._stages[0] if len(self._stages) == 1 else None
        self._is_watching = True

    def apply(self, value: Value, data: bytes) -> tuple[Value, Any]:
        """Return the value at the path's end, and what to tell `arrived` once it is known to fit.

        ``data`` is the value as its format writes it. Raises TransformError as the path would.
        """
        single = self._single
        if single is not None and not self._is_watching:
            had = single.emptied.before(value)
            return single.step.run(value), had
        noted: list[Noted] = []
        for stage in self._stages:
            found = Noted(stage.watch.seen(value, 0), stage.emptied.before(value))
            noted.append(found)
            value = stage.step.run(value)
            if stage is not self._stages[-1]:
                stage.note_after(found, stage.step.conformed(value), data)
        return value, noted

    def arrived(
        self,
        noted: Any,
        migrated: Value,
        data: bytes,
        key: Callable[[], str],
        *,
        is_whole: bool = True,
    ) -> None:
        """Count a value that got through, ``migrated`` as a reader finds it.

        ``noted`` is what `apply` returned; ``key`` shows its key. What is not ``is_whole``, one of
        several things that became of it, lost nothing that the others may have.
        """
        single = self._single
        if single is not None and not self._is_watching:
            found = single.emptied.after(noted, migrated, data)
            if found and is_whole:
                single.count(found, key if self._examples else None)
            return
        for stage, each in zip(self._stages, noted, strict=True):
            if stage is self._stages[-1]:
                stage.note_after(each, migrated, data)
            stage.watch.add(each.before, each.after)
            if is_whole:
                stage.count(each.emptied, key if self._examples else None)
        self._is_watching = any(stage.watch.is_open for stage in self._stages)

    def _given(self, number: int, data: bytes) -> Value:
        """What a step is given of a value, made anew."""
        value = self._old.decode(data)
        for stage in self._stages[:number]:
            value = stage.step.conformed(stage.step.run(value))
        return value

    def wants(self, value: Value) -> bool:
        """Whether a value has a field that no other one had when it was looked at."""
        return any(stage.flows.wants(value) for stage in self._stages[:1])

    def look(self, data: bytes) -> None:
        """Try which fields of a value have an effect; of one that got through."""
        if all(stage.flows.is_settled for stage in self._stages):
            return
        for stage in self._stages:
            stage.flows.look(data)
            if stage is self._stages[-1]:
                return
            try:
                data = stage.step.format.encode(stage.step.run(stage.old.decode(data)))
            except (TransformError, ValueMismatchError):
                # It got through a moment ago: a transform that depends on more than its value.
                return

    def fates(self) -> Iterator[tuple[int, str, Fate]]:
        """The number of the step, a field's path, and what became of it."""
        for number, stage in enumerate(self._stages):
            fates = dict(stage.watch.fates())
            for path, flows, attempts in stage.flows.told():
                fates[path].flows, fates[path].attempts = flows, attempts
                fates[path].emptied = stage.counts[path]
                fates[path].keys = stage.keys.get(path, [])
            yield from ((number, path, fate) for path, fate in fates.items())


class _Stage:
    def __init__(
        self, old: Format, step: Step, given: Callable[[bytes], Value], *, examples: bool
    ) -> None:
        self.old, self.step = old, step
        self.watch = Watch(old, step.format, examples=examples)
        self.flows = Flows(old, step)
        self.emptied = Emptied(old, step, given)
        self.counts: Counter[str] = Counter()
        self.keys: dict[str, list[str]] = {}

    def note_after(self, found: Noted, value: Value, data: bytes) -> None:
        """Note what a value has after the step, as a reader finds it."""
        found.after = self.watch.seen(value, 1)
        found.emptied = self.emptied.after(found.had, value, data)

    def count(self, emptied: Sequence[Field], key: Callable[[], str] | None) -> None:
        """Count a value that has less in these fields than it had."""
        for each in emptied:
            self.counts[each.path] += 1
            if key is not None and self.counts[each.path] <= KEYS:
                self.keys.setdefault(each.path, []).append(key())
