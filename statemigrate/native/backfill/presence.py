"""Whether a query has the control source, told from its checkpoint alone.

Spark goes on from a checkpoint only with as many sources as its offset log has lines, and says so
with a bare assertion. Sources without names are told apart by their order alone, in which the
control source is the last.
"""

from __future__ import annotations

from statemigrate.checkpoint.logs.offsets import Offsets
from statemigrate.checkpoint.logs.sources import file_offset
from statemigrate.errors import CheckpointError
from statemigrate.native.backfill.adoptions import Record, parse_record
from statemigrate.native.backfill.chunk_files import CHUNKS, MADE, ChunkFiles, named_in
from statemigrate.shell import argument


def require_control_source(files: ChunkFiles) -> None:
    """Raise `CheckpointError` for a query that has run without the control source.

    One that has no batch yet may get it with its first start, and one whose sources have names at
    any start.
    """
    offsets = files.offsets()
    if offsets is None or not lacks_control_source(files):
        return
    check_last_source(files, offsets)
    count = len(offsets.lines)
    raise CheckpointError(
        "SM-BACKFILL-008",
        f"the query of {files.checkpoint} has run without the control source",
        expected=f"{count + 1} sources in its offset log: the stream's {count} and the control "
        "source, which with_backfill adds",
        found="one source" if count == 1 else f"{count} sources, the control source not among them",
        next_action=f"stop the query, run `statemigrate adopt {argument(files.checkpoint)} "
        "--apply`, put "
        "with_backfill around its stream and start it again",
        path=files.checkpoint,
    )


def check_last_source(files: ChunkFiles, offsets: Offsets) -> None:
    """Raise `CheckpointError` where it cannot be told whose the query's last source is.

    It may be the control source, whose directory is lost, and one more would be too many.
    """
    if not is_untold(files, offsets):
        return
    raise CheckpointError(
        "SM-BACKFILL-009",
        f"it cannot be told whether the query of {files.checkpoint} has the control source",
        expected=f"the directory {files.chunks}, or the files that its last source has taken",
        found=f"{len(offsets.lines)} sources, the last of which has taken nothing, and no such "
        "directory",
        next_action=untold_advice(files.checkpoint),
        path=files.checkpoint,
    )


def is_untold(files: ChunkFiles, offsets: Offsets) -> bool:
    """Whether nothing is left that tells the control source from a stream's own last source."""
    if offsets.named or files.adoptions() or files.is_made() or named_in(files.files):
        return False
    *others, (last, text) = offsets.by_source.items()
    if not others or file_offset(text) is None:
        return False
    return files.is_taken_by(last, offsets) is None


def untold_advice(checkpoint: str) -> str:
    """What to do there."""
    return (
        f"if with_backfill was around the stream, make the empty directory {checkpoint}/{CHUNKS} "
        f"again, in a bucket with an empty file {MADE} in it; if the last source is the stream's "
        "own, let it take a file first"
    )


def lacks_control_source(files: ChunkFiles) -> bool:
    """Whether the query has run without the control source, and has no room for it."""
    offsets = files.offsets()
    if offsets is None or offsets.named:
        return False
    return not has_control_source(files, offsets)


def has_control_source(files: ChunkFiles, offsets: Offsets) -> bool:
    """Whether the last of the query's sources, which have no names, is the control source."""
    adoption = _newest(files.adoptions())
    if adoption is not None:
        # Spark has given it the line that the adoption made room for.
        return adoption.progress == "adopted" and len(offsets.lines) == adoption.sources + 1
    return control_source(files, offsets) is not None


def control_source(files: ChunkFiles, offsets: Offsets) -> str | None:
    """The query's control source among sources without names, None where it has none.

    It is the last one, but for those of other operators on pages. Of several that have taken
    nothing yet it may be any; the last of them is given then.
    """
    return next(reversed(control_sources(files, offsets)), None)


def control_sources(files: ChunkFiles, offsets: Offsets) -> tuple[str, ...]:
    """The sources without names of which one is the control source: one, unless none has taken it.

    Then they have taken nothing yet, and nothing tells one from the other.
    """
    others = [ChunkFiles(files.files, name) for name in _others(files)]
    if not others:
        *rest, (last, text) = offsets.by_source.items()
        if not rest or file_offset(text) is None:
            return ()
        taken = files.is_taken_by(last, offsets)
        return (last,) if taken or (taken is None and files.is_made()) else ()
    numbers = [name for name, text in offsets.by_source.items() if file_offset(text) is not None]
    mine = [name for name in numbers if files.is_taken_by(name, offsets)]
    if mine or not files.is_made():
        return (*mine,)
    return tuple(name for name in numbers if files.is_taken_by(name, offsets) is None)


def _others(files: ChunkFiles) -> list[str]:
    """The names of the operators on pages whose control sources are other ones."""
    names = [*named_in(files.files)]
    if files.operator and ChunkFiles(files.files).is_made():
        names.append("")
    return [name for name in names if name != files.operator]


def _newest(records: dict[str, bytes]) -> Record | None:
    if not records:
        return None
    newest = max(records, key=lambda path: int(path.split("/")[-2]))
    return parse_record(records[newest], newest)
