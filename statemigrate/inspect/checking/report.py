"""What `check` found, as data: printed, or written as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from statemigrate.errors import StatemigrateError

FindingKind = Literal[
    "script", "lineage", "target", "code", "applied", "example", "made-up", "question"
]
Severity = Literal["error", "note"]
_WIDTH = 160


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or a note on what may be: where, what, and what to do next.

    ``expected`` and ``found`` may have several lines. ``str()`` gives all of it in one line.
    """

    kind: FindingKind
    summary: str
    next_action: str
    expected: str | None = None
    found: str | None = None
    store: str | None = None
    revision: str | None = None
    path: str | None = None
    line: int | None = None
    severity: Severity = "error"

    @classmethod
    def of(
        cls,
        kind: FindingKind,
        error: StatemigrateError,
        *,
        summary: str | None = None,
        next_action: str | None = None,
        **place: Any,
    ) -> Finding:
        """The finding that an error makes; ``place`` is where, as far as the error does not say."""
        names = ("store", "revision", "path", "line")
        at = {name: _either(place.get(name), error.data.get(name)) for name in names}
        return cls(
            kind,
            summary or _without_place(error.summary, at),
            next_action or error.next_action or "correct it",
            None if error.expected is None else str(error.expected),
            None if error.found is None else str(error.found),
            **at,
        )

    def __str__(self) -> str:
        place = self.path or self.store
        where = f"{place}:{self.line}" if place and self.line is not None else place
        parts = {"expected": self.expected, "found": self.found}
        told = "; ".join(f"{name} {_short(text)}" for name, text in parts.items() if text)
        what = f"{self.summary} ({told})" if told else self.summary
        note = "note: " if self.severity == "note" else ""
        return f"{f'{where}: ' if where else ''}{note}{what}; next: {self.next_action}"

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON holds it."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "store": self.store,
            "revision": self.revision,
            "path": self.path,
            "line": self.line,
            "summary": self.summary,
            "expected": self.expected,
            "found": self.found,
            "next": self.next_action,
        }


@dataclass(frozen=True)
class CheckReport:
    """All findings, of so many scripts and stores; ``notes`` are what need not be wrong."""

    findings: tuple[Finding, ...]
    scripts: int
    stores: int
    notes: tuple[Finding, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


def _either(known: Any, said: Any) -> Any:
    return said if known is None else known


def _without_place(summary: str, at: dict[str, Any]) -> str:
    for place in (at["path"], f"store {at['store']}"):
        if place:
            summary = summary.removeprefix(place).removeprefix(f", line {at['line']}")
            summary = summary.removeprefix(":").lstrip()
    return summary.removesuffix(".")


def _short(text: str) -> str:
    line, *more = text.strip().splitlines() or [""]
    return f"{line[: _WIDTH - 4]} ..." if len(line) > _WIDTH else f"{line} ..." if more else line
