"""What was applied: as a checkpoint says, and as ``applied.json`` beside the scripts says.

The file is committed with the scripts, so that a check needs no checkpoint.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from statemigrate.embedded.storage.layout import Layout
from statemigrate.errors import CheckpointError, ScriptError
from statemigrate.files import parse_json
from statemigrate.files.whole import replacing
from statemigrate.native.seen.record import read_record
from statemigrate.native.spark_state.reader import file_system
from statemigrate.scripts import ScriptFolder

Applied = dict[str, dict[str, str]]
"""By store and revision the checksum that the script had."""

_NAME = "applied.json"
_FORMAT = 1


def applied_file(directory: Path) -> Path:
    """Where a folder of scripts keeps what was applied."""
    return directory / _NAME


def applied_by(checkpoint: str) -> Applied:
    """What was applied to a checkpoint, of either engine.

    Raises `CheckpointError` for what is not a checkpoint, `CorruptFileError` for a damaged one.
    """
    if _is_directory(checkpoint, "statemigrate/versions"):
        from statemigrate.embedded.storage.last import last_committed

        manifest = last_committed(Layout.of(checkpoint))
        return _checksums(manifest.stores if manifest else {})
    record = read_record(checkpoint)
    if not record:
        _require_checkpoint(checkpoint)
    return _checksums(record)


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
            f"{path}: it does not say what was applied.",
            expected=f'JSON as in {{"format": {_FORMAT}, "applied": {{STORE: {{REVISION: '
            "CHECKSUM}}}",
            found=f"{type(cause).__name__}: {cause}",
            next_action="restore the file from version control; after a merge keep the entries "
            "of both sides",
            path=str(path),
        ) from cause


def record_applied(migrations: str | Path, checkpoint: str) -> Path:
    """Add what was applied to ``checkpoint`` to ``applied.json``, and return the file's path.

    Where both know a revision, the checkpoint's checksum is kept. Raises `CheckpointError` and
    `ScriptError`.
    """
    directory = ScriptFolder(migrations).directory
    applied = read_applied(directory)
    for store, checksums in applied_by(checkpoint).items():
        applied[store] = {**applied.get(store, {}), **checksums}
    text = json.dumps({"format": _FORMAT, "applied": applied}, indent=2, sort_keys=True)
    with replacing(applied_file(directory)) as stream:
        stream.write(f"{text}\n".encode())
    return applied_file(directory)


def _checksums(stores: Any) -> Applied:
    return {store: dict(each.applied) for store, each in stores.items()}


def _require_checkpoint(checkpoint: str) -> None:
    if not any(_is_directory(checkpoint, name) for name in ("offsets", "commits")):
        raise CheckpointError(
            f"{checkpoint} is not the checkpoint of a streaming query",
            expected="a directory with the folders offsets and commits",
            found="no such folders",
            next_action="name the directory that the query has as its checkpoint",
            path=checkpoint,
        )


def _is_directory(checkpoint: str, name: str) -> bool:
    from pyarrow import fs

    system, root = file_system(checkpoint)
    found: bool = system.get_file_info(f"{root}/{name}").type == fs.FileType.Directory
    return found
