"""What a new checkpoint is made from: where its rows come from, and what goes along with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from statemigrate.checkpoint import MEANINGS, OPERATOR_MEANINGS, OWN, CheckpointDirectory
from statemigrate.errors import RewriteError
from statemigrate.files import Files, check_shape, sealed, understood, unsealed
from statemigrate.native import RECORD, check_readable, read_record, record_document
from statemigrate.rewrite.claims import (
    MAKING,
    MARK,
    METADATA,
    Making,
    check_separate,
    check_unclaimed,
    claimed_folders,
    is_claim,
    making_checkpoint,
)
from statemigrate.rewrite.family_plans import is_written_name
from statemigrate.rewrite.file_reading import FileReader
from statemigrate.rewrite.fork import making, own_files
from statemigrate.rewrite.operator import Copies, copied_operators
from statemigrate.rewrite.pages import reader_of
from statemigrate.rewrite.rewrite_plan import RewritePlan
from statemigrate.rewrite.rewrite_report import REPORT, FamilyReport, family_json, read_family
from statemigrate.rewrite.script_ways import noted_stores
from statemigrate.rewrite.source_logs import retained_logs, taken_logs
from statemigrate.rewrite.spark_reader import RowReader, StateReader, rewriting_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


RESTORED = "statemigrate/restored.json"
"""What `repair` notes of families that it has brought back, below the new checkpoint."""
_LARGEST = 1 << 30
"""Bytes of a file that goes along."""


class Origin(Protocol):
    """What a plan's rows come from."""

    @property
    def location(self) -> str:
        """How a report calls it."""

    @property
    def query(self) -> str:
        """The id of the new checkpoint's query."""

    @property
    def metadata(self) -> bytes:
        """The file that says this id, and makes a directory a checkpoint."""

    @property
    def tables(self) -> Mapping[str, str]:
        """By store the tables that become its state; none where the query goes on."""

    def reader(self, plan: RewritePlan, spark: SparkSession) -> RowReader:
        """What gives the plan's old rows."""

    def unchanged_operators(self, plan: RewritePlan) -> Mapping[int, Copies]:
        """What is copied, by the new numbers of operators whose files stay as they are."""

    def extra_files(
        self, plan: RewritePlan, new: Files, spark: SparkSession
    ) -> Iterator[tuple[str, bytes]]:
        """The files of the new checkpoint that are neither state nor logs of batches, by name."""

    def confirm(self, plan: RewritePlan) -> None:
        """Raise `RewriteError` where it is not what the plan was made for any more."""


@dataclass(frozen=True)
class OldCheckpoint:
    """The checkpoint whose ``files`` these are, of the query with this id.

    ``details`` are what the log is to say of the rewrite. ``meaning`` is the record of what the new
    code means by the state, by its name; None where the old records stay true.
    """

    files: Files
    query: str
    tables: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)
    meaning: Mapping[str, bytes] | None = None

    @property
    def location(self) -> str:
        """Where it is."""
        return self.files.location

    @property
    def metadata(self) -> bytes:
        """The file that names the query: the new checkpoint is the same query's."""
        return self.files.get("metadata")

    def reader(self, plan: RewritePlan, spark: SparkSession) -> RowReader:
        """What tasks read from its files, and what is in pages read from these."""
        states = StateReader(self.files, plan.old.batch, rewriting_session(spark, plan.old))
        reader = FileReader(states, plan.old)
        return reader if plan.layout is None else reader_of(plan.layout.old, reader, self.location)

    def unchanged_operators(self, plan: RewritePlan) -> Mapping[int, Copies]:
        """Those in which nothing changes."""
        kept = copied_operators(plan, self.files)
        # Of one that was in pages, or is to be, other files are there than the plan's shapes say.
        laid_out = None if plan.layout is None else plan.layout.number
        return {number: each for number, each in kept.items() if number != laid_out}

    def extra_files(
        self, plan: RewritePlan, new: Files, spark: SparkSession
    ) -> Iterator[tuple[str, bytes]]:
        """The sources' logs, up to the offsets of the plan, and what statemigrate itself keeps.

        What a rewrite noted of the old checkpoint stays there; what is new of the record of stores
        is put in.
        """
        yield from retained_logs(plan, self.files, new)
        yield from taken_logs(plan, spark)
        own = own_files(self.files, plan.new.batch, is_last=True)
        noted = noted_stores(plan.scripts, plan.new.batch)
        layout = plan.layout
        for name in own.copied:
            is_left = layout is not None and name.startswith(layout.left)
            is_left |= self.meaning is not None and name.startswith(
                (f"{MEANINGS}/", f"{OPERATOR_MEANINGS}/")
            )
            if not (_is_of_a_rewrite(name) or is_left or (noted and name == RECORD)):
                yield name, self.files.get(name, most=_LARGEST)
        yield from own.written.items()
        yield from (self.meaning or {}).items()
        yield from layout.files.items() if layout is not None else ()
        if noted:
            yield RECORD, record_document({**read_record(self.files), **noted})
        # Under a name of the plan's: what is gone on with writes it again.
        place, unique = self.location, plan.fingerprint[:32]
        log = making(
            "rewrite", plan.new.batch, place, own.copied, plan.scripts, unique, self.details
        )
        yield from log.items()

    def confirm(self, plan: RewritePlan) -> None:
        """Raise `RewriteError` where the query has gone on meanwhile."""
        begun = CheckpointDirectory(self.files).last_begun()
        if begun != plan.old.batch:
            raise RewriteError(
                "SM-REWRITE-046",
                f"the query of {self.location} has gone on while its state was rewritten",
                expected=f"batch {plan.old.batch} as the last one, as when the rewrite began",
                found=f"batch {begun}",
                next_action="stop the query, and run the same command again; no checkpoint was "
                "published",
                path=self.location,
            )


