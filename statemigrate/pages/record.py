"""What a paged query leaves in its checkpoint about its pages, for tools and for its next start.

Spark knows of binary values alone: number of pages, key columns and the families' formats are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from statemigrate.checkpoint.operators import operator_files
from statemigrate.deployment import StoredStore
from statemigrate.files import Files, sealed, understood, unsealed
from statemigrate.native import PAGES, is_name, is_pages, paged_names

RECORD = "statemigrate/pages.json"
"""The file, below the checkpoint; that of an operator with a name is `record_name`."""
RECORDS = "statemigrate/paged"
"""Where the records of operators with names are, below the checkpoint."""
VARIABLE = PAGES
"""The state variable that has the pages; that of an operator with a name is `variable_of`."""
SCHEMA = "page BINARY"
"""Its type, as text that is read in Python: of Java it would have to be asked in every task."""
LARGE = "statemigrate_large"
"""The map that has the values too large for a page, by family and key."""
GUARD = "statemigrate_operator"
"""The variable without a value whose type is another one for each operator's name."""
_FORMAT = 1


@dataclass(frozen=True)
class LastReading:
    """When a start last read every page: at which ``batch`` of the ``query``.

    ``families`` are those that had entries then, and those that deployments have written to since:
    no page has another, as nothing is ever written to a family that is not a target.
    """

    query: str
    batch: int
    families: frozenset[str]

    def is_good_for(self, query: str | None, batch: int) -> bool:
        """Whether a start at that batch may go by it.

        Not once a query has run for twice as many batches: so it is a rare start that reads pages,
        and pages that have grown are noticed all the same.
        """
        return query == self.query and self.batch <= batch < 2 * self.batch + 1

    def to_json(self) -> dict[str, Any]:
        """Its part of the document."""
        return {"query": self.query, "batch": self.batch, "families": sorted(self.families)}

    @classmethod
    def from_json(cls, document: Any) -> LastReading:
        """What `to_json` has made."""
        families = frozenset(map(str, document["families"]))
        return cls(str(document["query"]), int(document["batch"]), families)


@dataclass(frozen=True)
class PagesRecord:
    """How many pages, the key's columns as Spark writes types in JSON, and every family's format.

    ``deployment`` names the start-up check that it was made with, and ``expiring`` the stores whose
    values expire; ``reading`` says what a start saw in the pages, None where none has read them.
    ``since`` is the first batch that it is true of, None where an earlier release did not say it,
    and ``earlier`` are the records of batches before, newest first, which a fork may go back to.
    """

    pages: int
    key: Mapping[str, Any]
    stores: Mapping[str, StoredStore] = field(default_factory=dict)
    deployment: str = ""
    expiring: frozenset[str] = frozenset()
    reading: LastReading | None = None
    since: int | None = None
    earlier: tuple[PagesRecord, ...] = ()

    @property
    def with_complements(self) -> tuple[str, ...]:
        """The stores whose values have complements, by name."""
        return tuple(sorted(n for n, each in self.stores.items() if each.complement is not None))

    def after(self, left: PagesRecord | None, committed: int, oldest: int) -> PagesRecord:
        """The same for a start on what was ``left``, after the last ``committed`` batch.

        Of earlier records those are in it that batches from the ``oldest`` one on were written
        with: no other batch can be gone back to.
        """
        if left is None:
            return replace(self, since=committed + 1)
        if left.since is None or left.since > committed:
            # Of one that no batch was committed with nothing is known, and nothing is there.
            before = left.earlier
        elif left.describes() == self.describes():
            return replace(self, since=left.since, earlier=left.earlier)
        else:
            before = (replace(left, reading=None, earlier=()), *left.earlier)
        ends = (committed + 1, *(each.since or 0 for each in before))
        kept = [each for each, end in zip(before, ends, strict=False) if end > oldest]
        return replace(self, since=committed + 1, earlier=tuple(kept))

    def at(self, batch: int) -> PagesRecord | None:
        """The record that was true when a batch was committed; None where that is not known."""
        every = (self, *self.earlier)
        for number, each in enumerate(every):
            if each.since is not None and each.since <= batch:
                reading = each.reading
                if reading is not None and reading.batch > batch:
                    reading = None
                return replace(each, reading=reading, earlier=every[number + 1 :])
        return None

    def describes(self) -> dict[str, Any]:
        """What it says of the pages, whichever start has left it."""
        document = self._document()
        return {name: each for name, each in document.items() if name != "deployment"}

    def to_json(self) -> dict[str, Any]:
        """The document."""
        document = self._document()
        if self.reading is not None:
            document["reading"] = self.reading.to_json()
        if self.since is not None:
            document["since"] = self.since
        if self.earlier:
            document["earlier"] = [each.to_json() for each in self.earlier]
        return document

    def _document(self) -> dict[str, Any]:
        stores = {name: store.to_json() for name, store in self.stores.items()}
        parts = {"pages": self.pages, "key": dict(self.key), "deployment": self.deployment}
        return {"format": _FORMAT, "stores": stores, "expiring": sorted(self.expiring), **parts}


