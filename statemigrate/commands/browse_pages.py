"""The pages that show state: its stores, the rows of one, the life of a key, and a difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from statemigrate.commands.diff import StoreDiff, diff_of
from statemigrate.errors import StatemigrateError, rows_hidden
from statemigrate.formats import json_text, plain_rows
from statemigrate.inspect import Bar, BarPart, counted, rendered, utc_time
from statemigrate.native import is_missing
from statemigrate.state import FAILURE_COLUMNS, StateTable, StateTables

if TYPE_CHECKING:
    from statemigrate.state import StoreRows

ROWS = 100
"""Rows of a table on one page."""
_BARS = 64
"""Partitions that have a bar of their own."""


@dataclass(frozen=True)
class StoreCounts:
    """How many rows a store has, by partition and by revision, and the ``size`` of its files.

    ``waiting`` are the revisions whose values migrate when they are read.
    """

    name: str
    partitions: tuple[int, ...]
    revisions: Mapping[str, int]
    waiting: frozenset[str]
    size: int | None

    @classmethod
    def of(cls, state: StateTables, name: str) -> StoreCounts:
        """Count a store's rows."""
        return state.read(name, lambda rows: cls._of_rows(name, rows))

    @classmethod
    def _of_rows(cls, name: str, rows: StoreRows) -> StoreCounts:
        partitions = [0] * rows.partitions
        revisions: dict[str, int] = {}
        sizes = [part.rows.size for part in rows.parts]
        for each in rows.counts():
            partitions[each.partition] += each.count
            revision = each.part.revision
            revisions[revision] = revisions.get(revision, 0) + each.count
        waiting = frozenset(part.revision for part in rows.parts if part.conversion is not None)
        # Families of one store of Spark's are in the same files.
        known = [each for each in sizes if each is not None]
        return cls(name, tuple(partitions), revisions, waiting, max(known, default=None))

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(self.partitions)

    @property
    def left(self) -> int:
        """Rows whose values are not in the target's format yet."""
        return sum(self.revisions[each] for each in self.waiting)

    @property
    def skew(self) -> str:
        """How uneven the partitions are, in words."""
        mean = self.rows / len(self.partitions) if self.partitions else 0
        if not mean:
            return "no rows"
        most = max(self.partitions)
        return f"the largest partition has {most:,} rows, {most / mean:.1f} times the mean"

    def bars(self) -> list[Bar]:
        """A bar a partition, the longest as wide as the chart; of many the largest alone."""
        most = max(self.partitions, default=0) or 1
        by_size = sorted(enumerate(self.partitions), key=lambda each: -each[1])[:_BARS]
        return [
            Bar(
                f"Partition {number}",
                counted(rows, "row"),
                ((BarPart("changed", rows, 0, 100 * rows / most),) if rows else (),),
            )
            for number, rows in sorted(by_size)
        ]


@dataclass(frozen=True)
class UnreadStore:
    """A store whose rows cannot be read, and why."""

    name: str
    error: StatemigrateError


@dataclass(frozen=True)
class PageTable:
    """A table on a page: its columns, and cells as texts."""

    columns: tuple[str, ...]
    cells: list[list[str]]
    note: str = ""


