"""How large a demonstration is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from statemigrate.errors import StatemigrateError

MINIMUM_KEYS = 100
Engine = Literal["embedded", "native", "paged", "rewrite", "preview"]

_LIVE = (300_000, 100_000, 4)
_SMALL = (120_000, 40_000, 2)
_SIZES: dict[Engine, tuple[int, int, int]] = {
    "native": _SMALL,
    "embedded": _LIVE,
    "paged": _LIVE,
    "rewrite": _SMALL,
    "preview": _SMALL,
}
"""By engine: events, keys and partitions where they are not given."""


@dataclass(frozen=True)
class DemoOptions:
    """Sizes and seed of a demonstration; the same options give the same events.

    ``keys`` is the number of persons and auctions together, ``events`` that of their rows and the
    bids. ``engine`` says where the state lives, or that a built-in operator's is rewritten, or a
    change of its code previewed; ``master`` which Spark runs it, and the embedded engine needs a
    local one. Raises `StatemigrateError` for sizes that leave nothing to show.
    """

    events: int = _SMALL[0]
    keys: int = _SMALL[1]
    partitions: int = _SMALL[2]
    seed: int = 7
    engine: Engine = "native"
    master: str = "local[*]"

    @classmethod
    def sized(
        cls,
        engine: Engine,
        events: int | None = None,
        keys: int | None = None,
        partitions: int | None = None,
        *,
        seed: int,
        master: str,
    ) -> DemoOptions:
        """The options, with the usual sizes of ``engine`` where others are not given."""
        usual = _SIZES[engine]
        return cls(
            usual[0] if events is None else events,
            usual[1] if keys is None else keys,
            usual[2] if partitions is None else partitions,
            seed,
            engine,
            master,
        )

    def __post_init__(self) -> None:
        if self.keys < MINIMUM_KEYS:
            raise StatemigrateError(
                "SM-DEMO-003",
                "there are too few keys for a demonstration",
                expected=f"at least {MINIMUM_KEYS}",
                found=self.keys,
                next_action=f"--keys {MINIMUM_KEYS} or more",
            )
        if self.events < 2 * self.keys:
            raise StatemigrateError(
                "SM-DEMO-004",
                f"{self.events} events are too few for {self.keys} keys",
                expected=f"at least {2 * self.keys}: every key takes one, the others are bids",
                found=self.events,
                next_action=f"--events {3 * self.keys}, or fewer --keys",
            )
        if self.engine == "embedded" and not self.master.startswith("local"):
            raise StatemigrateError(
                "SM-DEMO-005",
                f"the embedded engine keeps its state on one machine, not on {self.master}",
                expected="a local master",
                found=self.master,
                next_action="--engine native or paged, or leave --master out",
            )
        if self.partitions < 1:
            raise StatemigrateError(
                "SM-DEMO-006",
                "the state needs at least one partition",
                expected="1 or more",
                found=self.partitions,
                next_action="--partitions 4",
            )

    @property
    def persons(self) -> int:
        """The number of persons."""
        return self.keys // 5

    @property
    def auctions(self) -> int:
        """The number of auctions."""
        return self.keys - self.persons

    @property
    def bids(self) -> int:
        """The number of bids."""
        return self.events - self.keys
