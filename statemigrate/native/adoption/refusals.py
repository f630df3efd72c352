"""The reasons for which a checkpoint is left as it is."""

from __future__ import annotations

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.checkpoint.operators.metadata import operator_names
from statemigrate.checkpoint.operators.schemas import value_fields
from statemigrate.errors import CheckpointError
from statemigrate.files import Files
from statemigrate.files.opening import Place
from statemigrate.native.adoption.backup import Backup
from statemigrate.native.adoption.offsets import OffsetFile, OffsetLog
from statemigrate.native.backfill.chunk_files import ChunkFiles, named_in
from statemigrate.native.backfill.presence import check_last_source, has_control_source
from statemigrate.native.spark_state.operators import FUNCTION, PROCESSOR
from statemigrate.native.spark_state.paths import check_readable, check_source_path
from statemigrate.shell import argument

_STATE = "groupState"
"""The field of a function's rows that holds its own state."""


def native_log(checkpoint: Place) -> OffsetLog:
    """The offset log of a query on Spark's own state that has run before."""
    log = OffsetLog(checkpoint)
    if CheckpointDirectory(log.files).is_embedded:
        raise CheckpointError(
            "SM-ADOPT-006",
            f"{checkpoint} belongs to a query of the embedded engine",
            expected="a query whose state is in Spark's own state store",
            found="state of the embedded engine",
            next_action="nothing to adopt: the embedded engine runs its backfill by itself",
            path=log.checkpoint,
        )
    if log.last_batch is None:
        raise CheckpointError(
            "SM-ADOPT-007",
            f"{checkpoint} has no batch yet",
            expected="a query that has run before",
            found="no batch in offsets/",
            next_action="nothing to adopt: use the control source from the query's first start",
            path=log.checkpoint,
        )
    return log


def has_named_sources(log: OffsetLog) -> bool:
    """Whether the log names its sources, so that one can come and go without any help."""
    named = {file.named for file in log.read_on_restart()}
    if len(named) > 1:
        raise CheckpointError(
            "SM-ADOPT-008",
            f"the newest files in {log.checkpoint}/offsets are of two kinds",
            expected="both with named sources, or both without",
            found="one of each",
            next_action="let the query run one more batch, stop it, and run the command again",
            path=log.checkpoint,
        )
    return named == {True}


def check_lines(
    log: OffsetLog, files: tuple[OffsetFile, ...], sources: int, *, spare: bool
) -> None:
    """Refuse files with another number of sources, or one more where ``spare`` allows it."""
    found = {file.base_name: len(file.offsets) for file in files}
    allowed = {sources, sources + 1} if spare else {sources}
    if not set(found.values()) <= allowed:
        raise CheckpointError(
            "SM-ADOPT-009",
            f"the offset log of {log.checkpoint} has an unexpected number of sources",
            expected=f"{' or '.join(map(str, sorted(allowed)))} in each of the newest files",
            found=", ".join(f"{number} in offsets/{name}" for name, number in found.items()),
            next_action="restore the folder offsets from a copy of the checkpoint",
            path=log.checkpoint,
        )


def check_sources(log: OffsetLog, sources: int) -> None:
    """Refuse what a further source has left: the control source would take it for its own."""
    used = log.used_sources()
    if used and used[-1] >= sources:
        raise CheckpointError(
            "SM-ADOPT-010",
            f"the offset log of {log.checkpoint} does not fit its sources",
            expected=f"{sources} sources, as in the newest offset file",
            found=f"files of a further source in sources/{used[-1]}",
            next_action="restore the folders offsets and sources from one copy of the checkpoint, "
            "or move that directory away if its source was taken out of the query",
            path=log.checkpoint,
        )


def check_path(log: OffsetLog) -> None:
    """Refuse a path that `with_backfill` and `migrated` would refuse next."""
    check_source_path(log.checkpoint)
    check_readable(log.checkpoint)


