"""Which files a query needs to go on from a batch, and which of them are written anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.checkpoint.logs.offsets import batches_in, names_in
from statemigrate.checkpoint.logs.pinned import codec_of, is_rocksdb
from statemigrate.checkpoint.operators.catalogue import used_partitions
from statemigrate.checkpoint.operators.described import schema_files
from statemigrate.checkpoint.operators.entries import OperatorEntry, StoreEntry, parse_operator
from statemigrate.checkpoint.operators.metadata import LARGEST, OperatorFile
from statemigrate.checkpoint.operators.shapes import CheckpointShape, OperatorShape
from statemigrate.checkpoint.stores.versions import hdfs_version, rocksdb_version, store_folder
from statemigrate.errors import CorruptFileError
from statemigrate.files import Files
from statemigrate.native.spark_state.view import uri_of
from statemigrate.rewrite.forking.own_files import own_files
from statemigrate.rewrite.forking.source_logs import source_files


@dataclass(frozen=True)
class Needed:
    """``copied`` are names of files; ``written`` those that are another one in the new place.

    ``left`` says what is not carried over, for people.
    """

    copied: tuple[str, ...]
    written: Mapping[str, bytes] = field(default_factory=dict)
    left: tuple[str, ...] = ()


_KNOWN = {"metadata", "offsets", "commits", "sources", "state", "statemigrate", "lost+found"}


def needed_files(old: Files, new: Files, shape: CheckpointShape) -> Needed:
    """What the query of ``shape`` needs in ``new`` to go on from its batch; without ``metadata``.

    Raises `CorruptFileError` where a file is missing, `UnsupportedError` for a source whose log
    cannot be taken back to the batch.
    """
    logs = [f"commits/{batch}" for batch in shape.commits]
    logs += [f"offsets/{batch}" for batch in shape.offsets]
    state = [name for each in shape.operators for name in state_files(old, shape, each)]
    described, rooted = _operator_files(old, new, shape)
    sources = source_files(
        old, new, shape.offsets[shape.batch].offsets, is_last=is_last(old, shape)
    )
    own = own_files(old, shape.batch, is_last=is_last(old, shape))
    copied = _with_checksums(old, [*state, *described, *sources.copied, *own.copied, *logs])
    return Needed(
        tuple(copied),
        {**rooted, **sources.written, **own.written},
        (*_unknown(old), *own.left),
    )


def is_last(old: Files, shape: CheckpointShape) -> bool:
    """Whether nothing has happened after the batch."""
    directory = CheckpointDirectory(old)
    return directory.last_commit() == directory.last_begun() == shape.batch


def state_files(old: Files, shape: CheckpointShape, operator: OperatorShape) -> list[str]:
    """The files of an operator's state. Raises `CorruptFileError` where one is missing."""
    partitions = _partitions(old, operator)
    ids = (shape.commits[shape.batch].state_ids or {}).get(operator.number)
    found: list[str] = []
    for partition in range(partitions):
        for place, store in enumerate(operator.stores):
            folder = store_folder(operator.number, partition, store.name)
            unique_id = ids[partition][place] if ids else None
            found += _version(old, folder, shape, unique_id)
    return found


def _version(
    old: Files, folder: str, shape: CheckpointShape, unique_id: str | None
) -> tuple[str, ...]:
    if not is_rocksdb(shape.conf):
        return hdfs_version(old, folder, shape.batch + 1).names
    codec = codec_of(shape.conf)
    return rocksdb_version(old, folder, shape.batch + 1, unique_id, codec).names


def _partitions(old: Files, operator: OperatorShape) -> int:
    """How many partitions are to be copied; one more or less than expected is an error."""
    expected = used_partitions(operator)
    there = set(batches_in(names_in(old, f"state/{operator.number}")))
    if there != set(range(expected)):
        raise CorruptFileError(
            "SM-CHECKPOINT-030",
            f"{old.location}/state/{operator.number} has other partitions than it should",
            expected=f"partitions 0 to {expected - 1}",
            found=f"partitions {sorted(there)}"[:200],
            next_action="restore what is missing from a copy of the checkpoint",
            path=f"{old.location}/state/{operator.number}",
        )
    return expected


def _operator_files(
    old: Files, new: Files, shape: CheckpointShape
) -> tuple[list[str], dict[str, bytes]]:
    """The schemas and metadata of operators; those that name places by their paths are written."""
    copied: list[str] = []
    rooted: dict[str, bytes] = {}
    for operator in shape.operators:
        folder = f"state/{operator.number}/_metadata"
        changes = [b for b in batches_in(names_in(old, f"{folder}/v2")) if b <= shape.batch]
        paths = [f"{folder}/v2/{batch}" for batch in sorted(changes)]
        if old.find(f"{folder}/metadata") is not None:
            paths.append(f"{folder}/metadata")
        # Spark before 4.0 has written none.
        copied += [] if paths else _schemas(operator)
        for path in paths:
            data = old.get(path, most=LARGEST)
            entry = parse_operator(data, f"{old.location}/{path}")
            copied += [name for store in entry.stores for name in schema_files(entry, store)]
            if entry.version == 2:
                rooted[path] = OperatorFile(path, data).rooted_at(uri_of(new)).data
            else:
                copied.append(path)
    return list(dict.fromkeys(copied)), rooted


def _schemas(operator: OperatorShape) -> list[str]:
    stores = tuple(StoreEntry(each.name, 0, each.partitions) for each in operator.stores)
    entry = OperatorEntry(operator.number, operator.name, stores)
    return [name for store in stores for name in schema_files(entry, store)]


def _with_checksums(old: Files, names: Iterable[str]) -> list[str]:
    """The files, and Spark's own checksum file beside each that has one."""
    wanted = list(dict.fromkeys(names))
    folders = {name.rpartition("/")[0] for name in wanted}
    there = {each.name for folder in folders for each in old.list(folder) if each.kind == "file"}
    return wanted + [f"{name}.crc" for name in wanted if f"{name}.crc" in there]


def _unknown(old: Files) -> list[str]:
    names = {each.base_name for each in old.list() if not each.base_name.startswith(".")}
    return [f"{name}: no part of a checkpoint" for name in sorted(names - _KNOWN)]
