"""The backfill source's directory in a checkpoint: chunk files, their plan, the cursor.

The cursor is Spark's own: the file source logs each
file it takes in ``sources/``, and a batch's offset in ``offsets/`` says how far it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.checkpoint.logs import (
    Offsets,
    SourceLog,
    folders_in,
    names_in,
    newest_offsets,
    takes_below,
)
from statemigrate.errors import CorruptFileError, StartupError
from statemigrate.files import (
    VERSION,
    Files,
    Maybe,
    PathOrFiles,
    Table,
    check_shape,
    files_to_read,
    open_files,
    parse_json,
)
from statemigrate.native.control_rows import MARKER
from statemigrate.quoting import argument

if TYPE_CHECKING:
    import pyarrow as pa


# How fast a planned backfill goes along with live rows, as stored in the plan.


RATED_SHARE = 0.5
"""The most of a batch that a rate may take where no share was given."""
SHAPE = Maybe({"share": object, "keys_per_second": Maybe(object)}, missing=True)
"""What a plan's document has of it."""


@dataclass(frozen=True)
class BackfillLimits:
    """At most ``share`` of a batch's time (0 to 1), and at most ``keys_per_second``."""

    share: float
    keys_per_second: float | None = None

    @classmethod
    def of(cls, share: float | None, keys_per_second: float | None) -> BackfillLimits | None:
        """What was asked for; None for neither. Raises `StartupError` for what cannot be kept."""
        if share is None and keys_per_second is None:
            return None
        if share is not None and not 0 < share < 1:
            raise _unusable(
                "SM-BACKFILL-005",
                "a backfill's share is a part of a batch",
                "more than 0, below 1",
                share,
            )
        if keys_per_second is not None and not keys_per_second > 0:
            raise _unusable(
                "SM-BACKFILL-006",
                "a backfill's rate is in keys a second",
                "above 0",
                keys_per_second,
            )
        return cls(RATED_SHARE if share is None else share, keys_per_second)

    @classmethod
    def from_document(cls, document: dict[str, Any] | None) -> BackfillLimits | None:
        """What a plan's document has. Raises ValueError for what `of` refuses."""
        if document is None:
            return None
        share, rate = document["share"], document.get("keys_per_second")
        if not isinstance(share, float) or not isinstance(rate, float | int | None):
            raise ValueError(f"a pace of {share!r} and {rate!r}")  # noqa: TRY004 - a document's
        try:
            return cls.of(share, rate)
        except StartupError as error:
            raise ValueError(str(error)) from error


def _unusable(code: str, what: str, expected: str, found: float) -> StartupError:
    return StartupError(
        code, what, expected=expected, found=found, next_action="0.25, for example, is a quarter"
    )


CHUNKS = "statemigrate/control/chunks"
"""Where the backfill source looks for chunk files, below the checkpoint directory."""
WAITING = "statemigrate/control/waiting"
"""Where the keys of a plan with a pace are until chunks are cut of them."""
MADE = "_made"
"""What `ChunkFiles.create` leaves there; a file source passes over names that begin so."""
ADOPTIONS = "statemigrate/adoption"
"""Where adoptions are recorded, below the checkpoint directory."""
CONTROL = "statemigrate/control"
"""What backfill sources keep, below the checkpoint directory."""
_PAGES = "pages"
"""The folder in it of the operator on pages that has no name."""
_NAMED = "operator-"
"""What the folder in it begins with of one that has a name."""
_CHUNK = re.compile(rf".*/({CONTROL}/(?:(?:operator-[a-z0-9_]+|pages)/)?chunks/.*)", re.DOTALL)
_EMPTY = "empty"
"""Where chunks without a key are, among the plans' directories."""
_FORMAT = 1
_PLAN_SHAPE = {
    "id": str,
    "keys": int,
    "chunks": int,
    "offset": VERSION,
    "pace": SHAPE,
    "families": Maybe([str], missing=True),
    "entries": Maybe(int, missing=True),
    "entries_by_chunk": Maybe(Table(int), missing=True),
}


