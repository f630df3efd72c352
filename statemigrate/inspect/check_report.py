"""What `check` found, as data: printed, or written as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

from statemigrate.errors import StatemigrateError

FindingKind = Literal[
    "script", "lineage", "target", "code", "applied", "example", "made-up", "question"
]
Severity = Literal["error", "note"]
_WIDTH = 160
_BEFORE = 40
"""How much of what is equal stands before a difference."""


@dataclass(frozen=True)
class Finding:
    """A problem, or a note on a possible one: where, what, and what to do next.

    ``code`` is that of its error; a finding without an error has none. ``expected`` and ``found``
    may have several lines. ``differences`` lists how they differ, one text for each field, if that
    is known. ``str()`` gives all of it in one line, followed by a line for each difference.
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
    differences: tuple[str, ...] = ()
    code: str | None = None

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
        """The finding for an error; ``place`` is used if the error does not name one."""
        names = ("store", "revision", "path", "line")
        at = {name: _either(place.get(name), error.data.get(name)) for name in names}
        return cls(
            kind,
            summary or _without_location(error.summary, at),
            next_action or error.next_action or "correct it",
            None if error.expected is None else str(error.expected),
            None if error.found is None else str(error.found),
            **at,
            differences=tuple(error.data.get("differences", ())),
            code=error.code,
        )

    def __str__(self) -> str:
        place = self.path or self.store
        where = f"{place}:{self.line}" if place and self.line is not None else place
        both = "" if self.differences else _expected_and_found(self.expected, self.found)
        what = self.summary if self.code is None else f"{self.summary} [{self.code}]"
        what = f"{what} ({both})" if both else what
        note = "note: " if self.severity == "note" else ""
        line = f"{f'{where}: ' if where else ''}{note}{what}; next: {self.next_action}"
        return "\n".join([line, *(f"  {each}" for each in self.differences)])

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON holds it."""
        return {
            "kind": self.kind,
            "code": self.code,
            "severity": self.severity,
            "store": self.store,
            "revision": self.revision,
            "path": self.path,
            "line": self.line,
            "summary": self.summary,
            "expected": self.expected,
            "found": self.found,
            "differences": list(self.differences),
            "next": self.next_action,
        }


@dataclass(frozen=True)
class CheckReport:
    """All findings, with the numbers of scripts and stores; ``notes`` may be no problems."""

    findings: tuple[Finding, ...]
    scripts: int
    stores: int
    notes: tuple[Finding, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


def _either(known: Any, given: Any) -> Any:
    return given if known is None else known


def _without_location(summary: str, at: dict[str, Any]) -> str:
    for place in (at["path"], f"store {at['store']}"):
        if place:
            summary = summary.removeprefix(place).removeprefix(f", line {at['line']}")
            summary = summary.removeprefix(":").lstrip()
    return summary.removesuffix(".")


def _expected_and_found(expected: str | None, found: str | None) -> str:
    """Both, each from where they differ if that would be cut off."""
    pairs = zip(expected or "", found or "", strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    start = max(0, common - _BEFORE) if common > _WIDTH - _BEFORE else 0
    parts = {"expected": expected, "found": found}
    return "; ".join(f"{name} {_short(text, start)}" for name, text in parts.items() if text)


def _short(text: str, start: int = 0) -> str:
    """The first line from ``start``, of at most 160 characters."""
    whole, *more = text.strip().splitlines() or [""]
    line = f"... {whole[start:]}" if start else whole
    return f"{line[: _WIDTH - 4]} ..." if len(line) > _WIDTH else f"{line} ..." if more else line
