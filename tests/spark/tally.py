"""A tally a key in three formats, its migrations, and a plain computation of what must be stored.

``moved`` in a value tells by which steps it was migrated and how often: each step adds its own
amount, so a value migrated twice, or on a way it never had to go, shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from statemigrate.scripts import ScriptFolder

CENTS, AMOUNTS, NESTED = "base", "aaaa11112222", "bbbb33334444"
REVISIONS = (CENTS, AMOUNTS, NESTED)
FAMILIES = {CENTS: "tally", AMOUNTS: f"tally@{AMOUNTS}", NESTED: f"tally@{NESTED}"}
UP = {AMOUNTS: 1, NESTED: 10}
DOWN = {AMOUNTS: 100, NESTED: 1000}

CENTS_DDL = "n BIGINT, cents BIGINT, last STRING, moved BIGINT"
AMOUNTS_DDL = "n BIGINT, amount DECIMAL(18,2), last STRING, moved BIGINT"
NESTED_DDL = "sums STRUCT<n: BIGINT, amount: DECIMAL(18,2)>, last ARRAY<STRING>, moved BIGINT"

AMOUNTS_SCRIPT = f"""
from decimal import Decimal
from statemigrate.formats import Struct

revision = "{AMOUNTS}"
down_revision = None
branch_labels = ("tally",)
store = "tally"
old = Struct("{CENTS_DDL}")
new = Struct("{AMOUNTS_DDL}")


def upgrade(value):
    amount = Decimal(value["cents"]).scaleb(-2)
    return {{"n": value["n"], "amount": amount, "last": value["last"], "moved": value["moved"] + 1}}


def downgrade(value):
    cents = int(value["amount"].scaleb(2))
    return {{"n": value["n"], "cents": cents, "last": value["last"], "moved": value["moved"] + 100}}
"""

NESTED_SCRIPT = f"""
from statemigrate.formats import Struct

revision = "{NESTED}"
down_revision = "{AMOUNTS}"
branch_labels = None
store = "tally"
old = Struct("{AMOUNTS_DDL}")
new = Struct("{NESTED_DDL}")


def upgrade(value):
    sums = {{"n": value["n"], "amount": value["amount"]}}
    return {{"sums": sums, "last": [value["last"]], "moved": value["moved"] + 10}}


def downgrade(value):
    sums = value["sums"]
    return {{"n": sums["n"], "amount": sums["amount"], "last": value["last"][0],
            "moved": value["moved"] + 1000}}
"""


class Scripts:
    """A folder of migrations whose scripts come and go as a test deploys."""

    def __init__(self, directory: Path) -> None:
        self.folder = ScriptFolder.create(directory)
        self.directory = directory

    def write(self, amounts: str | None = AMOUNTS_SCRIPT, nested: str | None = None) -> Path:
        """Have exactly these scripts in the folder."""
        for name, text in (("amounts", amounts), ("nested", nested)):
            path = self.folder.versions / f"{name}.py"
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(f'"""Change {name}."""\n{text}')
        return self.directory


class _Tally(StatefulProcessor):
    """Counts rows and adds up cents; says after each batch what it has."""

    ddl = ""

    def init(self, handle: Any) -> None:
        self.state = handle.getValueState("tally", self.ddl)

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:
        found = self.state.get()
        n, cents, last, moved = (0, 0, None, 0) if found is None else self.read(found)
        for row in rows:
            n, cents, last = n + 1, cents + row.cents, row.name
        self.state.update(self.made(n, cents, last, moved))
        yield Row(key=key[0], n=n, cents=cents, last=last, moved=moved)

    def read(self, value: Any) -> tuple[Any, ...]:
        return tuple(value)

    def made(self, *parts: Any) -> tuple[Any, ...]:
        return parts

    def close(self) -> None:
        pass


class CentsTally(_Tally):
    """As it was written first."""

    ddl = CENTS_DDL


class AmountsTally(_Tally):
    """Written for decimal amounts."""

    ddl = AMOUNTS_DDL

    def read(self, value: Any) -> tuple[Any, ...]:
        n, amount, last, moved = value
        return n, int(amount.scaleb(2)), last, moved

    def made(self, n: int, cents: int, last: str, moved: int) -> tuple[Any, ...]:
        return n, Decimal(cents).scaleb(-2), last, moved


class AmountsReader(AmountsTally):
    """Looks at its state and leaves it alone."""

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:
        list(rows)
        n, cents, last, moved = self.read(self.state.get() or (0, Decimal(0), None, 0))
        yield Row(key=key[0], n=n, cents=cents, last=last, moved=moved)


class NestedTally(_Tally):
    """Written for the nested format."""

    ddl = NESTED_DDL

    def read(self, value: Any) -> tuple[Any, ...]:
        sums, last, moved = value
        return sums.n, int(sums.amount.scaleb(2)), last[0], moved

    def made(self, n: int, cents: int, last: str, moved: int) -> tuple[Any, ...]:
        return (n, Decimal(cents).scaleb(-2)), [last], moved


class Expected:
    """The same computation in plain Python: [n, cents, last, moved, revision] by key."""

    def __init__(self) -> None:
        self.values: dict[str, list[Any]] = {}
        self.output: Counter[Any] = Counter()

    def copy(self) -> Expected:
        return deepcopy(self)

    def process(self, batch: Iterable[tuple[str, int, str]], target: str) -> None:
        """A batch of live rows under code written for ``target``."""
        touched = set()
        for key, cents, name in batch:
            value = self.values.setdefault(key, [0, 0, None, 0, target])
            self.move(key, target)
            value[0], value[1], value[2] = value[0] + 1, value[1] + cents, name
            touched.add(key)
        self.output.update((key, *self.values[key][:4]) for key in touched)

    def move(self, key: str, target: str) -> None:
        value = self.values[key]
        at, to = REVISIONS.index(value[4]), REVISIONS.index(target)
        value[3] += sum(UP[step] for step in REVISIONS[at + 1 : to + 1])
        value[3] += sum(DOWN[step] for step in REVISIONS[to + 1 : at + 1])
        value[4] = target

    def drain(self, target: str) -> None:
        """A backfill that came to its end."""
        for key in self.values:
            self.move(key, target)

    def stored(self, *live: str) -> dict[str, dict[str, Any]]:
        """By family what must be stored, for the ``live`` revisions."""
        found: dict[str, dict[str, Any]] = {FAMILIES[revision]: {} for revision in live}
        for key, (n, cents, last, moved, revision) in self.values.items():
            found[FAMILIES[revision]][key] = _value(revision, n, cents, last, moved)
        return found


def _value(revision: str, n: int, cents: int, last: str, moved: int) -> dict[str, Any]:
    amount = Decimal(cents).scaleb(-2)
    if revision == CENTS:
        return {"n": n, "cents": cents, "last": last, "moved": moved}
    if revision == AMOUNTS:
        return {"n": n, "amount": amount, "last": last, "moved": moved}
    return {"sums": {"n": n, "amount": amount}, "last": [last], "moved": moved}


def batch(name: str, keys: Iterable[int], rows_a_key: int = 1) -> list[tuple[str, int, str]]:
    """Rows for the keys ``k<number>``; all of a key's rows have the batch's name."""
    numbers = [number for number in keys for _ in range(rows_a_key)]
    return [(f"k{number}", 3 * number + 7, name) for number in numbers]