@dataclass(frozen=True)
class PlanRecord:
    """The newest plan, until it is withdrawn.

    ``id`` names the directory of its files, ``keys`` and ``chunks`` say how many were written, and
    ``offset`` is the backfill source's own before them: -1 if it had taken nothing yet. With a
    ``pace`` chunks are cut while the query runs, and ``chunks`` is 0. ``families`` are those whose
    keys were planned; None if a release wrote it that did not say. Where ``keys`` are pages,
    ``entries`` are those in them, and ``entries_by_chunk`` has those of each file, unless chunks
    are cut while the query runs: then their names say it. Else both are None.
    """

    id: str
    keys: int
    chunks: int
    offset: int
    pace: BackfillLimits | None = None
    families: tuple[str, ...] | None = None
    entries: int | None = None
    entries_by_chunk: Mapping[str, int] | None = None

    @property
    def counted(self) -> int:
        """The keys as users count them: of pages the entries."""
        return self.keys if self.entries is None else self.entries

    def covers(self, family: str) -> bool:
        """Whether the family's keys were planned, as far as is known."""
        return self.families is None or family in self.families


def is_source_of(path: str, source: Any) -> bool:
    """Whether a source, as a batch's progress tells of it, reads the files at a path."""
    return is_described_by(path, str(source.description))


def is_described_by(path: str, text: str) -> bool:
    """Whether Spark's text of a source is that of one that reads the files at a path."""
    # Spark writes a path with its scheme, which the path within its file system lacks.
    return text.endswith((f"{path}]", f"{_as_pattern(path)}]"))


def _as_pattern(directory: str) -> str:
    """What matches the directory alone: Spark's file source waits until a pattern is there."""
    return f"{directory[:-1]}[{directory[-1]}]"


def folder_of(operator: str | None) -> str:
    """Where a backfill source keeps its files: that of `with_backfill`, or of an operator on pages.

    ``operator`` is the name of the one on pages, empty where it has none; None for any other.
    """
    if operator is None:
        return CONTROL
    return f"{CONTROL}/{_NAMED}{operator}" if operator else f"{CONTROL}/{_PAGES}"


def chunks_of(operator: str | None) -> str:
    """`CHUNKS` of an operator, which is meant as in `folder_of`."""
    return f"{folder_of(operator)}/chunks"


def paged_in(files: Files) -> list[str]:
    """The names of the operators on pages that have a backfill source's folder."""
    folders = folders_in(files, CONTROL)
    named = [each.removeprefix(_NAMED) for each in folders if each.startswith(_NAMED)]
    return sorted([*named, *([""] if _PAGES in folders else ())])


def within_checkpoint(path: str) -> str | None:
    """Of the path of a chunk file, what is below its checkpoint; None for any other file."""
    found = _CHUNK.fullmatch(path)
    return None if found is None else found[1]


def has_keys(path: str) -> bool:
    """Whether a chunk file has keys, by its path or as ``<plan>/<file>``.

    One without only asks for a batch.
    """
    return not path.rpartition("/chunks/")[2].startswith(f"{_EMPTY}/")