def check_state(log: OffsetLog) -> None:
    """Refuse state that no backfill can migrate: `with_backfill` and `migrated` would next."""
    found = operator_names(log.files)
    functions = [number for number, name in found.items() if name == FUNCTION]
    if any(name.startswith(PROCESSOR) for name in found.values()):
        return
    bare = [number for number in functions if not _has_envelopes(log.files, number)]
    if functions and len(bare) < len(functions):
        return
    raise CheckpointError(
        "SM-ADOPT-011",
        f"the state of {log.checkpoint} cannot be migrated in place",
        expected=f"state of {PROCESSOR}, or of {FUNCTION} with statemigrate.ENVELOPE",
        found=f"{FUNCTION} with a state of its own, which Spark lets no one change"
        if bare
        else ", ".join(found.values()) or "no stateful operator",
        next_action="stop the query and `statemigrate rewrite "
        f"{argument(log.checkpoint)} NEW --code MODULE:FUNCTION`, which makes a checkpoint NEW for "
        "code that keeps another struct, or that has a transformWithState in the function's place, "
        "whose state then migrates live"
        if bare
        else "name the directory that a query of state variables has as its checkpointLocation",
        path=log.checkpoint,
    )


def check_control_source(log: OffsetLog, begun: Backup | None) -> None:
    """Refuse a query that has had the control source from its first start, or may have had it."""
    if begun is not None:
        return
    files = ChunkFiles(log.files)
    offsets = files.offsets()
    if offsets is not None:
        check_last_source(files, offsets)
    if has_room(log):
        raise CheckpointError(
            "SM-ADOPT-012",
            f"the query of {log.checkpoint} has the control source already",
            expected="a query without it",
            found="it is the last of the query's sources, though nothing was adopted",
            next_action="nothing to adopt: start the query with the control source",
            path=log.checkpoint,
        )


def has_room(log: OffsetLog) -> bool:
    """Whether the query may start with the control source as it is."""
    files = ChunkFiles(log.files)
    offsets = files.offsets()
    if offsets is None or offsets.named:
        return True
    # Operators on pages with names have one each.
    all_files = (files, *(ChunkFiles(log.files, name) for name in named_in(log.files)))
    return any(has_control_source(each, offsets) for each in all_files)


def _has_envelopes(files: Files, operator: int) -> bool:
    name = f"state/{operator}/0/_metadata/schema"
    path = f"{files.location}/{name}"
    try:
        data = files.get(name)
    except FileNotFoundError as error:
        raise CheckpointError(
            "SM-CHECKPOINT-026",
            f"{path} is missing, which says what the state's rows are",
            expected="the file, which Spark writes with the first batch",
            found="no such file",
            next_action="copy the whole checkpoint, its folder state included",
            path=path,
        ) from error
    state = next((each for each in value_fields(data, path) if each["name"] == _STATE), {})
    fields = state["type"]["fields"] if isinstance(state.get("type"), dict) else ()
    return "revision" in {each["name"] for each in fields}


def already_adopted(log: OffsetLog, backup: Backup) -> CheckpointError:
    """There is room for the control source."""
    return CheckpointError(
        "SM-ADOPT-013",
        f"{log.checkpoint} was adopted already",
        expected="a query without the control source",
        found=f"an adoption of {backup.record.since}, with its backup in {backup.location}",
        next_action="start the query with the control source, "
        f"or take it out: `statemigrate adopt {argument(log.checkpoint)} --undo --apply`",
        path=log.checkpoint,
    )


def half_undone(log: OffsetLog, backup: Backup) -> CheckpointError:
    """An undoing that was interrupted comes first."""
    return CheckpointError(
        "SM-ADOPT-014",
        f"an adoption of {log.checkpoint} was not undone to its end",
        expected="an undoing that is finished",
        found=f"one of {backup.record.since} that was interrupted",
        next_action=f"finish it: `statemigrate adopt {argument(log.checkpoint)} --undo --apply`",
        path=log.checkpoint,
    )


def not_adopted(log: OffsetLog, backup: Backup | None) -> CheckpointError:
    """Nothing is there to undo; what was there from the start is not ours to remove."""
    return CheckpointError(
        "SM-ADOPT-015",
        f"{log.checkpoint} is not adopted",
        expected="an adoption to undo",
        found="none" if backup is None else f"one that was undone, on {backup.record.since}",
        next_action="nothing to undo; a control source that was there from the first start stays",
        path=log.checkpoint,
    )
