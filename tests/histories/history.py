"""A history: what was deployed on one checkpoint, life after life, as plain JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal


@dataclass
class Life:
    """One deployment, from its start to its end.

    ``before`` is done while nothing runs: plan, pause, adopt, undo, rollback (which takes the
    backfill source out, or not), copy, backup, restore, or lose something. ``feed`` has by input
    file the rows [key, operations]. ``early`` means that the processor object was made before the
    life before this one. ``end`` is how the life is killed: ["processor", file of the life, key],
    ["process", file of the life, key] or ["sink", n-th call].
    """

    revisions: dict[str, int]
    scripts: dict[str, int]
    feed: list[list[list[Any]]] = field(default_factory=list)
    before: list[list[Any]] = field(default_factory=list)
    code: Literal["plain", "migrated"] = "migrated"
    wrapper: Literal["class", "instance"] = "instance"
    targets: Literal["head", "named"] = "named"
    checkpoint: Literal["right", "none", "typo", "other"] = "right"
    backfill: bool = False
    early: bool = False
    edited: list[str] = field(default_factory=list)
    write_on_read: bool = True
    retire: bool = True
    end: list[Any] | None = None


@dataclass
class History:
    """``types`` has by store the type of its field; ``one_way`` the steps without a downgrade."""

    types: dict[str, str]
    key: str
    lives: list[Life]
    user_key: str = "string"
    in_pandas: bool = False
    named: bool = False
    inputs: int = 1
    one_way: dict[str, list[int]] = field(default_factory=dict)

    def text(self) -> str:
        """One line that repeats it."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> History:
        """The history of such a line."""
        document = json.loads(text)
        return cls(**{**document, "lives": [Life(**each) for each in document["lives"]]})