class ChunkFiles:
    """The chunk files of one checkpoint, a path or a URI, for one operator of its query.

    ``operator`` is meant as in `folder_of`. With ``reading`` nothing is written, so that a remote
    checkpoint is reached without Java.
    """

    def __init__(
        self, checkpoint: PathOrFiles, operator: str | None = None, *, reading: bool = False
    ) -> None:
        self.operator = operator
        self.chunks = chunks_of(operator)
        """`CHUNKS` of this operator."""
        self.blocks = f"{folder_of(operator)}/waiting"
        """`WAITING` of this operator."""
        self._plan = f"{folder_of(operator)}/plan.json"
        self.files = files_to_read(checkpoint) if reading else open_files(checkpoint)
        self.checkpoint = self.files.location if checkpoint is self.files else str(checkpoint)
        self.directory = CheckpointDirectory(self.files, self.checkpoint)
        self.path = f"{self.files.location}/{self.chunks}"
        """The directory, as a path or whole URI."""
        self.location = f"{self.checkpoint.rstrip('/')}/{self.chunks}"
        """The directory as Spark takes it."""
        self.pattern = _as_pattern(self.location)
        """The same where it is not there yet."""
        self.waiting = f"{self.checkpoint.rstrip('/')}/{self.blocks}"
        """Where keys wait, as Spark takes it."""

    @property
    def option(self) -> str:
        """What a command needs to mean this operator."""
        return f" --operator {argument(self.operator)}" if self.operator else ""

    def create(self) -> None:
        """Make the directory if it is missing; the source refuses to start without it.

        In a bucket it is there as long as something is in it.
        """
        if not self.is_made():
            self.files.replace(f"{self.chunks}/{MADE}", b"")

    def offsets(self) -> Offsets | None:
        """The offsets of the newest batch that was begun; None before the first."""
        return newest_offsets(self.files)

    def is_taken_by(self, source: str, offsets: Offsets) -> bool | None:
        """Whether one of the query's sources takes chunk files, by its log.

        None where it has taken nothing, or is no file source.
        """
        return takes_below(self.files, source, self.chunks, offsets)

    def adoptions(self) -> dict[str, bytes]:
        """The records of what `statemigrate backfill --prepare` did here, by path."""
        names = names_in(self.files, ADOPTIONS)
        paths = (f"{ADOPTIONS}/{name}/record.json" for name in names if name.isdecimal())
        found = {path: self.directory.read(path) for path in paths}
        return {path: data for path, data in found.items() if data is not None}

    def is_made(self) -> bool:
        """Whether the directory is there: `create` has been called."""
        return self.directory.has(self.chunks)

    def log(self) -> SourceLog:
        """What the backfill source has taken so far, read now."""
        return SourceLog.read(self.files, self.chunks)

    def written(self) -> set[str]:
        """The chunk files that are there, as ``<plan>/<file>``; none of those without a key."""
        return {name for name in self._data(self.chunks) if has_keys(name)}

    def uncut(self) -> set[str]:
        """The files, as ``<plan>/<file>``, whose keys are not all in chunks yet."""
        return self._data(self.blocks)

    def _data(self, folder: str) -> set[str]:
        return {name for name in self._names(folder) if _is_chunk(name)}

    def _names(self, folder: str) -> set[str]:
        found = self.files.list(folder, recursive=True)
        return {e.name.removeprefix(f"{folder}/") for e in found if e.kind == "file"}

    def ask_for_batch(self, last: int) -> None:
        """Let the next run have a batch after ``last``, though no row comes: a chunk without a key.

        Asking again is the same as asking once. A chunk that waits makes a batch by itself.
        """
        if not self.written() - self.log().taken.keys():
            self.files.put(f"{self.chunks}/{_EMPTY}/{last}.parquet", no_rows())

    def remove_committed(self) -> int:
        """Remove the chunk files whose batches are committed; how many there were.

        Spark lists what is there in every batch, and knows what it has taken by its own log, which
        stays. While there is no plan its files are let be: one that is being made counts them.
        """
        # In this order: what another command writes meanwhile is not among the files, and a plan
        # that is there at the end was whole before they were listed, or is not theirs.
        there = self._names(self.chunks)
        written = {name for name in there if _is_chunk(name)}
        if not written:
            return 0
        log = self.log()
        done = {name for name in written if log.is_committed(name)}
        if done and self.plan() is None:
            done = {name for name in done if not has_keys(name)}
        checksums = {_checksum_of(name) for name in done} & there
        # Checksums first: one without its file would be known by nobody.
        self.files.delete(
            f"{self.chunks}/{name}" for names in (checksums, done) for name in sorted(names)
        )
        return len(done)

    def withdraw(self) -> int:
        """Remove the plan and every chunk file but those of a batch that is being processed.

        Returns how many of them the query had not taken yet, those with uncut keys among them. A
        file that the query lists or reads at this moment is passed over by it.
        """
        self.files.delete([self._plan])
        uncut = len(self.uncut())
        self.files.delete_folder(self.blocks)
        written, log = self.written(), self.log()
        in_progress = {name for name in written if name in log.taken and not log.is_committed(name)}
        busy = {name.partition("/")[0] for name in in_progress}
        for plan in set(folders_in(self.files, self.chunks)) - busy:
            self.files.delete_folder(f"{self.chunks}/{plan}")
        old = [name for name in written - in_progress if name.partition("/")[0] in busy]
        self.files.delete(f"{self.chunks}/{name}" for name in old)
        return len(written - log.taken.keys()) + uncut

    def plan(self) -> PlanRecord | None:
        """The newest plan; None if there is none, or it was withdrawn."""
        document = self.directory.read(self._plan)
        if document is None:
            return None
        try:
            found = parse_json(document)
            check_shape(found, {"format": range(_FORMAT, _FORMAT + 1), "plan": _PLAN_SHAPE})
            named = {name: found["plan"].get(name) for name in _PLAN_SHAPE}
            families = None if named["families"] is None else tuple(named["families"])
            pace = BackfillLimits.from_document(named["pace"])
            return PlanRecord(**named | {"pace": pace, "families": families})
        except ValueError as error:
            raise CorruptFileError(
                "SM-BACKFILL-004",
                f"{self.files.location}/{self._plan} is not a backfill's plan",
                expected=f"JSON of format {_FORMAT} with id, keys, chunks and offset",
                found=str(error),
                next_action=f"`statemigrate backfill {argument(self.checkpoint)}{self.option} "
                "--pause` removes it",
                path=f"{self.files.location}/{self._plan}",
            ) from error

    def write_plan(self, plan: PlanRecord) -> None:
        """Write the plan once all of its files are there."""
        document = {"format": _FORMAT, "plan": asdict(plan)}
        self.files.replace(self._plan, json.dumps(document).encode())


