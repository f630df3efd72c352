"""The control source's directory in a checkpoint: chunk files, the plan they belong to, the cursor.

Everything is looked at through ``pyarrow.fs``. The cursor is Spark's own: the file source logs each
file it takes in ``sources/``, and a batch's offset in ``offsets/`` says how far it came.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from statemigrate.checkpoint.offsets import Offsets, names_in, newest_offsets
from statemigrate.checkpoint.sources import SourceLog, files_taken
from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.files import parse_json
from statemigrate.files.shapes import VERSION, check_shape
from statemigrate.native.spark_state.reader import file_system, replace_file

CHUNKS = "statemigrate/control/chunks"
"""Where the control source looks for chunk files, below the checkpoint directory."""
ADOPTIONS = "statemigrate/adoption"
"""Where adoptions are recorded, below the checkpoint directory."""
_PLAN = "statemigrate/control/plan.json"
_FORMAT = 1
_PLAN_SHAPE = {"id": str, "keys": int, "chunks": int, "offset": VERSION}


@dataclass(frozen=True)
class PlanRecord:
    """The newest plan, until it is withdrawn.

    ``id`` names the directory of its files, ``keys`` and ``chunks`` say how many were written, and
    ``offset`` is the control source's own before them: -1 if it had taken nothing yet.
    """

    id: str
    keys: int
    chunks: int
    offset: int


class ChunkFiles:
    """The chunk files of one checkpoint, a path or a URI."""

    def __init__(self, checkpoint: str) -> None:
        self.checkpoint = checkpoint
        self._system, root = file_system(checkpoint)
        self._root = root.rstrip("/")
        self.path = f"{self._root}/{CHUNKS}"
        """The directory within its file system."""
        self.location = f"{checkpoint.rstrip('/')}/{CHUNKS}"
        """The directory as Spark takes it."""

    def require_query(self) -> str:
        """The id of the query that the checkpoint is of.

        Raises `CheckpointError` for what is not a checkpoint, or one of the embedded engine.
        """
        found = self.query_id()
        if found is None:
            raise CheckpointError(
                f"{self.checkpoint} is not the checkpoint of a streaming query",
                expected="a directory with Spark's file metadata and the folders offsets and "
                "commits",
                found=self._listing(),
                next_action="name the directory that the query has as its checkpointLocation, "
                "after its first start",
                path=self.checkpoint,
            )
        self.refuse_embedded()
        return found

    def query_id(self) -> str | None:
        """The id of the query, None before its first start.

        Raises `CorruptFileError` for a file that does not say it.
        """
        document = self._read("metadata")
        if document is None:
            return None
        try:
            return str(parse_json(document)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(
                f"{self._root}/metadata does not name a query",
                expected="JSON with the query's id",
                found=f"{document[:60]!r}",
                next_action="restore the file from a copy of the checkpoint; Spark reads it too",
                path=f"{self._root}/metadata",
            ) from error

    def refuse_embedded(self) -> None:
        """Raise `CheckpointError` for a checkpoint of the embedded engine."""
        if self._exists("statemigrate/versions"):
            raise CheckpointError(
                f"the state in {self.checkpoint} is the embedded engine's",
                expected="a checkpoint of transformWithState, with Spark's own state",
                found="statemigrate/versions, where the embedded engine keeps its state",
                next_action="nothing is to be planned there: EmbeddedQuery backfills by itself, "
                "as its BackfillOptions say",
                path=self.checkpoint,
            )

    def create(self) -> None:
        """Make the directory if it is missing; the source refuses to start without it."""
        self._system.create_dir(self.path, recursive=True)

    def offsets(self) -> Offsets | None:
        """The offsets of the newest batch that was begun; None before the first."""
        return newest_offsets(self._system, self._root)

    def taken_by(self, source: str) -> dict[str, int]:
        """The files that one of the query's sources has taken; none if it is no file source."""
        return files_taken(self._system, self._root, source)

    def adoptions(self) -> dict[str, bytes]:
        """The records of what `statemigrate adopt` did here, by path."""
        names = names_in(self._system, f"{self._root}/{ADOPTIONS}")
        paths = (f"{ADOPTIONS}/{name}/record.json" for name in names if name.isdecimal())
        found = {path: self._read(path) for path in paths}
        return {path: data for path, data in found.items() if data is not None}

    def is_made(self) -> bool:
        """Whether the directory is there: `create` has been called."""
        return self._exists(CHUNKS)

    def log(self) -> SourceLog:
        """What the control source has taken so far, read now."""
        return SourceLog.read(self._system, self._root, CHUNKS)

    def written(self) -> set[str]:
        """The chunk files that are there, as ``<plan>/<file>``."""
        from pyarrow import fs

        selector = fs.FileSelector(self.path, recursive=True, allow_not_found=True)
        found = (each.path.removeprefix(f"{self.path}/") for each in self._files(selector))
        return {name for name in found if name.count("/") == 1 and _is_data(name)}

    def withdraw(self) -> int:
        """Remove the plan and every chunk file but those of a batch that is being processed.

        Returns how many of them the query had not taken yet. A file that the query lists or reads
        at this moment is passed over by it.
        """
        self._remove(self._system.delete_file, f"{self._root}/{_PLAN}")
        written, log = self.written(), self.log()
        in_progress = {name for name in written if name in log.taken and not log.is_committed(name)}
        busy = {name.partition("/")[0] for name in in_progress}
        for plan in {name.partition("/")[0] for name in self._directories()} - busy:
            self._remove(self._system.delete_dir, f"{self.path}/{plan}")
        for name in written - in_progress:
            if name.partition("/")[0] in busy:
                self._remove(self._system.delete_file, f"{self.path}/{name}")
        return len(written - log.taken.keys())

    def plan(self) -> PlanRecord | None:
        """The newest plan; None if there is none, or it was withdrawn."""
        document = self._read(_PLAN)
        if document is None:
            return None
        try:
            found = parse_json(document)
            check_shape(found, {"format": range(_FORMAT, _FORMAT + 1), "plan": _PLAN_SHAPE})
            return PlanRecord(**{name: found["plan"][name] for name in _PLAN_SHAPE})
        except ValueError as error:
            raise CorruptFileError(
                f"{self._root}/{_PLAN} is not a backfill's plan",
                expected=f"JSON of format {_FORMAT} with id, keys, chunks and offset",
                found=str(error),
                next_action=f"`statemigrate backfill {self.checkpoint} --pause` removes it",
                path=f"{self._root}/{_PLAN}",
            ) from error

    def write_plan(self, plan: PlanRecord) -> None:
        """Write the plan once all of its files are there."""
        document = {"format": _FORMAT, "plan": asdict(plan)}
        replace_file(self._system, f"{self._root}/{_PLAN}", json.dumps(document).encode())

    def entries(self) -> set[str] | None:
        """The names in the checkpoint directory; None if there is no such directory."""
        from pyarrow import fs

        kind = self._system.get_file_info(self._root).type
        if kind != fs.FileType.Directory:
            return None if kind == fs.FileType.NotFound else {"a file, not a directory"}
        found = self._system.get_file_info(fs.FileSelector(self._root))
        return {each.base_name for each in found}

    def is_unused(self) -> bool:
        """Whether nothing is there that a query, or anybody else, has put there."""
        names = {name for name in self.entries() or () if not name.startswith(".")}
        # Spark names some files of its own with a dot; the folder statemigrate may be there first,
        # and the root of a volume has a folder of its file system's.
        return names <= {"statemigrate", "lost+found"}

    def _read(self, name: str) -> bytes | None:
        try:
            with self._system.open_input_stream(f"{self._root}/{name}") as stream:
                return bytes(stream.read())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _exists(self, name: str) -> bool:
        from pyarrow import fs

        found = self._system.get_file_info(f"{self._root}/{name}")
        return bool(found.type != fs.FileType.NotFound)

    def _directories(self) -> set[str]:
        from pyarrow import fs

        found = self._system.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        return {each.base_name for each in found if each.type == fs.FileType.Directory}

    def _files(self, selector: Any) -> list[Any]:
        from pyarrow import fs

        found = self._system.get_file_info(selector)
        return [each for each in found if each.type == fs.FileType.File]

    def _remove(self, remove: Any, path: str) -> None:
        try:
            remove(path)
        except FileNotFoundError:
            # Never there, or withdrawn from elsewhere at the same time: gone either way.
            return

    def _listing(self) -> str:
        entries = self.entries()
        if entries is None:
            return "no such directory"
        return ", ".join(sorted(entries)[:8]) or "an empty directory"


def _is_data(name: str) -> bool:
    # Spark's own rule for what its file source passes over.
    return not name.rpartition("/")[2].startswith(("_", "."))
