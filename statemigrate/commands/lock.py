"""`lock`: what a query's code means, recorded in a file or in its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint import CheckpointDirectory, describe
from statemigrate.checkpoint.logs import PROVIDER, ROCKSDB_PROVIDER, is_avro
from statemigrate.checkpoint.operators import CheckpointShape
from statemigrate.commands.new_code import (
    NewCode,
    Probed,
    ProbedQuery,
    check_inputs,
    check_of_checkpoint,
    look_at,
    meaning_of,
    probed,
    query_of,
)
from statemigrate.errors import CodeError
from statemigrate.files import Files, open_files, replacing
from statemigrate.meaning import (
    CodeMeaning,
    MeaningRecord,
    PlanItem,
    compare_code,
    compare_operators,
    lock_text,
    read_lock,
    unset_as_warnings,
    with_levels,
)

if TYPE_CHECKING:
    from statemigrate.native import Spark


LOCK = "state.lock"
"""Where `lock` writes, unless another file is named."""


@dataclass(frozen=True)
class Locked:
    """The ``meaning`` of code, and the ``changes`` since its lock file, if requested."""

    meaning: CodeMeaning
    changes: tuple[PlanItem, ...] = ()

    @property
    def asks(self) -> bool:
        """Whether a change requires an action or a decision."""
        return any(each.asks for each in self.changes)

    @property
    def unset(self) -> dict[str, str]:
        """Settings that the state depends on and nothing sets: they are those of the machine."""
        found = self.meaning.settings
        return {name: found[name] for name in sorted(self.meaning.unset & found.keys())}

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "operators": [each.name for each in self.meaning.operators],
            "changes": [each.to_json() for each in self.changes],
            "unset": self.unset,
        }


def lock(
    code: str,
    *,
    file: str | Path = LOCK,
    inputs: Mapping[str, Any] | None = None,
    mode: str | None = None,
    check: bool = False,
    checkpoint: str | Path | None = None,
    rules: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> Locked:
    """Record the meaning of the state of ``code``, ``MODULE:FUNCTION``, in a ``file``.

    The function runs once on empty streams; ``inputs`` and ``mode`` are as in `NewCode`. The same
    code gives the same text. With ``check`` this writes nothing, and compares the code with the
    file. With a ``checkpoint`` the record is written there instead, for state that no guarded start
    has run on: name the code that wrote the state. Raises `CodeError` for code that does not run or
    is not the checkpoint's, and for a file that is not a lock file; `CheckpointError` for a
    checkpoint that cannot be read.
    """
    wanted = NewCode(code, inputs or {}, mode)
    check_inputs(wanted)
    known = read_lock(file) if check else None
    if checkpoint is not None:
        return Locked(_recorded(wanted, checkpoint, spark, check=check))
    # A session does not know what a deployed query sets, and variables need this provider.
    found = look_at(wanted, {PROVIDER: ROCKSDB_PROVIDER}, spark, code)
    meaning = found.meaning if isinstance(found, ProbedQuery) else _of_plan(found, code)
    if known is not None:
        changes = unset_as_warnings(compare_code(known, meaning), known, meaning)
        return Locked(meaning, tuple(with_levels(changes, rules or {})))
    with replacing(Path(file)) as stream:
        stream.write(lock_text(meaning).encode())
    return Locked(meaning)


def _of_plan(found: Probed, code: str) -> CodeMeaning:
    if found.plan is None:
        raise CodeError(
            "SM-LOCK-005",
            f"what {code} means cannot be seen in this session",
            expected="a session of classic Spark, which shows the plan that it has run",
            found="a session without plans, as one of Spark Connect",
            next_action="run the command where PySpark starts Spark itself, as in local[2]",
            reference=code,
        )
    return meaning_of(found, code)


def _recorded(wanted: NewCode, checkpoint: str | Path, spark: Spark, *, check: bool) -> CodeMeaning:
    """The meaning of the code that wrote the state of a checkpoint, now recorded there."""
    code, location = str(wanted.code), str(checkpoint)
    if check:
        raise CodeError(
            "SM-LOCK-006",
            "a checkpoint and --check are given",
            expected="a checkpoint, to write a record, or --check, which writes nothing",
            found="both",
            next_action="leave one of them out; `statemigrate plan` compares code and checkpoint",
            reference=location,
        )
    files = open_files(checkpoint)
    if CheckpointDirectory(files).is_embedded:
        batch, meaning = _of_embedded(wanted, files, spark)
    else:
        shape = describe(files, CheckpointDirectory(files).require_commit())
        found = probed(wanted, shape.conf, spark, location)
        assert found is not None, "code was given"  # noqa: S101
        batch, meaning = shape.batch, _of_plan(found, code)
        check_of_checkpoint(meaning, shape, code, location)
        _check_types(shape, found.shape, code, location)
    MeaningRecord(batch, meaning).write(files)
    return meaning


def _of_embedded(wanted: NewCode, files: Files, spark: Spark) -> tuple[int, CodeMeaning]:
    """The last version of a checkpoint, and the meaning of a query that may have written it."""
    from statemigrate.embedded import Layout, check_checkpoint, require_committed

    layout = Layout.over(files)
    manifest = require_committed(layout)
    found = query_of(wanted, spark, files.location)
    check_checkpoint(layout, found.parts.options, manifest, found.parts.schema)
    return manifest.version, found.meaning


def _check_types(old: CheckpointShape, new: CheckpointShape, code: str, location: str) -> None:
    """Raise `CodeError` for code whose state has other types than the checkpoint's."""
    states = compare_operators(old.operators, new.operators, {}, evolves=is_avro(old.conf))
    others = [f"{each.name}: {each.text}" for each in states if each.asks]
    if others:
        raise CodeError(
            "SM-LOCK-004",
            f"{code} is not the code that {location} was written by",
            expected="the state that the checkpoint has",
            found="; ".join(others),
            next_action="name the code that is deployed, from the commit that it was deployed from",
            reference=code,
        )