@dataclass
class Browsing:
    """The pages of a checkpoint's state; each is made from what the batch asked for has.

    ``root`` is what their links begin with; a page without links has None.
    """

    root: str | None = ""
    _counts: dict[tuple[int, str], StoreCounts] = field(default_factory=dict)

    def overview(self, state: StateTables) -> str:
        """All stores: their sizes, and what is migrated; or why one cannot be read."""
        counts: list[StoreCounts] = []
        unread: list[UnreadStore] = []
        for name in state.stores:
            try:
                counts.append(self.counts(state, name))
            except StatemigrateError as error:
                if is_missing(error):
                    # A running query may have removed it: the caller looks again.
                    raise
                unread.append(UnreadStore(name, error))
        internal = list(state.internal)
        return self._page(state, "State", counts=counts, unread=unread, internal=internal)

    def store(self, state: StateTables, name: str, key: Sequence[str] = ()) -> str:
        """One store: its keys by partition, its first rows, or the rows and the life of a key."""
        table = state[name]
        words = _given(key)
        found = _first_rows(table) if not words else None
        life = None
        if words and not rows_hidden():
            wanted = table.keys_from(words)
            tables = [table.under(*each) for each in wanted]
            place = next((n for n, each in enumerate(tables) if each.num_rows), 0)
            found = _rows(table.columns, plain_rows(tables[place].slice(0, ROWS)))
            if len(wanted[place]) == len(table.key_columns):
                life = _life(table, wanted[place])
        return self._page(
            state,
            name,
            store=self.counts(state, name),
            table=table,
            rows=found,
            life=life,
            words=[*words, *[""] * (len(table.key_columns) - len(words))],
            searched=bool(words),
        )

    def difference(self, state: StateTables, name: str, before: int) -> str:
        """What differs in one store between a batch and the state's own."""
        found = diff_of(state.at(before), state, name, most=ROWS)
        changed = None if rows_hidden() else _changed(found)
        return self._page(state, name, difference=found, before=before, changed=changed)

    def whole(self, state: StateTables) -> str:
        """Everything on one page without links: stores, their first rows, the newest difference."""
        earlier = [each for each in state.batches if each < state.batch]
        sections = []
        for name in state.stores:
            found = None
            # The batch before may be one whose state Spark has removed.
            for before in reversed(earlier[-1:]):
                try:
                    found = diff_of(state.at(before), state, name, most=ROWS)
                except (StatemigrateError, FileNotFoundError):
                    found = None
            changed = None if found is None or rows_hidden() else _changed(found)
            section = (self.counts(state, name), state[name], _first_rows(state[name]))
            sections.append((*section, found, changed, earlier[-1] if earlier else None))
        counts = [each[0] for each in sections]
        return self._page(
            state, "State", counts=counts, internal=list(state.internal), sections=sections
        )

    def failed(self, title: str, error: StatemigrateError | None = None) -> str:
        """A page for what cannot be shown."""
        parts: list[tuple[str, str]] = []
        if error is not None:
            title = error.headline
            named = {"Expected": error.expected, "Found": error.found, "Next": error.next_action}
            parts = [(name, str(part)) for name, part in named.items() if part is not None]
        return self._rendered(title="State", failure=title, parts_of_failure=parts)

    def counts(self, state: StateTables, name: str) -> StoreCounts:
        """The counts of a store, which are taken once a batch."""
        found = self._counts.get((state.batch, name))
        if found is None:
            found = StoreCounts.of(state, name)
            # A running query has a new batch again and again.
            if len(self._counts) > 1000:
                self._counts.clear()
            self._counts[state.batch, name] = found
        return found

    def link(self, page: str, **query: Any) -> str:
        """The address of a page."""
        return f"{self.root}{page}?{urlencode(query, doseq=True)}"

    def _page(self, state: StateTables, title: str, **data: Any) -> str:
        return self._rendered(title=title, state=state, **data)

    def _rendered(self, **data: Any) -> str:
        empty = dict.fromkeys(
            ("state", "counts", "store", "table", "rows", "life", "difference", "changed")
        )
        return rendered(
            "browse.mako",
            forms=self.root is not None,
            **{
                **empty,
                "browsing": self,
                "internal": [],
                "unread": [],
                "sections": None,
                "words": [],
                "searched": False,
                "before": None,
                "failure": None,
                "parts_of_failure": [],
                "hidden": rows_hidden(),
                "size": _size,
                "made_at": utc_time(datetime.now(UTC).timestamp()),
                "version": version("statemigrate"),
                **data,
            },
        )


def _given(key: Sequence[str]) -> list[str]:
    """The words of a key before the first that is empty."""
    words = list(key)
    return words[: words.index("")] if "" in words else words


def _first_rows(table: StateTable) -> PageTable | None:
    """The first rows of a table; None where values are hidden."""
    if rows_hidden():
        return None
    found: list[dict[str, Any]] = []
    for batch in table.batches():
        found += plain_rows(batch.slice(0, ROWS - len(found)))
        if len(found) == ROWS:
            return _rows(table.columns, found, f"The first {ROWS} rows.")
    return _rows(table.columns, found)


def _rows(columns: Sequence[str], found: list[dict[str, Any]], note: str = "") -> PageTable:
    shown = _shown(columns, found)
    return PageTable(shown, [[_cell(row[name]) for name in shown] for row in found], note)


def _shown(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The columns without those about values that do not migrate, where all of ``rows`` do."""
    return tuple(
        name
        for name in columns
        if name not in FAILURE_COLUMNS or any(row.get(name) is not None for row in rows)
    )


def _cell(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json_text(value)


def _life(table: StateTable, key: tuple[Any, ...]) -> PageTable:
    values, failures = table.layout.value_names, table.layout.failure_names
    rows = plain_rows(table.history(*key))
    for row in rows:
        if row["_change"] == "removed":
            row.update(dict.fromkeys((*values, "_revision", *failures)))
    return _rows(("_batch", "_change", *values, "_revision", *failures), rows)


def _changed(found: StoreDiff) -> PageTable | None:
    if found.table is None:
        return None
    rows = plain_rows(found.table)
    shown = _shown(found.value, [side for row in rows for side in (row, row["_before"] or {})])
    cells = [list(_changed_cells(found, shown, row)) for row in rows]
    count = sum(found.counts.values())
    note = f"The first {ROWS} of {count:,}." if count > ROWS else ""
    return PageTable(("change", *found.key, *shown), cells, note)


def _changed_cells(found: StoreDiff, shown: Sequence[str], row: Mapping[str, Any]) -> Iterator[str]:
    yield row["_change"]
    yield from (_cell(row[name]) for name in found.key)
    before = row["_before"] or {}
    for name in shown:
        old, new = _cell(before.get(name)), _cell(row[name])
        is_changed = row["_change"] == "changed" and old != new
        yield f"{old} \N{RIGHTWARDS ARROW} {new}" if is_changed else new or old


def _size(number: int | None) -> str:
    if number is None:
        return "unknown"
    size = float(number)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
