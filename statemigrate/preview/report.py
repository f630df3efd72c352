"""What a preview has found, as data: printed, and written as JSON or Markdown, by others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from statemigrate.errors import rows_hidden
from statemigrate.formats import Mask
from statemigrate.preview.comparison import Difference, Example
from statemigrate.preview.expectations import Expectations
from statemigrate.state import FAILURE_COLUMNS

Path = Literal["as it is", "live", "rewritten"]
"""How the state before the first batch came to the new code."""


@dataclass(frozen=True)
class Noise:
    """A field that the old code does not compute as the query has: it is not compared.

    ``cause`` says whether two runs of the old code agree.
    """

    store: str
    field: str
    cause: str

    def to_json(self) -> dict[str, str]:
        """The parts, for machines."""
        return {"store": self.store, "field": self.field, "cause": self.cause}


@dataclass(frozen=True)
class PreviewedBatch:
    """A batch: what differs in each store after it, and in the output where that is known.

    ``old_seconds`` is None where no old code was run. ``watermark`` is the new code's after the
    batch, ``old_watermark`` the query's own.
    """

    batch: int
    stores: tuple[Difference, ...]
    output: Difference | None
    new_seconds: float
    old_seconds: float | None
    watermark: int
    old_watermark: int

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Those of the stores, and of the output."""
        return self.stores if self.output is None else (*self.stores, self.output)

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "batch": self.batch,
            "stores": [each.to_json() for each in self.stores],
            "output": None if self.output is None else self.output.to_json(),
            "new_seconds": round(self.new_seconds, 3),
            "old_seconds": None if self.old_seconds is None else round(self.old_seconds, 3),
            "watermark": self.watermark,
            "old_watermark": self.old_watermark,
        }


@dataclass(frozen=True)
class Preview:
    """New code run on the last committed batches of a query, compared with the query's own state.

    ``reference`` says with what it was compared: "control", a run of the old code, or "production".
    ``path`` is how the state came to the new code. ``square`` is what differs between the state
    migrated after the batches and before them, None where nothing is migrated.
    """

    checkpoint: str
    code: str
    old_code: str | None
    before: int
    batches: tuple[PreviewedBatch, ...]
    path: Path
    noise: tuple[Noise, ...] = ()
    square: tuple[Difference, ...] | None = None
    expectations: Expectations = field(default_factory=Expectations)

    @property
    def reference(self) -> str:
        """With what the new code's state was compared."""
        return "production" if self.old_code is None else "control"

    @property
    def unexpected(self) -> tuple[str, ...]:
        """What nobody has expected, each with the first batch where it was found."""
        first: dict[str, tuple[int, str]] = {}
        for each in self.batches:
            for found in each.differences:
                for text in self.expectations.unexpected(found):
                    what = text.partition(": ")[0] if ": " in text else text
                    kind = f"{what} {text.rpartition(' ')[2]}"
                    first.setdefault(kind, (each.batch, text))
        texts = [f"batch {batch}: {text}" for batch, text in first.values()]
        if any(each.watermark != each.old_watermark for each in self.batches):
            batch = next(e.batch for e in self.batches if e.watermark != e.old_watermark)
            texts.append(f"batch {batch}: another watermark")
        for found in self.square or ():
            for text in Expectations(noise=self.expectations.noise).unexpected(found):
                texts.append(f"migrated after the batches and before them: {text}")
        return tuple(texts)

    @property
    def is_expected(self) -> bool:
        """Whether nothing differs but what is expected."""
        return not self.unexpected

    def masked(self, mask: Mask, stores: Mapping[str, str] | None = None) -> Preview:
        """The same with hashes in place of the values of the masked columns.

        ``stores`` has the engine's names of stores by those that the project gives them.
        """
        known = stores or {}
        batches = tuple(
            replace(
                each,
                stores=tuple(_masked(found, mask, known) for found in each.stores),
                output=None if each.output is None else _masked(each.output, mask, {}),
            )
            for each in self.batches
        )
        square = self.square
        if square is not None:
            square = tuple(_masked(each, mask, known) for each in square)
        return replace(self, batches=batches, square=square)

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "checkpoint": self.checkpoint,
            "code": self.code,
            "old_code": self.old_code,
            "before": self.before,
            "path": self.path,
            "reference": self.reference,
            "batches": [each.to_json() for each in self.batches],
            "noise": [each.to_json() for each in self.noise],
            "square": None if self.square is None else [each.to_json() for each in self.square],
            "unexpected": list(self.unexpected),
            "expected": self.is_expected,
        }

    def totals(self) -> Iterator[tuple[str, int, int, int, Mapping[str, int]]]:
        """By store, over all batches: rows added, missing and changed, and changes by field."""
        names = dict.fromkeys(found.store for each in self.batches for found in each.differences)
        for name in names:
            every = [f for each in self.batches for f in each.differences if f.store == name]
            fields: dict[str, int] = {}
            for found in every:
                for column, count in found.fields.items():
                    fields[column] = fields.get(column, 0) + count
            yield (
                name,
                sum(each.added for each in every),
                sum(each.missing for each in every),
                sum(each.changed for each in every),
                fields,
            )


def _masked(found: Difference, mask: Mask, stores: Mapping[str, str]) -> Difference:
    if rows_hidden():
        return replace(found, examples=())
    if not mask.names:
        return found
    places = [found.store, *([stores[found.store]] if found.store in stores else [])]
    masked = _MaskedRow(mask, places, found.own_names)
    return replace(found, examples=tuple(map(masked.example, found.examples)))


@dataclass(frozen=True)
class _MaskedRow:
    """Masks rows of a store, which has the names in ``places``."""

    mask: Mask
    places: Sequence[str]
    own_names: Mapping[str, frozenset[str]]

    def example(self, found: Example) -> Example:
        """An example with hashes."""
        key = self._row(found.key)
        return Example(found.change, key or {}, self._row(found.before), self._row(found.after))

    def _row(self, row: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if row is None:
            return None
        return {name: self._column(name, each) for name, each in row.items()}

    def _column(self, name: str, value: Any) -> Any:
        # Either quotes a value whole, whichever of its fields are masked.
        if name in FAILURE_COLUMNS:
            return self.mask.hashed(value)
        for own in {name, *self.own_names.get(name, ())}:
            made = self._value(own, value, self.places)
            if made != value:
                return made
        return value

    def _value(self, name: str, value: Any, places: Sequence[str]) -> Any:
        """A value, with hashes for what the mask covers in it, at any depth."""
        if self.mask.hides(name, places):
            return self.mask.hashed(value)
        return self._within(value, [f"{each}.{name}" for each in places])

    def _within(self, value: Any, places: Sequence[str]) -> Any:
        if isinstance(value, Mapping):
            return {key: self._value(str(key), each, places) for key, each in value.items()}
        if isinstance(value, list):
            return [self._within(each, places) for each in value]
        return value