def _is_of_a_rewrite(name: str) -> bool:
    """Whether a file says of the old checkpoint alone how it was made, and whether to the end."""
    return name in (REPORT, RESTORED) or is_written_name(name)


# The directory of the new checkpoint while it is none yet.
#
# It says whose it is before anything of it is there, and becomes a checkpoint by its last file,
# ``metadata``, in whose place is one until then that no Spark reads. What is half written belongs
# to one plan: the same plan goes on with it, another one begins again, and a directory without the
# mark is nobody's to write in.


_FOLDERS = ("state", "sources", "commits", "offsets")
_SHAPE = {"fingerprint": str, "old": str}


@dataclass(frozen=True)
class Target:
    """The directory of one plan, which has a ``fingerprint``, for the checkpoint ``old``.

    ``origins`` are the files that it is made from, by what they are called; ``verb`` is the command
    that makes it.
    """

    files: Files
    fingerprint: str
    old: str
    origins: tuple[tuple[str, Files], ...] = ()
    verb: str = "rewrite"

    def check(self) -> None:
        """Raise `RewriteError` unless nothing is there but what a rewrite has begun.

        Raises `CheckpointInUseError` where another command makes a checkpoint there, and
        `CheckpointError` for a place that Spark could not read, or that is not there for a link.
        """
        # Spark reads back what is written.
        check_readable(self.files.location)
        for what, origin in self.origins:
            check_separate(origin, self.files, what)
        check_unclaimed(self.files)
        self._check_contents()

    @contextmanager
    def begun(self) -> Iterator[Begun]:
        """Begin it, or go on with what this plan has begun, for the length of the block.

        Raises as `check`.
        """
        self.check()
        with making_checkpoint(self.files, self.verb) as made:
            # Another may have made one since it was looked at.
            self._check_contents()
            made.shut()
            mark = {"fingerprint": self.fingerprint, "old": self.old}
            if self._mark() != mark:
                self._clear()
                self.files.replace(MARK, sealed(mark))
            yield Begun(made)

    def _clear(self) -> None:
        own = [each.name for each in self.files.list(OWN, recursive=True)]
        # What says that state is finished goes before the state, and the mark of another plan stays
        # until this plan's takes its place: without one what is left would be nobody's.
        self.files.delete([name for name in own if not is_claim(name) and name != MARK])
        for folder in _FOLDERS:
            self.files.delete_folder(folder)

    def _check_contents(self) -> None:
        directory = CheckpointDirectory(self.files)
        names = directory.entries() or set()
        is_unfinished = directory.is_unfinished
        if METADATA in names and not is_unfinished:
            raise RewriteError(
                "SM-REWRITE-052",
                f"{self.files.location} is a checkpoint already",
                expected="a directory that is not there yet",
                found="the file metadata, which makes it a checkpoint",
                next_action="if this command made it before, it is whole: `statemigrate rewrite "
                "--verify` "
                "compares it with the old one; else name another directory",
                path=self.files.location,
                contents="checkpoint",
            )
        ours = {OWN, *_FOLDERS} if self._mark() is not None else claimed_folders(self.files)
        foreign = sorted(
            name for name in names - ours - {METADATA, "lost+found"} if not name.startswith(".")
        )
        if foreign:
            raise RewriteError(
                "SM-REWRITE-053",
                f"{self.files.location} has other things in it",
                expected="a directory that is not there yet, or what a rewrite has begun there",
                found=", ".join(foreign)[:200],
                next_action="name another directory",
                path=self.files.location,
                contents="other",
            )

    def _mark(self) -> dict[str, str] | None:
        place = f"{self.files.location}/{MARK}"
        try:
            document = unsealed(self.files.get(MARK), place)
        except FileNotFoundError:
            return None
        understood(place, "whose the directory is", lambda: check_shape(document, _SHAPE))
        return document


@dataclass(frozen=True)
class Begun:
    """The new checkpoint of a plan that this process makes."""

    made: Making

    @property
    def files(self) -> Files:
        """What is there so far."""
        return self.made.files

    def require_own(self) -> None:
        """Raise `CheckpointInUseError` where another command has taken it over."""
        self.made.claim.require_own()

    def finished(self, operator: int) -> tuple[FamilyReport, ...] | None:
        """What was written of an operator before this plan was interrupted; None if not all."""
        place = f"{MAKING}/{operator}.json"
        try:
            document = unsealed(self.files.get(place), f"{self.files.location}/{place}")
        except FileNotFoundError:
            return None
        return understood(
            place, "what was written", lambda: tuple(map(read_family, document["families"]))
        )

    def finish(self, operator: int, families: tuple[FamilyReport, ...]) -> None:
        """Note that an operator's files are all there."""
        document = {"families": [family_json(each) for each in families]}
        self.files.replace(f"{MAKING}/{operator}.json", sealed(document))

    def publish(self, metadata: bytes) -> None:
        """Make it a checkpoint. Raises as `Making.publish`."""
        self.made.publish(metadata)
        self.files.delete([MARK])
