"""What the buffer of a changed function is computed from, where that is proven.

A sum of whole numbers that becomes one of decimals keeps a field more, ``isEmpty``. What Spark has
there for an empty group would make nothing of every sum: it says that no row has come yet. It is
true where the old sum is null, and there the new sum is zero, as in Spark's own buffers.
"""

from __future__ import annotations

import re
from typing import Literal

from statemigrate.rewrite.plan.pairing.aggregates import AggregateFunction
from statemigrate.rewrite.plan.pairing.types import is_same, is_wider

Rule = Literal["", "is null", "zero if null"]
"""How a field is computed from an old one: taken as it is, or in a wider type; or as named."""
_KEEP_VALUES = ("Sum", "Max", "Min", "First", "Last")
"""Functions that give the same, in a wider type, of arguments that are cast to a wider type."""
_WITH_ZERO = ("long", "decimal")
"""Types of sums whose zero is known here."""
_SCALE = re.compile(r"decimal\(\d+,(\d+)\)")


def rules_between(
    old: AggregateFunction, new: AggregateFunction
) -> tuple[tuple[int, Rule], ...] | None:
    """By each field of the new buffer the place of the old one in its buffer, and the rule.

    None where the new buffer cannot be computed from the old one.
    """
    before, after = old.fields, new.fields
    names = [name for name, _ in before], [name for name, _ in after]
    if names[0] == names[1]:
        pairs = [(one[1], other[1]) for one, other in zip(before, after, strict=True)]
        if all(is_same(one, other) or is_wider(one, other) for one, other in pairs):
            return tuple((at, "") for at in range(len(after)))
    if names == (["sum"], ["sum", "isEmpty"]) and str(after[0][1]).startswith(_WITH_ZERO):
        one, other = before[0][1], after[0][1]
        if is_same(one, other) or is_wider(one, other):
            return (0, "zero if null"), (0, "is null")
    return None


def derived(old: AggregateFunction, new: AggregateFunction, *, is_known: bool) -> bool:
    """Whether the new function can go on with what the old one has kept.

    Where the old code is not known, a sum of ``long`` may be one of the digits of decimals: then it
    becomes no decimal with digits behind the point.
    """
    if old.has_shape_of(new):
        return True
    rules = rules_between(old, new)
    if rules is None:
        return False
    if is_known:
        fits = is_same(old.argument, new.argument) or is_wider(old.argument, new.argument)
        return fits and old.function == new.function and new.function in _KEEP_VALUES
    scale = _SCALE.fullmatch(str(new.fields[0][1]))
    whole = str(old.fields[0][1]) in ("byte", "short", "integer", "long")
    return not (whole and scale is not None and int(scale[1]) > 0)
