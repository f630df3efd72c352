"""Names of files that are numbers."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")


def whole_number(name: str) -> int | None:
    """The number that ``name`` is, as Spark writes batches and versions; None for anything else.

    ``str.isdigit`` holds for superscripts, which ``int`` refuses, and for other scripts' digits,
    under which a second file could pass for the same batch.
    """
    return int(name) if _NUMBER.fullmatch(name) else None
