"""Comparing what is there with what must be there, key by key and field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from statemigrate.demo.stage.rows import COLUMNS

Summaries = Mapping[str, tuple[Any, ...]]
"""By entity, the other columns, as those of `statemigrate.demo.stage.rows.COLUMNS`."""

_EXAMPLES = 3


@dataclass(frozen=True)
class Comparison:
    """How many keys were compared, and how many are not as they must be.

    ``unexpected`` keys belong to no event. ``counted_twice`` are those of the differing ones whose
    number or sum of bids is too large. ``examples`` says what the first few differences are.
    """

    keys: int
    missing: int
    unexpected: int
    differing: int
    counted_twice: int
    examples: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference at all, and something to compare."""
        return self.keys > 0 and not (self.missing or self.unexpected or self.differing)

    def to_json(self) -> dict[str, Any]:
        """The form for machines."""
        return {**asdict(self), "equal": self.is_equal}


def compare_summaries(
    expected: Summaries, found: Summaries, columns: Sequence[str] = COLUMNS
) -> Comparison:
    """Compare ``found`` with ``expected``: every key of either, every field.

    The first of the ``columns`` is the key; ``bids`` and ``total`` are among them.
    """
    counting = [columns.index(name) - 1 for name in ("bids", "total")]
    missing = [key for key in expected if key not in found]
    unexpected = [key for key in found if key not in expected]
    differing = [key for key, row in expected.items() if key in found and found[key] != row]
    twice = [key for key in differing if _is_larger(found[key], expected[key], counting)]
    wrong = (missing + unexpected + differing)[:_EXAMPLES]
    examples = tuple(
        f"{key}: expected {expected.get(key)}, found {found.get(key)}" for key in wrong
    )
    return Comparison(
        len(expected), len(missing), len(unexpected), len(differing), len(twice), examples
    )


def _is_larger(found: tuple[Any, ...], expected: tuple[Any, ...], places: list[int]) -> bool:
    return any((found[at] or 0) > (expected[at] or 0) for at in places)
