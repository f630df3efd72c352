"""What a preview asks of the engine that keeps a query's state: its files, and how code runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from statemigrate.checkpoint import CheckpointDirectory, CommittedState
from statemigrate.checkpoint.logs import Offsets
from statemigrate.checkpoint.rows import sum_of_rows
from statemigrate.deployment import named_object
from statemigrate.embedded import (
    contents_at,
    fork_version,
    fork_versions,
    heartbeat_line,
    removed_versions,
)
from statemigrate.errors import CodeError
from statemigrate.files import Files, files_to_read, open_files
from statemigrate.native import backfill_lines
from statemigrate.preview.embedded_rows import EmbeddedStateRows
from statemigrate.preview.spark_rows import SparkStateRows
from statemigrate.rewrite import fork_batches, fork_state

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from statemigrate.embedded import ProcessorQuery, QueryTrial
    from statemigrate.formats import NamedColumn
    from statemigrate.preview.key_sample import KeySample, SampledTypes
    from statemigrate.preview.pseudonyms import Pseudonyms

StateChecksums = dict[str, tuple[int, str]]
"""By family how many rows it has, and the checksum of them."""
Keep = Callable[["DataFrame", int], None]
"""Gets the rows that a batch gives out."""
Times = Mapping[int, int]
"""By batch when it ran: milliseconds since 1970."""


class StartedCode(Protocol):
    """A query that has been started; Spark's own, or the embedded engine's."""

    def awaitTermination(self, timeout: int) -> bool | None:
        """Wait for its end, at most ``timeout`` seconds, and return whether it came."""

    def stop(self) -> None:
        """Stop it."""


class RunnableCode(Protocol):
    """What a function of the user's makes of its streams."""

    @property
    def stream(self) -> DataFrame:
        """The stream whose plan shows what is read."""

    @property
    def output(self) -> StructType:
        """The columns that it gives out."""

    def check(self, folder: Path) -> None:
        """Raise `StartupError` where it is known not to start on the checkpoint in ``folder``."""

    def start(self, folder: Path, keep: Keep, times: Times, **trigger: Any) -> StartedCode:
        """Run it on the checkpoint in ``folder``, with a trigger as Spark takes it."""


class StateRows(Protocol):
    """The state of a query with other rows: those of a sample of the keys, with pseudonyms.

    ``state_folder`` is where a checkpoint has the files that are read as rows.
    """

    state_folder: str

    def check(self, files: Files, batch: int) -> SampledTypes:
        """The types of the sample's columns in the state after a batch.

        Raises `UnsupportedError` for state whose rows cannot be chosen or masked.
        """

    def copy(self, files: Files, new: Path, batches: Sequence[int], scratch: Path) -> None:
        """Copy the state after each of some batches, and their logs, to a new folder.

        What comes up on the way is in ``scratch``, which the caller removes. Raises
        `UnsupportedError` for state that cannot be written with other rows.
        """

    def columns(self, files: Files, batch: int) -> Iterable[NamedColumn]:
        """All columns of the state after a batch, and the fields in them."""

    def rows(self, files: Files, batches: Sequence[int]) -> Iterator[tuple[str, pa.Array]]:
        """All that the state after some batches has, as structs or texts, and what each is."""


