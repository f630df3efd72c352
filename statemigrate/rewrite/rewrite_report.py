"""What a rewrite did, kept in the new checkpoint: counts, checksums, questions and answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from statemigrate.errors import CheckpointError
from statemigrate.files import (
    OBJECT,
    VERSION,
    Files,
    Maybe,
    Table,
    check_shape,
    sealed,
    understood,
    unsealed,
)
from statemigrate.rewrite.log_record import SHAPE as LOGS
from statemigrate.rewrite.log_record import LogRecord
from statemigrate.rewrite.windows import WindowFinding

REPORT = "statemigrate/rewrite.json"
"""Where it is, below the new checkpoint."""
_FORMAT = 1
_SUM = {"rows": int, "checksum": str}
_FAMILY = {
    "name": str,
    "change": str,
    "read": Maybe(_SUM),
    "written": Table(_SUM),
    "merged": int,
    "dropped": int,
    "source": str,
    "parts": Maybe(Table(_SUM), missing=True),
    "operator": Maybe(int, missing=True),
    "old_operator": Maybe(int, missing=True),
}
_SCRIPTS = {"store": str, "target": str, "applied": Table(str)}
_SHAPE = {
    "format": range(_FORMAT, _FORMAT + 1),
    "old": str,
    "query": str,
    "batch": VERSION,
    "fingerprint": str,
    "families": [_FAMILY],
    "gone": Table(_SUM),
    "answers": [{"name": str, "kind": str, "text": str, "answer": str}],
    "seconds": object,
    "settings": OBJECT,
    "tables": Maybe(Table(str), missing=True),
    "scripts": Table(_SCRIPTS),
    "scripts_of_new": Maybe(Table(_SCRIPTS), missing=True),
    "windows": Maybe([OBJECT], missing=True),
    "logs": Maybe(LOGS, missing=True),
}


_LIMIT = 1 << 64


@dataclass(frozen=True)
class Checksum:
    """The ``count`` of rows and the sums of their two hashes."""

    count: int = 0
    first: int = 0
    second: int = 0

    def __add__(self, other: Checksum) -> Checksum:
        first, second = self.first + other.first, self.second + other.second
        return Checksum(self.count + other.count, first % _LIMIT, second % _LIMIT)

    @classmethod
    def of(cls, count: int, first: Any, second: Any) -> Checksum:
        """From sums as Spark or numpy give them: None for no rows, or negative."""
        return cls(count, int(first or 0) % _LIMIT, int(second or 0) % _LIMIT)

    @property
    def text(self) -> str:
        """The 128 bits as 32 hex characters."""
        return f"{self.first:016x}{self.second:016x}"

    @classmethod
    def from_text(cls, count: int, text: str) -> Checksum:
        """What `text` gave. Raises ValueError."""
        if len(text) != 32:
            raise ValueError(f"{text[:40]!r} are no 32 hex characters")
        return cls(count, int(text[:16], 16), int(text[16:], 16))


@dataclass(frozen=True)
class FamilyReport:
    """A family: what was ``read`` of the old, and ``written`` of the new, by partition.

    ``source`` is how users call the old one; where there are several, ``parts`` has what was read
    of each. ``read`` is None for one without old rows. Every row read was written, ``merged`` into
    another by a rule that the author gave, or ``dropped`` by one.

    ``operator`` and ``old_operator`` are Spark's numbers of the operators that have the new one and
    the old ones: several may have a family of this name. They are None in older reports.
    """

    name: str
    change: str
    read: Checksum | None
    written: dict[int, Checksum]
    merged: int = 0
    dropped: int = 0
    source: str = ""
    parts: dict[str, Checksum] = field(default_factory=dict)
    operator: int | None = None
    old_operator: int | None = None

    @property
    def read_of(self) -> dict[str, Checksum]:
        """What was read of each old family, by its name."""
        if self.parts or self.read is None:
            return self.parts
        return {self.source: self.read}

    @property
    def added(self) -> int:
        """The entries that old rows became after their first."""
        read = 0 if self.read is None else self.read.count
        return self.total.count + self.merged + self.dropped - read

    @property
    def total(self) -> Checksum:
        """What was written, of all partitions together."""
        return sum(self.written.values(), Checksum())


@dataclass(frozen=True)
class ScriptsRun:
    """The scripts of a ``store`` that were run, up to the revision ``target``.

    ``applied`` has the checksum of each script that is applied then, by its revision.
    """

    store: str
    target: str
    applied: dict[str, str]


@dataclass(frozen=True)
class RewriteReport:
    """The rewrite of the checkpoint ``old`` of a ``query`` as of its ``batch``.

    ``gone`` has the figures of state that the new code does not have; ``settings`` the changed
    pinned settings, before and after. ``tables`` has, by store, the tables from which a new query
    was seeded; it is empty for a query that continues. ``scripts`` has the scripts that ran, by
    Spark's kind and number of the old store, ``scripts_of_new`` those for a new store with another
    name. ``functions`` has, by store, the paired functions of aggregations: see
    `functions_document`. ``windows`` has the findings on window columns. ``logs`` are the new
    checkpoint's logs; reports of older releases have none.
    """

    old: str
    query: str
    batch: int
    fingerprint: str
    families: tuple[FamilyReport, ...]
    gone: dict[str, Checksum] = field(default_factory=dict)
    answers: tuple[dict[str, str], ...] = ()
    seconds: float = 0.0
    settings: dict[str, list[str | None]] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    scripts: dict[str, ScriptsRun] = field(default_factory=dict)
    scripts_of_new: dict[str, ScriptsRun] = field(default_factory=dict)
    functions: dict[str, Any] = field(default_factory=dict)
    windows: tuple[WindowFinding, ...] = ()
    logs: LogRecord | None = None

    @property
    def states(self) -> dict[str, str]:
        """The old states that were chosen for new ones."""
        return {each["name"]: each["answer"] for each in self.answers if each["kind"] == "state"}

    def to_json(self) -> dict[str, Any]:
        """The document that is kept."""
        return {
            **asdict(self),
            "format": _FORMAT,
            "families": [family_json(each) for each in self.families],
            "gone": {name: _sum_json(each) for name, each in self.gone.items()},
            "answers": list(self.answers),
            "windows": [each.to_json() for each in self.windows],
            "logs": None if self.logs is None else self.logs.to_json(),
        }

    def write(self, files: Files) -> None:
        """Keep it in the new checkpoint."""
        files.replace(REPORT, sealed(self.to_json()))


def find_report(files: Files) -> RewriteReport | None:
    """The report of a checkpoint that a rewrite has made, None of any other.

    Raises `CorruptFileError` for a report that was altered.
    """
    place = f"{files.location}/{REPORT}"
    try:
        document = unsealed(files.get(REPORT), place)
    except FileNotFoundError:
        return None
    return understood(place, "the report of a rewrite", lambda: _report(document))


def read_report(files: Files) -> RewriteReport:
    """The report of a checkpoint. Raises `CheckpointError` for one that no rewrite has made."""
    found = find_report(files)
    if found is None:
        raise CheckpointError(
            "SM-VERIFY-001",
            f"{files.location} was not made by a rewrite",
            expected=f"{REPORT}, which says what was rewritten",
            found="no such directory" if files.find() is None else "no such file",
            next_action="name the new checkpoint of `statemigrate rewrite`",
            path=files.location,
        )
    return found


def _report(document: dict[str, Any]) -> RewriteReport:
    check_shape(document, _SHAPE)
    families = tuple(read_family(each) for each in document["families"])
    gone = {name: _checksum(each) for name, each in document["gone"].items()}
    return RewriteReport(
        document["old"],
        document["query"],
        document["batch"],
        document["fingerprint"],
        families,
        gone,
        tuple(document["answers"]),
        float(document["seconds"]),
        document["settings"],
        document.get("tables") or {},
        _scripts(document["scripts"]),
        _scripts(document.get("scripts_of_new") or {}),
        document.get("functions") or {},
        tuple(WindowFinding.from_json(each) for each in document.get("windows") or ()),
        LogRecord.from_json(logs) if (logs := document.get("logs")) else None,
    )


def _scripts(document: dict[str, Any]) -> dict[str, ScriptsRun]:
    return {name: ScriptsRun(**each) for name, each in document.items()}


def read_family(each: dict[str, Any]) -> FamilyReport:
    """A family of the document. Raises ValueError."""
    check_shape(each, _FAMILY)
    written = {int(number): _checksum(total) for number, total in each["written"].items()}
    read = None if each["read"] is None else _checksum(each["read"])
    parts = {name: _checksum(of) for name, of in (each.get("parts") or {}).items()}
    rest = each["merged"], each["dropped"], each["source"], parts
    operators = each.get("operator"), each.get("old_operator")
    return FamilyReport(each["name"], each["change"], read, written, *rest, *operators)


def family_json(each: FamilyReport) -> dict[str, Any]:
    """A family as the document has it."""
    return {
        "name": each.name,
        "change": each.change,
        "read": None if each.read is None else _sum_json(each.read),
        "written": {str(number): _sum_json(total) for number, total in each.written.items()},
        "merged": each.merged,
        "dropped": each.dropped,
        "source": each.source,
        "parts": {name: _sum_json(of) for name, of in each.parts.items()},
        "operator": each.operator,
        "old_operator": each.old_operator,
    }


def _sum_json(total: Checksum) -> dict[str, Any]:
    return {"rows": total.count, "checksum": total.text}


def _checksum(document: dict[str, Any]) -> Checksum:
    return Checksum.from_text(document["rows"], document["checksum"])
