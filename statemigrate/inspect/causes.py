"""Why a value does not migrate, in words that other values with the same trouble share."""

from __future__ import annotations

import traceback

from statemigrate.errors import TransformError, ValueMismatchError


def cause_of(error: TransformError | ValueMismatchError) -> str:
    """Why a value did not migrate, in words that other values with the same trouble share."""
    if isinstance(error, ValueMismatchError):
        return _mismatch(error)
    step = f"{error.data['source']} to {error.data['target']}"
    cause = error.__cause__
    if isinstance(cause, ValueMismatchError):
        return f"{step}: {_mismatch(cause)}"
    if cause is None:
        return f"{step}: returned {error.found}"
    return f"{step}: {type(cause).__name__}{_failing_line(cause)}"


def _mismatch(error: ValueMismatchError) -> str:
    field = error.data.get("field") or "the value"
    return f"the new format cannot hold {field}: expected {error.expected}"


def _failing_line(cause: BaseException) -> str:
    frames = traceback.extract_tb(cause.__traceback__)
    last = frames[-1] if frames else None
    return "" if last is None else f" in line {last.lineno}: {last.line or last.name}"