class StateEngine(Protocol):
    """Keeps the state of a query that is previewed.

    ``compares_meaning`` says whether `plan` compares old code with new.
    """

    compares_meaning: bool

    def lines(self, files: Files, offsets: Offsets) -> frozenset[str]:
        """The lines of an offset log whose sources are the engine's own: they have no input."""

    def removed(self, files: Files, batches: Sequence[int]) -> Sequence[int]:
        """Those of some batches whose state is known to be there no longer."""

    def fork(self, files: Files, folder: Path, batch: int) -> None:
        """Copy the state after a batch, for a query with an id of its own."""

    def fork_batches(self, files: Files, folder: Path, batches: Sequence[int]) -> None:
        """Copy the state after each of some batches, and their logs."""

    def other_rows(self, pseudonyms: Pseudonyms, sample: KeySample | None) -> StateRows:
        """The state with pseudonyms, and that of a sample alone."""

    def state_to_compare(
        self, files: Files, checkpoint: str, folder: Path, batches: Sequence[int]
    ) -> str:
        """The checkpoint in which the query's own state after some batches is read.

        It may be copied to ``folder``. Raises what reading damaged state raises.
        """

    def deployed_in(self, checkpoint: str, fork: str) -> str:
        """Which of a query's checkpoint and a fork of it says what its code is deployed with."""

    def checksums(self, checkpoint: str, batch: int) -> StateChecksums:
        """By family the checksum of the rows after a batch: in whatever order, the same."""

    def check_code(self, references: Sequence[str]) -> None:
        """Raise `CodeError` where code is named that is no function of streams, but its part."""

    def stream_of(self, made: Any, reference: str) -> DataFrame:
        """The stream of what code has made, as `runnable` has it, without looking at its state."""

    def runnable(self, made: Any, reference: str, mode: str) -> RunnableCode:
        """What ``made`` is, which code has returned. Raises `CodeError` if it does not run here."""


@dataclass(frozen=True)
class SparkCode:
    """A stream, which Spark runs with an output mode."""

    stream: DataFrame
    mode: str

    @property
    def output(self) -> StructType:
        """See `RunnableCode`."""
        found: StructType = self.stream.schema
        return found

    def check(self, folder: Path) -> None:
        """See `RunnableCode`; `plan` compares it with the state."""

    def start(self, folder: Path, keep: Keep, times: Times, **trigger: Any) -> StartedCode:  # noqa: ARG002
        """See `RunnableCode`; Spark takes the time of a batch from its log."""
        writer = self.stream.writeStream.foreachBatch(keep).outputMode(self.mode).trigger(**trigger)
        started: StartedCode = writer.option("checkpointLocation", folder.as_uri()).start()
        return started


@dataclass(frozen=True)
class EmbeddedCode:
    """An `EmbeddedQuery`, whose code runs on a copy."""

    trial: QueryTrial

    @property
    def stream(self) -> DataFrame:
        """See `RunnableCode`."""
        return self.trial.stream

    @property
    def output(self) -> StructType:
        """See `RunnableCode`."""
        return self.trial.output

    def check(self, folder: Path) -> None:
        """See `RunnableCode`."""
        self.trial.check(folder)

    def start(self, folder: Path, keep: Keep, times: Times, **trigger: Any) -> StartedCode:
        """See `RunnableCode`."""
        return self.trial.start(folder, keep, times, **trigger)


class SparkEngine:
    """Spark's own state store; see `StateEngine`."""

    compares_meaning = True

    def lines(self, files: Files, offsets: Offsets) -> frozenset[str]:
        """See `StateEngine`."""
        return backfill_lines(files, offsets)

    def removed(self, files: Files, batches: Sequence[int]) -> Sequence[int]:  # noqa: ARG002
        """See `StateEngine`: what is missing is found when it is copied."""
        return ()

    def fork(self, files: Files, folder: Path, batch: int) -> None:
        """See `StateEngine`."""
        fork_state(files, open_files(folder.as_uri()), batch)

    def fork_batches(self, files: Files, folder: Path, batches: Sequence[int]) -> None:
        """See `StateEngine`."""
        fork_batches(files, open_files(folder.as_uri()), batches)

    def other_rows(self, pseudonyms: Pseudonyms, sample: KeySample | None) -> StateRows:
        """See `StateEngine`."""
        return SparkStateRows(pseudonyms, sample)

    def state_to_compare(
        self,
        files: Files,  # noqa: ARG002
        checkpoint: str,
        folder: Path,  # noqa: ARG002
        batches: Sequence[int],  # noqa: ARG002
    ) -> str:
        """See `StateEngine`."""
        return checkpoint

    def deployed_in(self, checkpoint: str, fork: str) -> str:  # noqa: ARG002
        """See `StateEngine`."""
        return fork

    def checksums(self, checkpoint: str, batch: int) -> StateChecksums:
        """See `StateEngine`."""
        found: StateChecksums = {}
        for each in CommittedState(files_to_read(checkpoint), batch).families:
            name = f"{each.operator.number}/{each.store.name}/{each.family.name}"
            count = total = 0
            for partition in range(len(each.parts)):
                for keys, values in each.raw(partition):
                    count += len(keys)
                    total += sum_of_rows(keys, values)
            found[name] = (count, f"{total % (1 << 64):016x}")
        return found

    def check_code(self, references: Sequence[str]) -> None:
        """See `StateEngine`: what is no function is refused by its inputs."""

    def stream_of(self, made: Any, reference: str) -> DataFrame:  # noqa: ARG002
        """See `StateEngine`."""
        stream: DataFrame = made
        return stream

    def runnable(self, made: Any, reference: str, mode: str) -> RunnableCode:  # noqa: ARG002
        """See `StateEngine`. Raises `TypeError` for what is no stream."""
        if not getattr(made, "isStreaming", False):
            raise TypeError(f"it returns {type(made).__name__}, and no stream")
        return SparkCode(made, mode)