def record_name(operator: str) -> str:
    """Where the record of an operator's pages is, by its name, which may be empty."""
    return f"{RECORDS}/{operator}.json" if operator else RECORD


def records(files: Files) -> dict[str, PagesRecord]:
    """The records of a query by its operators' names. Raises as `read_record`.

    Of named operators that no batch was planned with there are none.
    """
    names = {"", *(paged_names(files).values() if files.list(RECORDS) else ())}
    found = {name: read_pages_record(files, record_name(name)) for name in sorted(names)}
    return {name: each for name, each in found.items() if each is not None}


def records_at(files: Files, batch: int) -> dict[str, PagesRecord]:
    """The same as they were when a batch was committed, as far as that is known."""
    return {name: each.at(batch) or each for name, each in records(files).items()}


def is_marker(variable: str) -> bool:
    """Whether a state variable tells of pages, or has them, and so is none of a user's."""
    return is_pages(variable) or is_large(variable) or variable == GUARD


def variable_of(operator: str) -> str:
    """The state variable that has the pages of an operator, by its name, which may be empty."""
    return f"{VARIABLE}_{operator}" if operator else VARIABLE


def large_of(operator: str) -> str:
    """`LARGE` of an operator, by its name, which may be empty."""
    return f"{LARGE}_{operator}" if operator else LARGE


def is_large(variable: str) -> bool:
    """Whether a state variable has the values that are too large for a page."""
    start = f"{LARGE}_"
    return variable == LARGE or (
        variable.startswith(start) and is_name(variable.removeprefix(start))
    )


def read_pages_record(files: Files, name: str = RECORD) -> PagesRecord | None:
    """The record, None where there is none. Raises `CorruptFileError` for one that was altered."""
    try:
        data = files.get(name)
    except FileNotFoundError:
        return None
    place = f"{files.location}/{name}"
    document = unsealed(data, place)
    return understood(place, f"a record of pages of format {_FORMAT}", lambda: _made(document))


def is_paged(files: Files) -> bool:
    """Whether the files of a checkpoint of Spark's say that its state is in pages."""
    # Operators of other kinds, which may be in the same query, tell of no variables.
    return any(any(map(is_pages, each.variables or ())) for each in operator_files(files))


def record_document(record: PagesRecord) -> bytes:
    """The file that says ``record``."""
    return sealed(record.to_json())


def _made(document: dict[str, Any]) -> PagesRecord:
    if document.get("format") != _FORMAT:
        raise ValueError(f"format {document.get('format')!r}")
    try:
        stores = {
            str(name): StoredStore.from_json(each) for name, each in document["stores"].items()
        }
        key = dict(document["key"])
        expiring = frozenset(map(str, document["expiring"]))
        pages, deployment = int(document["pages"]), str(document["deployment"])
        reading = document.get("reading")
        last = None if reading is None else LastReading.from_json(reading)
        since = None if document.get("since") is None else int(document["since"])
        earlier = tuple(map(_made, document.get("earlier", ())))
        return PagesRecord(pages, key, stores, deployment, expiring, last, since, earlier)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
