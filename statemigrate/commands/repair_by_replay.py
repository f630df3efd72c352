"""State that is damaged, computed again from the input of the batches since it was whole.

The newest batch whose state can be read is copied, and the query's code runs on the input of the
batches after it, as a preview does: with their time and watermarks, and without the sink.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from statemigrate.checkpoint import (
    PartitionHashes,
    StateDamage,
    describe,
    partition_hashes,
    require_state,
)
from statemigrate.commands.new_code import NewCode, check_inputs
from statemigrate.commands.preview import material_of, openers_of
from statemigrate.commands.preview_code import CodeReader
from statemigrate.commands.preview_runs import Material, StateOptions
from statemigrate.errors import CheckpointError, UnsupportedError
from statemigrate.files import Files, open_files
from statemigrate.meaning import recorded_meaning
from statemigrate.native import OffsetLog, require_stopped, session_of, takes_keys
from statemigrate.pages import records_at
from statemigrate.preview import (
    History,
    Replayed,
    compare_states,
    copy_fork,
    equal,
    replay,
    start_fork,
    workspace,
)
from statemigrate.quoting import argument
from statemigrate.rewrite import ZONE, Fork, check_stopped, fork_with_state
from statemigrate.state import Project


@dataclass(frozen=True)
class RepairedState:
    """A checkpoint that was made with state that was computed again.

    Of ``partitions`` partitions, as many as ``compared`` could also be read of the damaged state,
    and are equal. ``time_zone`` is that of the session, where no record has the query's settings.
    """

    fork: Fork
    partitions: int
    compared: int
    time_zone: str | None


@dataclass(frozen=True)
class ReplayRepair:
    """Computes the state of a checkpoint's newest batch again, with the code in ``target``.

    ``sources`` has functions that open streams, as `preview` has them.
    """

    checkpoint: str
    target: NewCode
    sources: Mapping[str, str]
    damage: StateDamage
    project: Project

    def check(self) -> Material:
        """The batches that are run again, and their input.

        Raises `CheckpointError` where too little is left of the logs, and `UnsupportedError` for
        sources that cannot be read back.
        """
        check_inputs(self.target)
        whole = self.damage.whole
        assert whole is not None, "asked before"  # noqa: S101
        count = self.damage.batch - whole
        material = material_of(self.checkpoint, count, openers_of(self.sources))
        if material.history.before.number != whole:
            raise CheckpointError(
                "SM-REPAIR-005",
                f"the logs of {self.checkpoint} do not reach back to batch {whole}, whose state is "
                "whole",
                expected=f"what batches {whole} to {self.damage.batch} have read",
                found=f"entries from batch {material.history.before.number} on",
                next_action=f"go back to batch {whole} with `statemigrate fork`, or restore the "
                "checkpoint from a copy",
                path=self.checkpoint,
            )
        self._check_releases(material.files, whole)
        moved = _batches_of_a_backfill(material.files, material.history)
        if moved:
            raise self._has_moved(moved)
        return material

    def apply(self, new: str, wait: float) -> RepairedState:
        """Make the ``new`` checkpoint. Raises as `check`, and as `fork` and `preview` do."""
        material = self.check()
        files, target = material.files, open_files(new)
        session = session_of(self.project.spark, self.checkpoint)
        check_stopped(files, session)
        require_stopped(OffsetLog(files), confirmed=True, watched=wait)
        project = self.project
        state = StateOptions(project.migrations, project.targets, project.stores, session)
        with workspace("statemigrate-repair-") as folder:
            first, second = self._runs(material, folder, state)
            self._check_same(material, first, second, state)
            computed = open_files(first.checkpoint)
            self._check_families(files, computed)
            hashes = partition_hashes(computed, self.damage.batch)
            compared = self._compared(hashes)
            check = partial(require_state, target, self.damage.batch, hashes)
            fork = fork_with_state(files, computed, target, self.damage.batch, check)
        is_recorded = recorded_meaning(files, self.damage.batch) is not None
        zone = None if is_recorded else session.conf.get(ZONE)
        return RepairedState(fork, len(hashes), compared, zone)

    def _runs(
        self, material: Material, folder: Path, state: StateOptions
    ) -> tuple[Replayed, Replayed]:
        """Run the code twice, to see whether it computes the same."""
        session = state.spark
        codes = CodeReader(self.target, material.history, session, self.checkpoint)
        assert self.target.code is not None, "asked before"  # noqa: S101
        code = codes.read(self.target.code, None)
        recorded = material.recorder.record([code], folder / "inputs", session)
        base = start_fork(material.files, material.history, folder / "before")
        if code.named:
            # Code that migrates live writes the revisions that the query was deployed with.
            code = replace(code, deployed=state.deployed(base.as_uri()))
        runs = []
        for name in ("first", "second"):
            place = copy_fork(base, folder / name)
            output = folder / f"{name}-output"
            runs.append(
                replay(
                    code, place, material.history, recorded=recorded, output=output, session=session
                )
            )
        return runs[0], runs[1]

    def _check_same(
        self, material: Material, first: Replayed, second: Replayed, state: StateOptions
    ) -> None:
        """Raise `CheckpointError` unless the code has computed twice what the log says."""
        expected = material.history.watermarks
        if first.watermarks != expected:
            batch = next(each for each in expected if first.watermarks.get(each) != expected[each])
            raise self._not_the_same(
                f"the watermark {expected[batch]} after batch {batch}, as the query has logged it",
                str(first.watermarks.get(batch)),
            )
        both = [state.open(each.checkpoint, self.damage.batch) for each in (first, second)]
        differing = [
            f"{each.store}: {', '.join(each.fields) or 'rows'}"
            for each in compare_states(both[0], both[1], lambda _: equal)
            if not each.is_same
        ]
        if differing:
            raise self._not_the_same("the same state from two runs", "; ".join(differing))

    def _check_releases(self, files: Files, whole: int) -> None:
        """Raise `UnsupportedError` where code since the ``whole`` batch keeps what it had not."""
        before, now = (
            _families(files, each) | _families_in_pages(files, each)
            for each in (whole, self.damage.batch)
        )
        if now - before:
            raise UnsupportedError(
                "SM-REPAIR-009",
                f"the query of {self.checkpoint} has got other code since its state was whole",
                expected=f"batches that all keep what batch {whole} keeps",
                found=f"{', '.join(sorted(now - before))} in batch {self.damage.batch}",
                next_action=f"`statemigrate fork {argument(self.checkpoint)} NEW --at-batch "
                f"{argument(whole)}`, and start the code there: the batches since run again, with "
                "their output; or restore the checkpoint from a copy",
                path=self.checkpoint,
            )

    def _check_families(self, files: Files, computed: Files) -> None:
        """Raise `CheckpointError` unless the code keeps what the query's newest batch keeps."""
        own, other = (_families(each, self.damage.batch) for each in (files, computed))
        if own != other:
            raise self._not_the_same(
                f"the families {', '.join(sorted(own))}", ", ".join(sorted(other))
            )

    def _compared(self, computed: PartitionHashes) -> int:
        """Count the partitions that the damaged state still has; each must be equal."""
        count = 0
        for place, own in self.damage.hashes.items():
            if isinstance(own, CheckpointError):
                continue
            if computed.get(place) != own:
                raise self._not_the_same(
                    f"partition {place.partition} of operator {place.number} as the query has it",
                    "other keys or values",
                )
            count += 1
        return count

    def _has_moved(self, batches: Sequence[int]) -> UnsupportedError:
        return UnsupportedError(
            "SM-REPAIR-007",
            f"a backfill has moved values of {self.checkpoint} since its state was whole",
            expected="batches without a part of a backfill, which is not computed again",
            found=f"a part in batch {', '.join(map(str, batches))}",
            next_action="go back to a whole batch with `statemigrate fork`, or restore the "
            "checkpoint from a copy",
            path=self.checkpoint,
        )

    def _not_the_same(self, expected: str, found: str) -> CheckpointError:
        return CheckpointError(
            "SM-REPAIR-006",
            f"{self.target.code} does not compute the state of {self.checkpoint} again",
            expected=expected,
            found=found,
            next_action="give the code that the query ran, with --code; code that takes the clock, "
            "chance or other systems cannot compute its state a second time: go back with "
            "`statemigrate fork`",
            path=self.checkpoint,
        )


def _batches_of_a_backfill(files: Files, history: History) -> list[int]:
    """The batches in which a backfill has moved values."""
    every = (history.before, *history.batches)
    return [
        after.number
        for before, after in pairwise(every)
        if takes_keys(files, history.backfill, before.entry.offsets, after.entry.offsets)
    ]


def _families(files: Files, batch: int) -> set[str]:
    """By operator and store the families that the code of a batch keeps."""
    shape = describe(files, batch, restarts=False)
    return {
        f"{operator.number}/{store.name}/{family.name}"
        for operator in shape.operators
        for store in operator.stores
        for family in store.families
    }


def _families_in_pages(files: Files, batch: int) -> set[str]:
    """The families that pages have, by the records of the starts before a batch."""
    return {
        f"{operator or 'pages'}/{store}/{family.name}"
        for operator, record in records_at(files, batch).items()
        for store, stored in record.stores.items()
        for family in stored.families
    }
