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
    check_inputs,
    check_of_checkpoint,
    meaning_of,
    probed,
)
from statemigrate.errors import CodeError
from statemigrate.files import open_files, replacing
from statemigrate.meaning import (
    CodeMeaning,
    MeaningRecord,
    PlanItem,
    compare_code,
    compare_operators,
    lock_text,
    read_lock,
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

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "operators": [each.name for each in self.meaning.operators],
            "changes": [each.to_json() for each in self.changes],
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
    check_inputs(NewCode(code, inputs or {}, mode))
    known = read_lock(file) if check else None
    shape = None if checkpoint is None else _shape_of(checkpoint, check=check)
    # A session does not know what a deployed query sets, and variables need this provider.
    conf = {PROVIDER: ROCKSDB_PROVIDER} if shape is None else shape.conf
    found = probed(NewCode(code, inputs or {}, mode), conf, spark, str(checkpoint or code))
    assert found is not None, "code was given"  # noqa: S101
    if found.plan is None:
        raise CodeError(
            "SM-LOCK-005",
            f"what {code} means cannot be seen in this session",
            expected="a session of classic Spark, which shows the plan that it has run",
            found="a session without plans, as one of Spark Connect",
            next_action="run the command where PySpark starts Spark itself, as in local[2]",
            reference=code,
        )
    meaning = meaning_of(found, code)
    if known is not None:
        return Locked(meaning, tuple(with_levels(compare_code(known, meaning), rules or {})))
    if checkpoint is not None and shape is not None:
        check_of_checkpoint(meaning, shape, code, str(checkpoint))
        _check_types(shape, found.shape, code, str(checkpoint))
        MeaningRecord(shape.batch, meaning).write(open_files(checkpoint))
        return Locked(meaning)
    with replacing(Path(file)) as stream:
        stream.write(lock_text(meaning).encode())
    return Locked(meaning)


def _shape_of(checkpoint: str | Path, *, check: bool) -> CheckpointShape:
    if check:
        raise CodeError(
            "SM-LOCK-006",
            "a checkpoint and --check are given",
            expected="a checkpoint, to write a record, or --check, which writes nothing",
            found="both",
            next_action="leave one of them out; `statemigrate plan` compares code and checkpoint",
            reference=str(checkpoint),
        )
    files = open_files(checkpoint)
    return describe(files, CheckpointDirectory(files).require_commit())


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
