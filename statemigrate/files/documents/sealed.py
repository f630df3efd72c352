"""JSON documents that carry the checksum of what they say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, TypeVar

from statemigrate.errors import CorruptFileError, FormatError
from statemigrate.files.documents.json_text import parse_json
from statemigrate.files.documents.shapes import OBJECT, check_shape

RESTORE_COPY = (
    "restore the checkpoint directory from a copy that holds the intact file; "
    "do not delete anything from it"
)
Made = TypeVar("Made")


def sealed(document: dict[str, Any]) -> bytes:
    """A JSON document together with the checksum of its content."""
    body = json.dumps(document, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{{"sha256":"{digest}","body":{body}}}\n'.encode()


def unsealed(data: bytes, place: str) -> dict[str, Any]:
    """What `sealed` was given; raises `CorruptFileError`, which names ``place``, if altered."""
    try:
        envelope = parse_json(data)
        check_shape(envelope, {"body": OBJECT, "sha256": str})
    except ValueError as error:
        raise _altered(place, "a JSON document with its checksum", str(error)) from error
    body: dict[str, Any] = envelope["body"]
    expected = envelope["sha256"]
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    found = hashlib.sha256(canonical.encode()).hexdigest()
    if found != expected:
        raise _altered(place, f"SHA-256 {expected}", found)
    return body


def understood(place: str, what: str, make: Callable[[], Made]) -> Made:
    """What ``make`` makes of the document at ``place``; `CorruptFileError` where it is not one."""
    try:
        return make()
    except (ValueError, FormatError) as error:
        raise _altered(place, f"{what} with all its parts", str(error)) from error


def _altered(place: str, expected: str, found: str) -> CorruptFileError:
    return CorruptFileError(
        "SM-CHECKPOINT-024",
        f"{place} is not what was written",
        expected=expected,
        found=found,
        next_action=RESTORE_COPY,
        path=place,
    )
