"""The steps of a path one by one, with an eye on what each makes of the fields."""

from __future__ import annotations

from collections.abc import Iterator

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.formats import Format, Value
from statemigrate.inspect.trial.fields.fates import Fate, Seen, Watch
from statemigrate.inspect.trial.fields.flows import Flows
from statemigrate.migration import Path, Step

Noted = list[tuple[list[Seen], list[Seen]]]


class Stages:
    """Takes values along a path as `Path.apply` does, and notes every field's fate at each step.

    ``old`` is the format of the values at the start; without ``examples`` no value is kept.
    """

    def __init__(self, old: Format, path: Path, *, examples: bool = True) -> None:
        formats = [old, *(step.format for step in path.steps)]
        pairs = zip(formats, path.steps, strict=False)
        self._stages = [_Stage(before, step, examples=examples) for before, step in pairs]
        self._path = path
        self._is_watching = True

    def apply(self, value: Value) -> tuple[Value, Noted]:
        """Return the value at the path's end, and what to tell `arrived` once it is known to fit.

        Raises TransformError as the path would.
        """
        noted: Noted = []
        if not self._is_watching:
            return self._path.apply(value), noted
        for stage in self._stages[:-1]:
            value = stage.pass_on(value, noted)
        for stage in self._stages[-1:]:
            before = stage.watch.seen(value, 0)
            value = stage.step.run(value)
            noted.append((before, []))
        return value, noted

    def arrived(self, noted: Noted, migrated: Value) -> None:
        """Count a value that got through, ``migrated`` as a reader finds it."""
        if not noted:
            return
        for stage, (before, after) in zip(self._stages, noted, strict=True):
            is_last = stage is self._stages[-1]
            stage.watch.add(before, stage.watch.seen(migrated, 1) if is_last else after)
        self._is_watching = any(stage.watch.is_open for stage in self._stages)

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
            yield from ((number, path, fate) for path, fate in fates.items())


class _Stage:
    def __init__(self, old: Format, step: Step, *, examples: bool) -> None:
        self.old, self.step = old, step
        self.watch = Watch(old, step.format, examples=examples)
        self.flows = Flows(old, step)

    def pass_on(self, value: Value, noted: Noted) -> Value:
        before = self.watch.seen(value, 0)
        value = self.step.run(value)
        self.step.check(value)
        noted.append((before, self.watch.seen(self.step.format.conform(value), 1)))
        return value
