"""Taking one family's values through the transforms, writing nothing."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.formats import Format, Value
from statemigrate.inspect.trial.fields.effects import changes, shown, shown_key, shown_whole
from statemigrate.inspect.trial.fields.group import Group
from statemigrate.inspect.trial.fields.renames import Renames
from statemigrate.inspect.trial.fields.stages import Stages
from statemigrate.inspect.trial.findings import Findings
from statemigrate.inspect.trial.sizes import Sizes
from statemigrate.migration import Path

WAY_BACK = "the way back fails: "
"""How a difference is named where there is no value to compare."""
_NOTE = 200
_LOOK_AT = 16
"""Of so many values one has its fields compared, which costs as much as trying it."""


class Trial:
    """Values of one family, each migrated to the target and, where there is a way, back again.

    ``old`` and ``new`` are the formats at the path's ends; ``back`` is None where there is no way
    back. ``show`` turns a key as the caller has it into what a user knows. Without ``examples`` no
    key and no value is noted.
    """

    def __init__(
        self,
        old: Format,
        new: Format,
        path: Path,
        back: Path | None,
        show: Callable[[Any], Any],
        *,
        examples: bool = True,
    ) -> None:
        self.findings = Findings()
        self._examples = examples
        self._old, self._new = old, new
        self._back = back
        self._stages = Stages(old, path, examples=examples)
        self._renames = Renames(old.schema, new.schema, examples=examples)
        self._show = show
        self._key: Any = None
        self._is_whole = True
        self._began = time.monotonic()
        self._before, self._after = Sizes(), Sizes()

    def run(self, key: Any, data: bytes, value: Value) -> None:
        """Try one value, given as the bytes that the old format writes and what they say.

        ``value`` may be changed.
        """
        found = self.findings
        found.tried += 1
        self._key = key
        looked_at = found.tried % _LOOK_AT == 1
        wanted = looked_at or self._stages.wants(value)
        try:
            # What the target's family stores is what its format writes; that also validates.
            # What comes back is as the next reader finds it: defaults filled in, numbers converted.
            reached, noted = self._stages.apply(value, data)
            written, migrated = self._new.encode_conformed(reached)
        except (TransformError, ValueMismatchError) as error:
            self._fail(error)
            return
        self._stages.arrived(noted, migrated, data, self._shown_key, is_whole=self._is_whole)
        self._before.note(len(data))
        self._after.note(len(written))
        if looked_at:
            self._look(data, migrated)
        if wanted:
            self._stages.look(data)
        if self._back is not None:
            self._return(self._back, data, migrated)

    def finished(self, stored: int) -> Findings:
        """The findings, of a family that holds ``stored`` values in this partition."""
        found = self.findings
        found.stored = stored
        found.seconds = time.monotonic() - self._began
        found.bytes_before, found.sizes_before = self._before.counted()
        found.bytes_after, found.sizes_after = self._after.counted()
        found.renames, found.parts = self._renames.told(), self._renames.parts()
        found.fates = {f"{number} {path}": fate for number, path, fate in self._stages.fates()}
        return found

    def _return(self, back: Path, data: bytes, migrated: Value) -> None:
        try:
            again = self._old.encode(back.apply(migrated))
        except (TransformError, ValueMismatchError) as error:
            self.findings.differing += 1
            self._note(self.findings.differences, f"{WAY_BACK}{cause_of(error)}")
            return
        # The entries of a map may be written in another order.
        if again != data and (found := self._old.decode(again)) != self._old.decode(data):
            self._differ(data, found)

    def _differ(self, data: bytes, again: Value) -> None:
        self.findings.differing += 1
        before, schema = self._old.decode(data), self._old.schema
        for effect, path, old, new in changes(before, again, schema, schema):
            if effect != "kept":
                self._note(self.findings.differences, path, old, new)

    def _look(self, data: bytes, migrated: Value) -> None:
        self.findings.looked_at += 1
        before = self._old.decode(data)
        for effect, path, old, new in changes(before, migrated, self._old.schema, self._new.schema):
            group = self.findings.group(self.findings.fields, f"{effect} {path}")
            group.values += 1
            if effect != "kept" and self._wants_example(group):
                group.examples.append(self._example(effect, old, new))
        key = shown_key(self._show(self._key)) if self._examples else ""
        self._renames.look(key, before, migrated)
        if self._examples and self.findings.wants_values:
            self.findings.values.append((key, shown_whole(before), shown_whole(migrated)))

    def _shown_key(self) -> str:
        return shown_key(self._show(self._key))

    def _example(self, effect: str, old: Any, new: Any) -> tuple[str, str | None, str | None]:
        before = None if effect == "added" else shown(old)
        after = None if effect == "removed" else shown(new)
        return shown_key(self._show(self._key)), before, after

    def _fail(self, error: TransformError | ValueMismatchError) -> None:
        self.findings.failed += 1
        group = self._note(self.findings.failures, cause_of(error))
        if not self._examples:
            return
        if group.wants_key:
            group.keys.append(shown_key(self._show(self._key)))
        group.note = group.note or f"{error.found}"[:_NOTE]

    def _wants_example(self, group: Group) -> bool:
        return self._examples and group.wants_example

    def _note(self, groups: dict[str, Group], name: str, *sides: Any) -> Group:
        group = self.findings.group(groups, name)
        group.values += 1
        if sides and self._wants_example(group):
            group.examples.append(self._example("changed", *sides))
        return group


def cause_of(error: TransformError | ValueMismatchError) -> str:
    """Why a value did not migrate, in words that other values with the same trouble share."""
    if isinstance(error, ValueMismatchError):
        return _mismatch(error)
    step = f"{error.data['source']} to {error.data['target']}"
    cause = error.__cause__
    if isinstance(cause, ValueMismatchError):
        return f"{step}: {_mismatch(cause)}"
    if cause is None:
        return f"{step}: returned {error.found}"
    return f"{step}: {type(cause).__name__}{_place(cause)}"


def _mismatch(error: ValueMismatchError) -> str:
    field = error.data.get("field") or "the value"
    return f"the new format cannot hold {field}: expected {error.expected}"


def _place(cause: BaseException) -> str:
    frames = traceback.extract_tb(cause.__traceback__)
    last = frames[-1] if frames else None
    return "" if last is None else f" in line {last.lineno}: {last.line or last.name}"
