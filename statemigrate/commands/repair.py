"""`repair`: what is damaged in a checkpoint, and what it is made whole from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint import StateDamage, describe, state_damage
from statemigrate.checkpoint.operators import kind_of
from statemigrate.commands.forgotten_families import Restoring, restore_forgotten
from statemigrate.commands.repair_by_replay import ReplayRepair
from statemigrate.embedded import (
    SET_ASIDE,
    DamagedFile,
    Inspection,
    Layout,
    Remade,
    StoppedRepair,
    locked_for_repair,
)
from statemigrate.event_log import STEP, Note, Stamp, require_writable
from statemigrate.files import open_files
from statemigrate.native import WATCHED
from statemigrate.quoting import argument
from statemigrate.rewrite import ForgottenFamilyRows
from statemigrate.state import Project, engine_of

if TYPE_CHECKING:
    from statemigrate.commands.new_code import NewCode
    from statemigrate.native import Spark


__all__ = ["Repair", "RepairFinding", "repair"]
_NOTHING = "nothing is to be repaired"


@dataclass(frozen=True)
class RepairFinding:
    """A damaged part of a checkpoint.

    ``subject`` is a file's place or a family's name, ``found`` the kind of damage: "missing",
    "altered", "forgotten". ``remedy`` is the replacement, None if there is none; ``repaired`` says
    whether this call has made the repair. The query can run without a part that is not ``needed``.
    """

    subject: str
    found: str
    remedy: str | None
    repaired: bool = False
    needed: bool = True


@dataclass(frozen=True)
class Repair:
    """The damage of a checkpoint as of its last committed ``batch``, and the repairs.

    ``findings`` are empty if nothing is wrong. ``did`` has the steps of this call, each a sentence
    with its proof. ``next_action`` is the next step.
    """

    checkpoint: str
    engine: str
    batch: int
    findings: tuple[RepairFinding, ...]
    next_action: str
    did: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing that the query needs is damaged, or all of it is repaired."""
        return all(each.repaired for each in self.findings if each.needed)

    def to_json(self) -> dict[str, Any]:
        """The parts, and whether the checkpoint is whole."""
        return {**asdict(self), "is_whole": self.is_whole}


