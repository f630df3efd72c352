"""`repair`: what is damaged in a checkpoint, and what it is made whole from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.errors import UnsupportedError
from statemigrate.native.adoption.activity import WATCHED
from statemigrate.state.opening import engine_of

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark

__all__ = ["Repair", "RepairFinding", "repair"]


@dataclass(frozen=True)
class RepairFinding:
    """Something that is wrong with a checkpoint.

    ``subject`` is a file's place or a family's name, ``found`` what is wrong with it: "missing",
    "altered", "forgotten". ``remedy`` says what makes up for it, None where nothing does;
    ``repaired`` whether this call has done so.
    """

    subject: str
    found: str
    remedy: str | None
    repaired: bool = False


@dataclass(frozen=True)
class Repair:
    """What was found in a checkpoint as of its last committed ``batch``, and what became of it.

    ``findings`` are empty where nothing is wrong. ``did`` are the steps that this call took, each
    a sentence with its proof. ``next_action`` says what to do next.
    """

    checkpoint: str
    engine: str
    batch: int
    findings: tuple[RepairFinding, ...]
    next_action: str
    did: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong, or everything that was is repaired."""
        return all(each.repaired for each in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The parts, and whether the checkpoint is whole."""
        return {**asdict(self), "is_whole": self.is_whole}


def repair(  # noqa: PLR0913 - all but one by name
    checkpoint: str | Path,
    *,
    apply: bool = False,
    stopped: bool = False,
    wait: float = WATCHED,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | None = None,
    spark: Spark = None,
) -> Repair:
    """Find what is damaged in the checkpoint of a stopped query, and what makes up for it.

    Without ``apply`` nothing is changed: the result says what is wrong, and what would be done.
    With it, that is done.

    ``stopped`` confirms that a query on Spark's own state is stopped though its newest batch was
    not committed, and ``wait`` are the seconds for which its checkpoint is watched. ``migrations``,
    ``targets``, ``accept_edited``, ``operator`` and ``spark`` are as of `backfill`.

    Raises `CheckpointInUseError` while the query runs, and `CheckpointError` for what is not the
    checkpoint of a query that keeps state. Nothing was changed then.
    """
    if engine_of(checkpoint) == "embedded":
        return _repair_embedded(str(checkpoint), apply=apply)
    return _repair_spark_state(
        str(checkpoint),
        apply=apply,
        stopped=stopped,
        wait=wait,
        migrations=migrations,
        targets=targets or {},
        accept_edited=accept_edited,
        operator=operator,
        spark=spark,
    )


def _repair_embedded(checkpoint: str, *, apply: bool) -> Repair:  # noqa: ARG001 - comes next
    raise _nothing_for(checkpoint, "embedded")


def _repair_spark_state(checkpoint: str, *, apply: bool, **how: Any) -> Repair:  # noqa: ARG001
    raise _nothing_for(checkpoint, "native")


def _nothing_for(checkpoint: str, engine: str) -> UnsupportedError:
    return UnsupportedError(
        f"repair does not know the state of {checkpoint}",
        expected="state of the embedded engine",
        found=f"the engine {engine}",
        next_action="restore the checkpoint from a copy",
        path=checkpoint,
    )
