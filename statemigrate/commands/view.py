"""`get` and `export`: the logical view of a checkpoint's stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from statemigrate.commands.following.progress import Progress, unseen
from statemigrate.commands.forms import SUFFIXES, form_of
from statemigrate.errors import StatemigrateError
from statemigrate.files.documents.whole import replacing
from statemigrate.native.spark_state.retrying import looks_again
from statemigrate.state.keys import keys_from_texts
from statemigrate.state.opening import require_store
from statemigrate.state.reader import StateReader

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark


class ExportError(StatemigrateError):
    """A file that cannot be exported to. Data: ``path``."""


@dataclass(frozen=True)
class Exported:
    """What was written: ``keys`` of ``store``, as of the committed ``batch``, to ``path``."""

    store: str
    keys: int
    batch: int
    path: str


@looks_again
def export(  # noqa: PLR0913 - all but three by name
    store: str,
    checkpoint: str | Path,
    path: str | Path | IO[bytes],
    *,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
    progress: Progress = unseen,
) -> Exported:
    """Write every key of ``store`` with its value, in the target format, to one file.

    The ending of ``path`` says in which form: ``.parquet``, ``.avro`` or ``.jsonl``; a binary
    stream is given lines of JSON, once all is read, and is "-" in the result. Each record
    has two fields: ``key``, a record of the key's columns, and ``value``, for list state an array.
    The file is its owner's alone, appears when it is complete, and replaces one of that name. The
    query may be running. ``progress`` is told how many keys were written; the other parameters are
    those of `StateReader`. A large store of the embedded engine is written by as many processes as
    there are processors, in the order of one. Raises `ExportError`, what
    `StateReader.entries` does, and `CheckpointError` for a process that was ended.
    """
    target = Path(path) if isinstance(path, str | Path) else None
    if target is not None:
        check_target(target)
    require_store(str(checkpoint), store)
    reader = StateReader(
        checkpoint,
        migrations=migrations,
        targets=targets,
        accept_edited=accept_edited,
        operator=operator,
        stores=stores,
        spark=spark,
    )
    # What a stream was given cannot be taken back where a look begins anew.
    with (
        reader,
        TemporaryFile() if target is None else replacing(target, private=True) as stream,
    ):
        suffix = ".jsonl" if target is None else target.suffix
        form = form_of(suffix, reader.key_type(store), reader.value_type(store))
        counted = _Counted(progress)
        form.write(stream, reader.parts(store, form.block, counted))
        if not isinstance(path, str | Path):
            stream.seek(0)
            copyfileobj(stream, path)
            path.flush()
    return Exported(store, counted.number, reader.batch, "-" if target is None else str(path))


@looks_again
def get(
    store: str,
    checkpoint: str | Path,
    *key: Any,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> Any | None:
    """What ``store`` holds under a key, in the target format; None if there is nothing.

    ``key`` has the values of the columns that the query groups by, for map state then those of the
    map's own key. A value is a dictionary by field name, for list state a list of them. For more
    than one key open a `StateReader`, whose parameters and errors these are.
    """
    require_store(str(checkpoint), store)
    with StateReader(
        checkpoint,
        migrations=migrations,
        targets=targets,
        accept_edited=accept_edited,
        operator=operator,
        stores=stores,
        spark=spark,
    ) as reader:
        return reader.get(store, *key)


@dataclass(frozen=True)
class Found:
    """Keys by column, with their values; ``is_one`` if a whole key was asked for."""

    entries: tuple[tuple[dict[str, Any], Any], ...]
    is_one: bool


@looks_again
def find(store: str, checkpoint: str | Path, words: Sequence[str], **reading: Any) -> Found:
    """All keys of ``store`` that begin with ``words``, texts as one types them.

    One word may be a whole key as a dry run prints it, a JSON list. The other parameters and the
    errors are those of `get`.
    """
    require_store(str(checkpoint), store)
    with StateReader(checkpoint, **reading) as reader:
        names = reader.key_columns(store)
        wanted = keys_from_texts(reader.key_type(store), words)
        found = [
            (dict(zip(names, key, strict=True)), value)
            for each in wanted
            for key, value in reader.entries(store, each)
        ]
        is_one = len(found) <= 1 and all(len(each) == len(names) for each in wanted)
        return Found(tuple(found), is_one)


def check_target(path: str | Path) -> None:
    """Raise `ExportError` for a file that cannot be exported to."""
    target = Path(path)
    if target.suffix not in SUFFIXES or not target.parent.is_dir():
        raise _unusable(target)


class _Counted:
    def __init__(self, progress: Progress) -> None:
        self.number = 0
        self._progress = progress

    def __call__(self, number: int) -> None:
        self.number = number
        self._progress(number, None)


def _unusable(path: Path) -> ExportError:
    return ExportError(
        "SM-EXPORT-001",
        f"cannot export to {path}",
        expected=f"a file ending in {', '.join(SUFFIXES)}, in a directory that exists",
        found=path.suffix or "no ending" if path.parent.is_dir() else f"no {path.parent}",
        next_action="name such a file",
        path=str(path),
    )
