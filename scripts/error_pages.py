"""Writes the lists of codes and of Spark's errors in docs/errors.md from their registries.

`python scripts/error_pages.py` writes the page; a test fails where the page differs from it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from marked_pages import with_part

from statemigrate.commands.explain import errors_of_spark
from statemigrate.errors import error_codes

PAGE = Path(__file__).parent.parent / "docs" / "errors.md"


def with_codes(page: str) -> str:
    """The text of the page, in which the lists are those of the registries."""
    return with_part(page, "codes", "error_pages.py", "".join(_sections()))


def _sections() -> Iterator[str]:
    topic = None
    for entry in error_codes().values():
        if entry.topic != topic:
            topic = entry.topic
            yield f"\n### {topic}\n"
        yield f"\n#### {entry.code}\n\n**{entry.title}.** {entry.cause}\n\n"
        yield f"**What to do.** {entry.cure}\n"
    yield "\n## Errors of Spark\n"
    for each in errors_of_spark():
        yield f"\n#### {each.code}\n\n**{each.title}.** {each.cause}\n\n"
        yield f"**What to do.** {each.cure}\n"


if __name__ == "__main__":
    PAGE.write_text(with_codes(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
