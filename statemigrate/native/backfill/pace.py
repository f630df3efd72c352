"""How fast a planned backfill is to go beside live rows, as the plan keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from statemigrate.errors import StartupError
from statemigrate.files.documents.shapes import Maybe

RATED_SHARE = 0.5
"""The most of a batch that a rate may take where no share was said."""
SHAPE = Maybe({"share": object, "keys_per_second": Maybe(object)}, missing=True)
"""What a plan's document has of it."""


@dataclass(frozen=True)
class Pace:
    """At most ``share`` of a batch's time (0 to 1), and at most ``keys_per_second``."""

    share: float
    keys_per_second: float | None = None

    @classmethod
    def of(cls, share: float | None, keys_per_second: float | None) -> Pace | None:
        """What was asked for; None for neither. Raises `StartupError` for what cannot be kept."""
        if share is None and keys_per_second is None:
            return None
        if share is not None and not 0 < share < 1:
            raise _unusable(
                "SM-BACKFILL-005",
                "a backfill's share is a part of a batch",
                "more than 0, below 1",
                share,
            )
        if keys_per_second is not None and not keys_per_second > 0:
            raise _unusable(
                "SM-BACKFILL-006",
                "a backfill's rate is in keys a second",
                "above 0",
                keys_per_second,
            )
        return cls(RATED_SHARE if share is None else share, keys_per_second)

    @classmethod
    def from_document(cls, document: dict[str, Any] | None) -> Pace | None:
        """What a plan's document has. Raises ValueError for what `of` refuses."""
        if document is None:
            return None
        share, rate = document["share"], document.get("keys_per_second")
        if not isinstance(share, float) or not isinstance(rate, float | int | None):
            raise ValueError(f"a pace of {share!r} and {rate!r}")  # noqa: TRY004 - a document's
        try:
            return cls.of(share, rate)
        except StartupError as error:
            raise ValueError(str(error)) from error


def _unusable(code: str, what: str, expected: str, found: float) -> StartupError:
    return StartupError(
        code, what, expected=expected, found=found, next_action="0.25, for example, is a quarter"
    )
