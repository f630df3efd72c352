"""``applied.json`` next to the scripts: what was applied, so that a check needs no checkpoint.

The file is committed with the scripts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from statemigrate.errors import ScriptError
from statemigrate.files import parse_json, replacing

Applied = Mapping[str, Mapping[str, str]]
"""By store and revision the checksum that the script had."""

_NAME = "applied.json"
_FORMAT = 1


def applied_file(directory: Path) -> Path:
    """Where a folder of scripts keeps what was applied."""
    return directory / _NAME


def read_applied(directory: Path) -> Applied:
    """What ``applied.json`` says; nothing where there is none. Raises `ScriptError`."""
    path = applied_file(directory)
    if not path.exists():
        return {}
    try:
        document: Any = parse_json(path.read_bytes())
        return {
            str(store): {str(revision): str(checksum) for revision, checksum in each.items()}
            for store, each in {_FORMAT: document["applied"]}[document["format"]].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as cause:
        raise ScriptError(
            "SM-SCRIPT-004",
            f"{path}: it does not say what was applied.",
            expected=f'JSON as in {{"format": {_FORMAT}, "applied": {{STORE: {{REVISION: '
            "CHECKSUM}}}",
            found=f"{type(cause).__name__}: {cause}",
            next_action="restore the file from version control; after a merge keep the entries "
            "of both sides",
            path=str(path),
        ) from cause


def write_applied(directory: Path, applied: Applied) -> Path:
    """Replace ``applied.json`` and return its path."""
    text = json.dumps({"format": _FORMAT, "applied": applied}, indent=2, sort_keys=True)
    with replacing(applied_file(directory)) as stream:
        stream.write(f"{text}\n".encode())
    return applied_file(directory)
