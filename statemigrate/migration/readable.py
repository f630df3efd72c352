"""What a script's functions can be given: a str of Python's is UTF-8, text of Spark's any bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statemigrate.errors import TransformError, shown
from statemigrate.formats import Value
from statemigrate.formats.escaped_text import first_escaped, visible
from statemigrate.migration.step import Step


def check_readable(step: Step, key: Value, given: Mapping[str, Any]) -> None:
    """Raise TransformError if text that a function would be ``given`` is not UTF-8.

    ``given`` are its arguments by their names, with every text as `escaped_text` has it.
    """
    found = first_escaped(dict(given))
    if found is None:
        return
    path, text = found
    error: TransformError = step.error(
        "SM-TRANSFORM-001",
        f"would be given text that is not UTF-8, in {path}",
        "UTF-8, which is what a str of Python's can be",
        shown(visible(text)),
    )
    raise error.but(
        next_action=f"write `upgrade_table` in {step.script or 'the script'}, whose columns carry "
        "any bytes, and rewrite again; no checkpoint was written",
        path=path,
    ).at(visible(key))