class EmbeddedEngine:
    """The embedded engine; see `StateEngine`."""

    compares_meaning = False

    def lines(self, files: Files, offsets: Offsets) -> frozenset[str]:  # noqa: ARG002
        """See `StateEngine`."""
        return frozenset({heartbeat_line(offsets)})

    def removed(self, files: Files, batches: Sequence[int]) -> Sequence[int]:
        """See `StateEngine`."""
        return removed_versions(files, batches)

    def fork(self, files: Files, folder: Path, batch: int) -> None:
        """See `StateEngine`."""
        fork_version(files, folder, batch)

    def fork_batches(self, files: Files, folder: Path, batches: Sequence[int]) -> None:
        """See `StateEngine`."""
        fork_versions(files, folder, batches)

    def other_rows(self, pseudonyms: Pseudonyms, sample: KeySample | None) -> StateRows:
        """See `StateEngine`."""
        return EmbeddedStateRows(pseudonyms, sample)

    def state_to_compare(
        self,
        files: Files,
        checkpoint: str,  # noqa: ARG002
        folder: Path,
        batches: Sequence[int],
    ) -> str:
        """See `StateEngine`: a copy, since a running query may remove versions meanwhile."""
        fork_versions(files, folder, batches)
        return folder.as_uri()

    def deployed_in(self, checkpoint: str, fork: str) -> str:  # noqa: ARG002
        """See `StateEngine`: the newest version; a release may lie within the batches."""
        return checkpoint

    def checksums(self, checkpoint: str, batch: int) -> StateChecksums:
        """See `StateEngine`."""
        found = contents_at(files_to_read(checkpoint), batch)
        return {name: (each.records, each.hash) for name, each in found.items()}

    def check_code(self, references: Sequence[str]) -> None:
        """See `StateEngine`: `plan` takes a processor too."""
        for reference in references:
            found = named_object(reference)
            if hasattr(found, "handleInputRows"):
                name = found.__name__ if isinstance(found, type) else type(found).__name__
                raise _no_query(reference, f"{name}, a processor alone")

    def stream_of(self, made: Any, reference: str) -> DataFrame:
        """See `StateEngine`."""
        from statemigrate.embedded import parts_of

        return parts_of(_unstarted(made, reference)).stream

    def runnable(self, made: Any, reference: str, mode: str) -> RunnableCode:  # noqa: ARG002
        """See `StateEngine`."""
        from statemigrate.embedded import QueryTrial

        return EmbeddedCode(QueryTrial.of(_unstarted(made, reference)))


def _unstarted(made: Any, reference: str) -> ProcessorQuery:
    from statemigrate.embedded import ProcessorQuery

    if isinstance(made, ProcessorQuery):
        return made
    raise _no_query(reference, type(made).__name__)


def _no_query(reference: str, found: str) -> CodeError:
    return CodeError(
        "SM-PREVIEW-032",
        f"{reference} makes no query of the embedded engine, which keeps the checkpoint's state",
        expected="a function from the input streams to an EmbeddedQuery that is not started",
        found=found,
        next_action="return the EmbeddedQuery from the function, and start it where the "
        "function is called",
        reference=reference,
    )


def engine_of(files: Files) -> StateEngine:
    """The engine that keeps the state of a checkpoint."""
    return EmbeddedEngine() if CheckpointDirectory(files).is_embedded else SparkEngine()
