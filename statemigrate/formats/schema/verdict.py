"""The words a comparison speaks in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from statemigrate.formats.schema.nodes import Node


class Verdict(StrEnum):
    """What it takes to read values of the old format in the new one.

    IDENTICAL: nothing, the bytes are the same. READABLE: Avro's schema resolution, no script.
    TRANSFORM: a migration script.
    """

    IDENTICAL = "identical"
    READABLE = "readable"
    TRANSFORM = "needs a transform"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict that asks for most; IDENTICAL if there are none."""
    order = list(Verdict)
    return max(verdicts, key=order.index, default=Verdict.IDENTICAL)


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One difference. ``path`` is like ``items[].price`` or ``prices{}.cents``.

    ``old`` and ``new`` name the types; None where the field does not exist. ``source`` is the path
    of the old field where the new one is taken for it under another name, or at another place.
    """

    path: str
    old: str | None
    new: str | None
    verdict: Verdict
    note: str = ""
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A `FieldChange` with the types themselves, or a text in place of one."""

    path: str
    old: Node | str | None
    new: Node | str | None
    verdict: Verdict
    note: str = ""
    source: str | None = None
