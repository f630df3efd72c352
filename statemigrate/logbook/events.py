"""What the log says: events, and what became of each store in one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from statemigrate.files.documents.shapes import VERSION, Maybe, OneOf, Table, check_shape
from statemigrate.logbook.code import Stamp

Verb = Literal[
    "start",
    "retire",
    "found",
    "backfill",
    "adopt",
    "undo adopt",
    "relocate",
    "rewrite",
    "seed",
    "fork",
]
"""What was done. ``start`` is a deployment's first start, ``found`` what the log did not know.

A release takes an event of a verb that it does not have for damage. So these are all there are in
format 1, and what else is to be told stands in the details of one of them: `STEP`.
"""
Change = Literal["first", "upgrade", "downgrade", "other", "none"]
"""What became of the revision that is written; "other" where the way between two is not known."""
FORMAT = 1
STEP = "step"
"""The detail that says which part of its verb an event was, as ``planned`` of a backfill."""
STORES = "stores"
"""The detail of a start that says that it names `ALL` of its stores."""
ALL = "all"
_STORE = {
    "store": str,
    "change": OneOf(get_args(Change)),
    "before": Maybe(str),
    "revision": str,
    "families": [str],
}
_SHAPE = {
    "format": range(FORMAT, FORMAT + 1),
    "time": str,
    "verb": OneOf(get_args(Verb)),
    "batch": VERSION,
    "stores": [_STORE],
    "code": Maybe(str),
    "by": str,
    "statemigrate": str,
    "spark": Maybe(str),
    "details": Table(str),
}


@dataclass(frozen=True)
class StoreChange:
    """A store after an event: the ``revision`` that is written, and all its live families.

    ``before`` is the revision that was written until then, None for the first that is known.
    """

    store: str
    change: Change
    before: str | None
    revision: str
    families: tuple[str, ...]


@dataclass(frozen=True)
class Event:
    """One event of the log.

    ``batch`` is the first batch of what was started, or the one whose state a command was about.
    ``time`` is in ISO 8601, UTC. ``details`` are the verb's own.
    """

    time: str
    verb: Verb
    batch: int
    stores: tuple[StoreChange, ...]
    stamp: Stamp
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def names_all_stores(self) -> bool:
        """Whether a start names what is new and what is not, so that others are no part of it."""
        return self.details.get(STORES) == ALL

    @classmethod
    def now(
        cls,
        verb: Verb,
        batch: int,
        stores: tuple[StoreChange, ...],
        stamp: Stamp,
        details: Mapping[str, str] | None = None,
    ) -> Event:
        """An event of this moment."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        return cls(time, verb, batch, stores, stamp, dict(details or {}))

    def to_json(self) -> dict[str, Any]:
        """The document that is kept."""
        return {
            "format": FORMAT,
            "time": self.time,
            "verb": self.verb,
            "batch": self.batch,
            "stores": [{**asdict(each), "families": list(each.families)} for each in self.stores],
            **asdict(self.stamp),
            "details": dict(self.details),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Event:
        """Read what `to_json` gave. Raises ValueError for anything else."""
        _refuse_newer(document.get("format"))
        check_shape(document, _SHAPE)
        if datetime.fromisoformat(document["time"]).tzinfo is None:
            raise ValueError(f"{document['time']} is a time without a zone")
        stores = tuple(
            StoreChange(
                each["store"],
                each["change"],
                each["before"],
                each["revision"],
                tuple(each["families"]),
            )
            for each in document["stores"]
        )
        stamp = Stamp(*(document[part] for part in ("code", "by", "statemigrate", "spark")))
        return cls(
            document["time"],
            document["verb"],
            document["batch"],
            stores,
            stamp,
            dict(document["details"]),
        )


def _refuse_newer(found: Any) -> None:
    if type(found) is int and found > FORMAT:
        raise ValueError(
            f"format {found}, which a newer release of statemigrate wrote; this one reads up to "
            f"{FORMAT}"
        )
