"""A query with two operators on pages, each with a name, and a plain computation of both."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from native_pipeline import NativePipeline
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from tally import AMOUNTS_SCRIPT, CENTS_DDL

import statemigrate

COUNTS, SEEN = "base", "cccc55556666"
COUNTS_DDL, SEEN_DDL = "n BIGINT", "seen BIGINT, steps BIGINT"
SEEN_SCRIPT = f'''"""Change counts."""
from statemigrate.formats import Struct

revision = "{SEEN}"
down_revision = None
branch_labels = ("counts",)
store = "counts"
old = Struct("{COUNTS_DDL}")
new = Struct("{SEEN_DDL}")


def upgrade(value):
    return {{"seen": value["n"], "steps": 1}}


def downgrade(value):
    return {{"n": value["seen"]}}
'''


class Tally(StatefulProcessor):
    """Counts a key's rows and adds up cents, in the format of `CentsTally`."""

    store, ddl = "tally", CENTS_DDL

    def init(self, handle: Any) -> None:
        self.state = handle.getValueState(self.store, self.ddl)

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:
        n, cents, last, moved = self.read(self.state.get())
        for row in rows:
            n, cents, last = n + 1, cents + row.cents, row.name
        self.state.update(self.made(n, cents, last, moved))
        yield Row(of=self.store, key=key[0], n=n)

    def read(self, found: Any) -> tuple[Any, ...]:
        return (0, 0, None, 0) if found is None else tuple(found)

    def made(self, *parts: Any) -> tuple[Any, ...]:
        return parts

    def close(self) -> None:
        pass


class NewTally(Tally):
    """The same for decimal amounts."""

    ddl = "n BIGINT, amount DECIMAL(18,2), last STRING, moved BIGINT"

    def read(self, found: Any) -> tuple[Any, ...]:
        if found is None:
            return 0, 0, None, 0
        n, amount, last, moved = found
        return n, int(amount.scaleb(2)), last, moved

    def made(self, n: int, cents: int, last: str, moved: int) -> tuple[Any, ...]:
        return n, Decimal(cents).scaleb(-2), last, moved


class Counts(StatefulProcessor):
    """Counts a key's rows."""

    ddl = COUNTS_DDL

    def init(self, handle: Any) -> None:
        self.state = handle.getValueState("counts", self.ddl)

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:
        n, *rest = self.state.get() or self.beginning
        n += sum(1 for _ in rows)
        self.state.update((n, *rest))
        yield Row(of="counts", key=key[0], n=n)

    beginning: tuple[int, ...] = (0,)

    def close(self) -> None:
        pass


class NewCounts(Counts):
    """The same in the format that tells of steps."""

    ddl = SEEN_DDL
    beginning = (0, 0)


def write_scripts(scripts: Any) -> Any:
    """The folder, with the scripts of both stores."""
    folder = scripts.write(AMOUNTS_SCRIPT)
    (folder / "versions" / "counts.py").write_text(SEEN_SCRIPT)
    return folder


@dataclass
class TwoPaged(NativePipeline):
    """One stream into a tally by ``key`` and counts by ``name``, both on pages.

    ``names`` are the operators', None for one without.
    """

    output: str = "of STRING, key STRING, n BIGINT"
    names: tuple[str | None, str | None] = ("tallies", "counts")
    groups: tuple[str, str] = ("key", "name")
    numbers: tuple[int, int] = (4, 3)
    apart: bool = False
    """Whether each operator has a stream of its own, of the same files."""

    def result(self, processor: Any, stream: Any = None) -> Any:
        stream = self.stream() if stream is None else stream
        other = self.stream() if self.apart else stream
        parts = zip(processor, self.groups, self.names, self.numbers, strict=True)
        tallied, counted = (
            self.paged(of, *each) for of, each in zip((stream, other), parts, strict=True)
        )
        return tallied.union(counted)

    def paged(self, stream: Any, processor: Any, by: str, name: str | None, pages: int) -> Any:
        return statemigrate.paged(
            stream,
            by=by,
            processor=processor,
            output=self.output,
            checkpoint=self.checkpoint,
            pages=pages,
            operator=name,
        )

    def values(self, store: str, folder: Any, operator: str | int | None) -> dict[str, Any]:
        """Every key's value in the target's format, as `open_state` gives it."""
        with statemigrate.open_state(
            self.checkpoint, migrations=folder, operator=operator, spark=self.spark
        ) as state:
            return {key[0]: value for key, value in state[store].entries()}


class Model:
    """What must be stored of rows, whatever was migrated when."""

    def __init__(self) -> None:
        self.tally: dict[str, list[Any]] = {}
        self.counts: dict[str, int] = {}

    def add(self, rows: Any) -> Any:
        """The same rows, once they are counted."""
        for key, cents, name in rows:
            found = self.tally.setdefault(key, [0, 0, None])
            found[:] = [found[0] + 1, found[1] + cents, name]
            self.counts[name] = self.counts.get(name, 0) + 1
        return rows

    def old_tallies(self) -> dict[str, Any]:
        return {
            key: {"n": n, "cents": cents, "last": last, "moved": 0}
            for key, (n, cents, last) in self.tally.items()
        }

    def new_tallies(self, moved: Any = lambda _: 1) -> dict[str, Any]:
        return {
            key: {"n": n, "amount": Decimal(cents).scaleb(-2), "last": last, "moved": moved(key)}
            for key, (n, cents, last) in self.tally.items()
        }

    def old_counts(self) -> dict[str, Any]:
        return {name: {"n": n} for name, n in self.counts.items()}

    def new_counts(self, steps: Any = lambda _: 1) -> dict[str, Any]:
        return {name: {"seen": n, "steps": steps(name)} for name, n in self.counts.items()}
