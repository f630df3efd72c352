"""Writes the table of docs/changes.md from the catalogue of changes that the tests run.

`python scripts/changes_page.py` writes the page; a test fails where the page differs from it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / "rewriting"), str(ROOT / "scripts")]

from changed_queries import CHANGES  # noqa: E402
from marked_pages import with_part  # noqa: E402

from statemigrate.meaning import VERDICTS  # noqa: E402

PAGE = ROOT / "docs" / "changes.md"


def with_changes(page: str) -> str:
    """The text of the page, in which the tables are those of the catalogue."""
    return with_part(page, "changes", "changes_page.py", "".join(_tables()))


def _tables() -> Iterator[str]:
    for group in dict.fromkeys(each.group for each in CHANGES.values()):
        yield f"\n## {group}\n\n| change | Spark | `plan` |\n|---|---|---|\n"
        for change in CHANGES.values():
            if change.group == group:
                spark = "starts" if change.starts else "refuses to start"
                yield f"| {change.name} | {spark} | {VERDICTS[change.verdict]} |\n"


if __name__ == "__main__":
    PAGE.write_text(with_changes(PAGE.read_text()))
