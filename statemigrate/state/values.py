"""Values where they are, and the tasks that are run over them there.

A task travels to the workers that read the values, is called for each part of them that one worker
has, and what it says of a part comes back as a JSON document. Nothing else of the values moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from statemigrate.formats import Value

Tick = Callable[[int], None]
"""Is told, from time to time, how many values have been read so far."""
Document = dict[str, Any]
"""What JSON can hold."""


def no_tick(done: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Share:
    """``take`` of ``of`` things, evenly spread."""

    take: int
    of: int

    def picks(self, index: int) -> bool:
        """Whether the one at ``index`` is among them."""
        return (index + 1) * self.take // self.of > index * self.take // self.of

    @property
    def is_all(self) -> bool:
        """Whether it is all of them."""
        return self.take == self.of


ALL = Share(1, 1)
Shares = Mapping[str, Mapping[int, Share]]
"""By family and partition, what of it is read; all of it where nothing is said."""


@dataclass
class Part:
    """The values of one family that one worker reads.

    ``values`` gives for each its key, the bytes that the family's format writes, and the plain
    value, which may be changed. A key is as the engine has it; ``shown`` turns it into the tuple
    that a user knows. ``seen`` counts what was passed, read or left out.
    """

    family: str
    shown: Callable[[Any], tuple[Any, ...]]
    values: Iterator[tuple[Any, bytes, Value]] = field(default_factory=lambda: iter(()))
    seen: int = 0


Task = Callable[[Part], Document]
"""What is done with a part. It must travel to workers, and consume all of the part's values."""


class Values(Protocol):
    """The values of some families."""

    def map(
        self, task: Task, *, shares: Shares | None = None, tick: Tick = no_tick
    ) -> Iterator[tuple[str, Document]]:
        """Run ``task`` over them, in parallel, on Spark; a family and a document for each part.

        ``shares`` says what of them the task sees. Raises what the task raises.
        """
