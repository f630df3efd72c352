"""A bundle: a folder with all that a preview needs, to run it where production is out of reach.

``checkpoint/`` has the files of the query's state after the batch before the first one and after
each of the batches, with their logs; ``inputs/`` the rows that each batch has read. The manifest
comes last: it has a hash of every file, and checksums of the state after each batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.files import (
    VERSION,
    Files,
    Maybe,
    Table,
    check_shape,
    open_files,
    parse_json,
    sealed,
    unsealed,
)
from statemigrate.preview.bundle_rows import BundleRows
from statemigrate.preview.engines import StateChecksums, engine_of
from statemigrate.preview.history import History
from statemigrate.preview.inputs import RecordedInput
from statemigrate.preview.workspace import workspace

FORMAT = 3
"""The version of what a bundle looks like."""
MANIFEST = "manifest.json"
CHECKPOINT, INPUTS = "checkpoint", "inputs"
MAX_BYTES = 1 << 30
"""How large a bundle may be unless something else is asked for."""
_SHAPE = {
    "format": int,
    "version": str,
    "checkpoint": str,
    "code": str,
    "before": VERSION,
    "batches": [VERSION],
    "folders": Table(Maybe(str)),
    "masked": [str],
    "sample": Maybe(float),
    "inputs": Table({"folder": str, "batches": [VERSION], "schema": dict}),
    "checksums": Table(Table({"rows": int, "checksum": str})),
    "files": Table({"size": int, "sha256": str}),
}


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk: the query's ``checkpoint``, its ``batches`` and how many bytes there are.

    ``code`` is the function whose streams were recorded. ``before`` is the batch whose state the
    first of the batches follows. ``masked`` are the fields that have pseudonyms, and ``sample`` is
    the fraction of the keys that are there, None for all of them.
    """

    path: str
    checkpoint: str
    code: str
    before: int
    batches: tuple[int, ...]
    size: int
    masked: tuple[str, ...] = ()
    sample: float | None = None
    folders: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    inputs: Mapping[str, RecordedInput] = field(default_factory=dict, repr=False)
    checksums: Mapping[int, StateChecksums] = field(default_factory=dict, repr=False)

    @property
    def files(self) -> Files:
        """The query's checkpoint, as far as it is in the bundle."""
        return open_files((Path(self.path) / CHECKPOINT).absolute())

    def to_json(self) -> dict[str, Any]:
        """What is in it, for machines."""
        return {
            "bundle": self.path,
            "checkpoint": self.checkpoint,
            "code": self.code,
            "before": self.before,
            "batches": list(self.batches),
            "size": self.size,
            "masked": list(self.masked),
            "sample": self.sample,
        }


def is_bundle(place: str | Path) -> bool:
    """Whether a place on this machine is a bundle, or what is left of one."""
    if "://" in str(place):
        return False
    path = Path(place)
    return (path / MANIFEST).exists() or ((path / CHECKPOINT).is_dir() and (path / INPUTS).is_dir())


def save_bundle(
    path: Path,
    checkpoint: str,
    code: str,
    files: Files,
    history: History,
    record: Callable[[Path], Mapping[str, RecordedInput]],
    max_bytes: int,
    rows: BundleRows,
) -> Bundle:
    """Make a bundle at ``path``, which appears whole or not at all; only its owner can read it.

    ``record`` writes the rows of each source below a folder; ``rows`` says which of them, and of
    those of the state, the bundle has. Raises `CheckpointError` where something is at ``path``, for
    more than ``max_bytes``, and for values that a mask leaves as they are.
    """
    if path.exists():
        raise _error(
            "SM-PREVIEW-018", path, "is in use", "a path where nothing is", "a file or a folder",
            "name another path, or remove it",
        )  # fmt: skip
    path.absolute().parent.mkdir(parents=True, exist_ok=True)
    numbers, engine = list(history.numbers), history.engine
    with workspace(f".{path.name}-", path.absolute().parent) as folder:
        made = folder / "bundle"
        made.mkdir(mode=0o700)
        copied = open_files((made / CHECKPOINT).as_uri())
        masked: tuple[str, ...] = ()
        if rows.are_all:
            engine.fork_batches(files, made / CHECKPOINT, numbers)
            _check_size(made, path, max_bytes)
            recorded = record(made / INPUTS)
            checksums = {number: engine.checksums(checkpoint, number) for number in numbers}
        else:
            state = engine.other_rows(rows.pseudonyms, rows.sample)
            types = state.check(files, numbers[-1])
            whole = record(folder / INPUTS)
            rows.check_inputs(types, whole)
            state.copy(files, made / CHECKPOINT, numbers, folder)
            _check_size(made, path, max_bytes)
            recorded = rows.inputs(whole, made / INPUTS)
            masked = rows.check_masked(state, copied, numbers, recorded)
            checksums = {number: engine.checksums(copied.location, number) for number in numbers}
        _shut(made)
        found = _hashes(made)
        _check_size(made, path, max_bytes)
        document = {
            "format": FORMAT,
            "version": version("statemigrate"),
            "checkpoint": checkpoint,
            "code": code,
            "before": numbers[0],
            "batches": numbers[1:],
            "folders": dict(history.folders),
            "masked": list(masked),
            "sample": None if rows.sample is None else rows.sample.fraction,
            "inputs": {
                source: {
                    "folder": each.folder.relative_to(made / INPUTS).as_posix(),
                    "batches": list(each.batches),
                    "schema": dict(each.schema),
                }
                for source, each in recorded.items()
            },
            "checksums": {
                str(number): {
                    store: {"rows": count, "checksum": checksum}
                    for store, (count, checksum) in stores.items()
                }
                for number, stores in checksums.items()
            },
            "files": found,
        }
        (made / MANIFEST).write_bytes(sealed(document))
        (made / MANIFEST).chmod(0o600)
        made.rename(path)
    return open_bundle(path)


