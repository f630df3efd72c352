"""What statemigrate itself keeps in a checkpoint, as far as it belongs to the state of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from statemigrate.files import Files, parse_json
from statemigrate.native.backfill.chunk_files import (
    ADOPTIONS,
    CONTROL,
    MADE,
    ChunkFiles,
    chunks_of,
    named_in,
)
from statemigrate.native.seen.record import RECORD, read_record, record_document
from statemigrate.rewrite.forking.carried_log import of_later
from statemigrate.rewrite.unfinished.claims import MAKING, MARK

_OWN = "statemigrate"


@dataclass(frozen=True)
class OwnFiles:
    """``copied`` as they are, ``written`` with other content; ``left`` says what is not carried."""

    copied: tuple[str, ...] = ()
    written: Mapping[str, bytes] = field(default_factory=dict)
    left: tuple[str, ...] = ()


def own_files(old: Files, batch: int, *, is_last: bool) -> OwnFiles:
    """The files below ``statemigrate`` that are of the state after a batch.

    Where something has happened since, the plan of a backfill and its chunks are left out, for
    which another plan is made, and so is what was noted after the batch.
    """
    found = [each.name for each in old.list(_OWN, recursive=True)]
    # What says how far the old one had come, as it was made, says nothing of the new one.
    names = [name for name in found if not (name == MARK or name.startswith(f"{MAKING}/"))]
    if is_last:
        return OwnFiles(tuple(names))
    later = {name for folder in _adoptions(old, names, batch) for name in _below(names, folder)}
    later |= of_later(old, names, batch)
    control = {name for name in names if name.startswith(f"{CONTROL}/")}
    written, left = _record(old, batch) if RECORD in names else ({}, [])
    if control:
        # The control sources refuse to start without their directories.
        named = named_in(old)
        operators = [*named, *([""] if not named or ChunkFiles(old).is_made() else [])]
        made = {f"{chunks_of(operator)}/{MADE}": b"" for operator in operators}
        written = {**written, **made}
        left = [*left, "the plan of a backfill: `statemigrate backfill` makes another"]
    kept = [name for name in names if name not in {RECORD, *later, *control}]
    return OwnFiles(tuple(kept), written, tuple(left))


def _record(old: Files, batch: int) -> tuple[dict[str, bytes], list[str]]:
    record = read_record(old)
    kept = {store: each for store, each in record.items() if each.batch <= batch}
    left = [
        f"what was deployed of {store} after the batch" for store in record if store not in kept
    ]
    return ({RECORD: record_document(kept)} if kept else {}), left


def _adoptions(old: Files, names: list[str], batch: int) -> list[str]:
    """The folders of adoptions that changed entries of the offset log after the batch."""
    records = [n for n in names if n.startswith(f"{ADOPTIONS}/") and n.endswith("/record.json")]
    return [
        name.rpartition("/")[0]
        for name in records
        if any(each > batch for each in _batches(old.get(name)))
    ]


def _batches(data: bytes) -> list[int]:
    files = parse_json(data)["files"]
    return [int(each["batch"]) for each in files]


def _below(names: list[str], folder: str) -> list[str]:
    return [name for name in names if name.startswith(f"{folder}/")]