def no_rows() -> bytes:
    """A Parquet file that says nothing: Spark makes a batch of it."""
    import pyarrow as pa
    from pyarrow import parquet

    written = pa.BufferOutputStream()
    parquet.write_table(pa.table({MARKER: pa.array([], pa.string())}), written)
    return bytes(written.getvalue())


def _is_chunk(name: str) -> bool:
    # Of the last part: Spark's own rule for what its file source passes over.
    plan, slash, file = name.partition("/")
    return bool(plan and slash) and "/" not in file and not file.startswith(("_", "."))


def _checksum_of(name: str) -> str:
    """The file that Hadoop writes alongside on a local disk."""
    plan, _, file = name.partition("/")
    return f"{plan}/.{file}.crc"


# The keys of a plan with a pace: in blocks, from which chunks are cut while the query runs.
#
# A block lies out of the backfill source's sight. Its keys are in the order in which any piece of
# it is spread over all partitions. A chunk's name says which piece it is, so that what was cut is
# known from the names of files alone.


ENTRIES = "statemigrate_entries"
"""The column of a block that says how many entries are under a key."""
KEYS_IN_BLOCK = 50_000
_CUT = re.compile(r"([0-9]{5,})-([0-9]{7,})-([0-9]{7,})-([0-9]+)\.parquet")
_BLOCK = re.compile(r"part-([0-9]{5,})-.*\.parquet")


@dataclass(frozen=True, order=True)
class Cut:
    """The keys ``start`` to ``end`` (without it) of a block, and how many ``entries`` they have."""

    block: int
    start: int
    end: int
    entries: int

    @property
    def keys(self) -> int:
        """How many keys it has."""
        return self.end - self.start

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.block:05}-{self.start:07}-{self.end:07}-{self.entries}.parquet"