def repair(  # noqa: PLR0913 - all but one by name
    checkpoint: str | Path,
    *,
    apply: bool = False,
    back_to: int | None = None,
    working_directory: str | Path | None = None,
    new: str | Path | None = None,
    accept: Sequence[str] = (),
    wait: float = WATCHED,
    migrations: str | Path = "migrations",
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    target: NewCode | None = None,
    sources: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> Repair:
    """Find damage in the checkpoint of a stopped query, and repair it.

    This is `doctor` with ``repair``, which describes the parameters and the errors.
    """
    project = Project(migrations, {}, {}, spark, operator, tuple(accept_edited))
    path = str(checkpoint)
    if engine_of(path) == "embedded":
        stamp = Stamp.of(project.directory)
        return _repair_embedded(path, apply, back_to, working_directory, stamp)
    place = f"{path.rstrip('/')}-repaired" if new is None else str(new)
    files = open_files(path)
    damage = state_damage(files)
    if damage.found:
        found = _Damaged(path, new, damage, target, sources or {}, project)
        return found.repaired(place, wait) if apply else found.described()
    operators = describe(files, damage.batch).operators
    if not any(kind_of(each.name).has_variables for each in operators):
        # Spark forgets variables alone.
        return Repair(path, "native", damage.batch, (), _NOTHING)
    restored = restore_forgotten(path, place, project, accept=accept, wait=wait, apply=apply)
    return _restored(restored, given=new is not None)


# Damaged state of Spark's own: computed again from what the batches since have read.


@dataclass(frozen=True)
class _Damaged:
    """A checkpoint whose newest state is damaged, and the code that computes it again, if given."""

    checkpoint: str
    new: str | Path | None
    damage: StateDamage
    target: NewCode | None
    sources: Mapping[str, str]
    project: Project

    def described(self) -> Repair:
        """The damage, and what makes up for it. Raises as `ReplayRepair.check`."""
        if self.target is not None and self.damage.whole is not None:
            self._replay(self.target).check()
        return self._repair(self._next(), is_done=False)

    def repaired(self, place: str, wait: float) -> Repair:
        """Make the new checkpoint, if there is code and a batch to begin with."""
        if self.target is None or self.damage.whole is None:
            return self._repair(self._next(), is_done=False)
        done = self._replay(self.target).apply(place, wait)
        did = [
            f"batches {self._again} ran again, twice, with equal state and the watermarks of the "
            f"log; the state of batch {self.damage.batch} in {done.fork.new} was read back whole"
        ]
        if done.compared:
            did.append(
                f"{done.compared} of {done.partitions} partitions could be read of the damaged "
                "state, and are equal"
            )
        elif done.time_zone is not None:
            did.append(
                "the batches had the settings of this session, such as the time zone "
                f"{done.time_zone}: no record says with which ones the query ran, and no partition "
                "of the damaged state could be read and compared"
            )
        action = f"start the query on {done.fork.new}: it goes on after batch {self.damage.batch}"
        return self._repair(action, is_done=True, did=tuple(did))

    def _replay(self, target: NewCode) -> ReplayRepair:
        return ReplayRepair(self.checkpoint, target, self.sources, self.damage, self.project)

    @property
    def _again(self) -> str:
        """The batches that run again."""
        assert self.damage.whole is not None, "asked before"  # noqa: S101
        first, last = self.damage.whole + 1, self.damage.batch
        return str(last) if first == last else f"{first} to {last}"

    def _repair(self, action: str, *, is_done: bool, did: tuple[str, ...] = ()) -> Repair:
        whole, remedy = self.damage.whole, None
        if whole is not None:
            remedy = f"batch {whole} is whole: the code runs again on the input since then"
        findings = tuple(
            RepairFinding(
                f"state of batch {batch}",
                f"damaged in {len(errors)} places: {errors[0].summary}",
                remedy,
                repaired=is_done,
                needed=batch == self.damage.batch,
            )
            for batch, errors in self.damage.found.items()
        )
        return Repair(self.checkpoint, "native", self.damage.batch, findings, action, did)

    def _next(self) -> str:
        if self.damage.whole is None:
            return "restore the checkpoint from a copy: no batch has state that is whole"
        command = f"statemigrate doctor {argument(self.checkpoint)} --repair"
        if self.new is not None:
            command += f" --new {argument(self.new)}"
        if self.target is None:
            return (
                f"`{command} --code MODULE:FUNCTION`, with the code of the query, looks whether "
                f"batches {self._again} can run again"
            )
        return f"stop the query, then `{command} --code {argument(self.target.code)} --apply`"


def _repair_embedded(
    checkpoint: str,
    apply: bool,
    back_to: int | None,
    working_directory: str | Path | None,
    stamp: Stamp,
) -> Repair:
    layout = Layout.of(checkpoint)
    working = None if working_directory is None else Path(working_directory)
    with locked_for_repair(layout, working_directory=working) as state:
        if back_to is not None:
            return _gone_back(checkpoint, layout, state, back_to, stamp if apply else None)
        found = state.inspect()
        if not (apply and found.is_damaged and found.is_restorable):
            findings = tuple(_finding(each, found) for each in found.files)
            return Repair(checkpoint, "embedded", found.version, findings, _next(checkpoint, found))
        require_writable(layout.files)
        did = tuple(map(_remade, state.remake()))
        details = {STEP: "and repaired", "files": str(len(found.files))}
        Note(stamp).done(layout.files, "found", found.version, details)
        # Looked at again, since only what is read back is known.
        left = {each.place for each in state.inspect().files if each.is_needed}
    findings = tuple(
        replace(_finding(each, found), repaired=each.is_needed and each.place not in left)
        for each in found.files
    )
    return Repair(checkpoint, "embedded", found.version, findings, "start the query", did)


def _gone_back(
    checkpoint: str, layout: Layout, state: StoppedRepair, to: int, stamp: Stamp | None
) -> Repair:
    """Go back to a version, or without a ``stamp`` for the log say what that would do."""
    found = state.inspect(back_to=to)
    again = f"batches {to + 1} to {found.version} run again"
    if stamp is None:
        state.require_whole(to)
        finding = RepairFinding(layout.location_of("commits"), "to go back", again)
        command = (
            f"`statemigrate doctor {argument(checkpoint)} --repair --back-to "
            f"{argument(to)} --apply`"
        )
        return Repair(checkpoint, "embedded", found.version, (finding,), f"{command} does it")
    require_writable(layout.files)
    names = state.go_back(to)
    details = {STEP: "and repaired", "back to": str(to), "from": str(found.version)}
    Note(stamp).done(layout.files, "found", to, details)
    did = (f"{len(names)} files are set aside in {layout.location_of(SET_ASIDE)}",)
    action = f"start the query: {again}, and their output reaches the sink a second time"
    return Repair(checkpoint, "embedded", to, (), action, did)


def _finding(file: DamagedFile, found: Inspection) -> RepairFinding:
    if not file.is_needed:
        remedy: str | None = "only versions before the last one name it: nothing is to be done"
    elif file.origin is not None and found.is_restorable:
        remedy = f"partition {file.partition} is made from the {file.origin}, and stored again"
    elif found.older is not None:
        remedy = f"version {found.older} is whole: --back-to {found.older}"
    else:
        remedy = None
    return RepairFinding(file.place, file.found, remedy, needed=file.is_needed)


def _remade(done: Remade) -> str:
    records = sum(done.records.values())
    return (
        f"partition {done.partition} was made from the {done.origin} and stored again: {records:,} "
        "records, read back and equal key by key"
    )


def _next(checkpoint: str, found: Inspection) -> str:
    command = f"statemigrate doctor {argument(checkpoint)} --repair"
    if not found.is_damaged:
        return _NOTHING
    if found.is_restorable:
        return f"`{command} --apply`"
    if found.older is not None:
        return (
            f"restore the checkpoint directory from a copy; or `{command} --back-to {found.older} "
            f"--apply`: batches {found.older + 1} to {found.version} run again, and their output "
            "reaches the sink a second time"
        )
    return "restore the checkpoint directory from a copy: nothing here makes a version whole"


def _restored(found: Restoring, *, given: bool) -> Repair:
    """What came back, or would, in a new checkpoint whose place was ``given`` or was not."""
    done = found.report is not None
    findings = tuple(_forgotten(each, repaired=done) for each in found.families)
    findings += tuple(
        RepairFinding(name, f"forgotten; {why}", None) for name, why in found.lost.items()
    )
    did: tuple[str, ...] = ()
    if done:
        did = (
            f"{sum(each.restored.count for each in found.families):,} entries of "
            f"{len(found.families)} families are in {found.new} again, with all else that "
            f"{found.old} has; every row was read back through Spark, with equal checksums",
        )
    action = _next_of_forgotten(found, given=given)
    return Repair(found.old, "native", found.batch, findings, action, did)


def _forgotten(each: ForgottenFamilyRows, *, repaired: bool) -> RepairFinding:
    since = each.source.forgotten.batch + 1
    untold = "" if each.source.forgotten.is_known else " or before"
    return RepairFinding(
        each.source.name,
        f"forgotten by the code of batch {since}{untold}",
        f"{each.restored.count:,} of {each.found.count:,} entries come back; {each.live.count:,} "
        f"have a newer value, which stays, and {each.deleted.count:,} were deleted since",
        repaired,
    )


def _next_of_forgotten(found: Restoring, *, given: bool) -> str:
    command = f"statemigrate doctor {argument(found.old)} --repair"
    command += f" --new {argument(found.new)}" if given else ""
    if found.report is not None:
        return f"start the migrated code on {argument(found.new)}"
    if found.lost:
        return _next_of_lost(found)
    if not found.families:
        return _NOTHING
    if found.questions:
        asked = "; ".join(f"{each.text} {each.facts}: {each.answer}" for each in found.questions)
        return f"answer in the same command: {asked}"
    return f"stop the query, then `{command} --apply`: the new checkpoint is {found.new}"


def _next_of_lost(found: Restoring) -> str:
    if found.pages_batch is not None:
        return (
            f"`statemigrate fork {argument(found.old)} {argument(found.new)} --at-batch "
            f"{argument(found.pages_batch)}`, and start the paged code there: the batches since "
            "run again, as long as the sources have their input, and their output reaches the sink "
            "a second time"
        )
    name = next(iter(found.lost))
    return (
        "restore the checkpoint from a copy of before; or name what is given up, as in "
        f"--accept-edited {argument(name)}"
    )