def open_bundle(path: str | Path) -> Bundle:
    """The bundle at ``path``, all of whose files are as they were written.

    Raises `CheckpointError` for a bundle of another format, and `CorruptFileError` for one that was
    cut or edited.
    """
    place = Path(path)
    manifest = place / MANIFEST
    try:
        data = manifest.read_bytes()
    except FileNotFoundError as error:
        raise _altered(place, MANIFEST, "no such file: the bundle was cut") from error
    known = _format_of(data)
    if known is not None and known != FORMAT:
        raise _error(
            "SM-PREVIEW-019", place, "was made by another release", f"a bundle of format {FORMAT}",
            f"format {known}", "make the bundle again with this release, or read it with the one "
            "that made it",
        )  # fmt: skip
    try:
        document = unsealed(data, str(manifest))
        check_shape(document, _SHAPE)
        checksums = {
            int(number): {store: (each["rows"], each["checksum"]) for store, each in stores.items()}
            for number, stores in document["checksums"].items()
        }
    except (CorruptFileError, ValueError) as error:
        raise _altered(place, MANIFEST, str(getattr(error, "found", error))) from error
    _compare(place, document["files"])
    inputs = {
        source: RecordedInput(
            (place / INPUTS).absolute() / Path(each["folder"]).name,
            tuple(each["batches"]),
            each["schema"],
        )
        for source, each in document["inputs"].items()
    }
    return Bundle(
        str(path),
        document["checkpoint"],
        document["code"],
        document["before"],
        tuple(document["batches"]),
        sum(each["size"] for each in document["files"].values()) + len(data),
        tuple(document["masked"]),
        document["sample"],
        document["folders"],
        inputs,
        checksums,
    )


def compare_checksums(bundle: Bundle) -> None:
    """Raise `CorruptFileError` unless the oldest and the newest state read as they did there."""
    engine = engine_of(bundle.files)
    for batch in (bundle.before, bundle.batches[-1]):
        found = engine.checksums(bundle.files.location, batch)
        wanted = bundle.checksums[batch]
        other = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        if other:
            place = f"{CHECKPOINT}, batch {batch}"
            raise _altered(Path(bundle.path), place, f"other rows in {', '.join(other)}")


def _format_of(data: bytes) -> int | None:
    """The format that a manifest says it has, whether or not it can be understood."""
    try:
        found = parse_json(data)["body"]["format"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if type(found) is int else None


def _files_in(folder: Path) -> Iterable[Path]:
    return sorted(each for each in folder.rglob("*") if each.is_symlink() or not each.is_dir())


def _hashes(folder: Path) -> dict[str, dict[str, Any]]:
    return {
        each.relative_to(folder).as_posix(): {"size": each.stat().st_size, "sha256": _sha256(each)}
        for each in _files_in(folder)
        if each.name != MANIFEST or each.parent != folder
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _compare(place: Path, wanted: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise `CorruptFileError` for the first file that is not as the manifest has it."""
    there = {each.relative_to(place).as_posix(): each for each in _files_in(place)}
    there.pop(MANIFEST, None)
    for name in sorted({*wanted, *there}):
        path = there.get(name)
        if path is None:
            raise _altered(place, name, "no such file: the bundle was cut")
        if name not in wanted:
            raise _altered(place, name, "a file that is not in the manifest")
        if path.is_symlink() or path.stat().st_size != wanted[name]["size"]:
            raise _altered(place, name, "another size, or a link")
        if _sha256(path) != wanted[name]["sha256"]:
            raise _altered(place, name, "another SHA-256")


def _check_size(made: Path, path: Path, most: int) -> None:
    size = sum(each.stat().st_size for each in _files_in(made))
    if size > most:
        raise _error(
            "SM-PREVIEW-020", path, "would be larger than it may be", f"at most {most:,} bytes",
            f"{size:,} bytes and perhaps more", "save fewer batches with --batches, or allow more "
            "with --max-bytes",
        )  # fmt: skip


def _shut(made: Path) -> None:
    """Let only the owner read it."""
    for each in (made, *made.rglob("*")):
        each.chmod(0o700 if each.is_dir() else 0o600)


def _error(
    code: str, path: Path, problem: str, expected: str, found: str, next_action: str
) -> CheckpointError:
    return CheckpointError(
        code,
        f"the bundle {path} {problem}",
        expected=expected,
        found=found,
        next_action=next_action,
        path=str(path),
    )


def _altered(place: Path, name: str, found: str) -> CorruptFileError:
    return CorruptFileError(
        "SM-PREVIEW-021",
        f"the bundle {place} is not what was saved",
        expected=f"{name} as its manifest has it",
        found=found,
        next_action="copy the whole bundle again, or save another one",
        path=f"{place}/{name}",
    )