def cuts_of(plan: str, names: Iterable[str]) -> dict[str, Cut]:
    """Which of the backfill source's files are cuts of a plan, and what is in them."""
    found = {name: _CUT.fullmatch(name.removeprefix(f"{plan}/")) for name in names}
    return {name: Cut(*map(int, match.groups())) for name, match in found.items() if match}


class BlocksLeft:
    """The blocks of a plan that are left, and the place in them up to which chunks were cut."""

    def __init__(self, files: ChunkFiles, plan: str, after: Cut | None) -> None:
        self._files = files
        self._plan = plan
        names = names_in(files.files, f"{files.blocks}/{plan}")
        matches = [match for name in names if (match := _BLOCK.fullmatch(name))]
        self._names = {int(match[1]): f"{files.blocks}/{plan}/{match[0]}" for match in matches}
        self._after = after
        self._read = lru_cache(maxsize=1)(self._table)

    def keys(self) -> int:
        """How many keys are in no chunk yet."""
        after = self._after
        counts = {number: self._rows(number) for number in self._ahead()}
        cut = 0 if after is None else min(after.end, counts.get(after.block, 0))
        return sum(counts.values()) - cut

    def entries(self) -> int:
        """How many entries are under those keys."""
        after = self._after
        starts = {} if after is None else {after.block: after.end}
        counts = ((each, self._read(each).column(ENTRIES).to_pylist()) for each in self._ahead())
        return sum(sum(column[starts.get(number, 0) :]) for number, column in counts)

    def cut(self, entries: int) -> Cut | None:
        """Make a chunk of the next keys that have ``entries`` together, one or more.

        None where nothing is left. A chunk ends with its block.
        """
        for number in self._ahead():
            table, before = self._read(number), self._after
            start = before.end if before is not None and before.block == number else 0
            if start < len(table):
                return self._made(number, table, start, entries)
            self._files.files.delete([self._names.pop(number)])
        return None

    def _made(self, number: int, table: pa.Table, start: int, entries: int) -> Cut:
        from pyarrow import parquet

        counts = table.column(ENTRIES).slice(start).to_pylist()
        end, total = start, 0
        while end < len(table) and (end == start or total + counts[end - start] <= entries):
            total += counts[end - start]
            end += 1
        cut = Cut(number, start, end, total)
        written = BytesIO()
        parquet.write_table(table.slice(start, end - start).drop_columns([ENTRIES]), written)
        self._files.files.put(f"{self._files.chunks}/{self._plan}/{cut.name}", written.getvalue())
        self._after = cut
        return cut

    def _ahead(self) -> list[int]:
        least = -1 if self._after is None else self._after.block
        return sorted(number for number in self._names if number >= least)

    def _rows(self, number: int) -> int:
        from pyarrow import parquet

        return int(self._opened(parquet.read_metadata, number).num_rows)

    def _table(self, number: int) -> pa.Table:
        from pyarrow import parquet

        def read(data: BytesIO) -> pa.Table:
            # Spark's moments of 96 bits; it reads those of 64 as well.
            table = parquet.read_table(data, coerce_int96_timestamp_unit="us")
            table.column(ENTRIES)
            return table

        return self._opened(read, number)

    def _opened(self, read: Any, number: int) -> Any:
        import pyarrow as pa

        name = self._names[number]
        try:
            return read(BytesIO(self._files.files.get(name)))
        except (pa.ArrowException, KeyError, OSError) as error:
            path = f"{self._files.files.location}/{name}"
            raise CorruptFileError(
                "SM-BACKFILL-003",
                f"{path} has no keys of a backfill",
                expected=f"a Parquet file with the column {ENTRIES}",
                found=str(error),
                next_action=f"`statemigrate backfill {argument(self._files.checkpoint)}"
                f"{self._files.option}` plans again",
                path=path,
            ) from error
