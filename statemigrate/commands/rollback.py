"""`rollback`: the way back to an older revision, step by step, found from the checkpoint alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from statemigrate.commands.deployed_revisions import scripted_revision
from statemigrate.deployment import live_path, store_of, written_for
from statemigrate.errors import CheckpointError, CheckpointInUseError, LineageError, StartupError
from statemigrate.files import open_files
from statemigrate.migration import BASE, Lineage
from statemigrate.native import WATCHED, StoreRecord, call_of, read_record, retried
from statemigrate.quoting import argument
from statemigrate.state import Project, State, open_committed, planned, require_scripted

if TYPE_CHECKING:
    from statemigrate.native import Spark


__all__ = ["Rollback", "RollbackStep", "RollbackStore", "rollback"]

RollbackStep = Literal["deploy", "prepare", "backfill", "drain", "failed", "undo", "done"]
"""What is next: deploy the older code; make room for the backfill source; plan a backfill; let the
query take it; correct what does not go back; take the backfill source out; nothing."""


@dataclass(frozen=True)
class RollbackStore:
    """A store's rollback to the revision ``target``.

    ``deployed`` is the revision that the last deployment wrote, None if it is not recorded.
    ``families`` has, by name, the values in families other than the target's, ``in_target`` counts
    the others; a list's elements count one by one.
    """

    store: str
    target: str
    deployed: str | None
    families: Mapping[str, int]
    in_target: int

    @property
    def left(self) -> int:
        """The values that are still to go back."""
        return sum(self.families.values())

    @property
    def values(self) -> int:
        """All values."""
        return self.left + self.in_target


@dataclass(frozen=True)
class Rollback:
    """The progress of a checkpoint's rollback, as of its last committed ``batch``.

    ``step`` is the next step, and ``next_action`` describes it. ``did`` has the steps of this call.
    """

    checkpoint: str
    engine: str
    batch: int
    stores: tuple[RollbackStore, ...]
    step: RollbackStep
    next_action: str
    did: tuple[str, ...] = ()

    @property
    def left(self) -> int:
        """The values that are still to go back, of all stores."""
        return sum(each.left for each in self.stores)

    @property
    def is_done(self) -> bool:
        """Whether every value is back, and everything requested is done."""
        return self.step == "done"

    def to_json(self) -> dict[str, Any]:
        """The parts, with their sums."""
        return {**asdict(self), "left": self.left, "is_done": self.is_done}


def _silent(found: Rollback) -> None:
    """Nobody follows."""


def rollback(  # noqa: PLR0913 - all but two by name
    checkpoint: str | Path,
    to: str | Mapping[str, str],
    *,
    undo: bool = False,
    apply: bool = False,
    timeout: float = 0.0,
    interval: float = 5.0,
    stopped: bool = False,
    wait: float = WATCHED,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    spark: Spark = None,
    progress: Callable[[Rollback], None] = _silent,
) -> Rollback:
    """Migrate the values of a checkpoint back to an older revision; call it again after each step.

    ``to`` is the revision, ``base`` for the oldest of every store, or a revision by store. Each
    call reads the progress from the checkpoint: the state, the record of the last deployment, and
    the backfill's plan. It keeps nothing else, so it may be interrupted anywhere.

    Without ``apply`` nothing is changed, and the result has the next step. With it, this does the
    step as far as it can. **On Spark's own state and on pages** it plans the backfill of the
    rollback once the older code is deployed, and the query takes it. **On the embedded engine** it
    migrates all values of a stopped query back at once, and drops the empty families. ``timeout``
    is the number of seconds for which it follows the query, with a look every ``interval``;
    ``progress`` gets each look.

    With ``undo`` the backfill source is removed at the end, so that the earlier release starts
    unchanged. The query must be stopped then, as for `undo_adoption`, which also has ``stopped``
    and ``wait``. It needs the oldest revision, and reads the state before and after. For pages,
    whose backfill source stays, ``undo`` is an error.

    ``targets`` are those of other stores. ``migrations``, ``accept_edited``, ``operator`` and
    ``spark`` are as in `backfill`.

    Raises `LineageError` for an unknown revision, and if a script on the way has no ``downgrade``;
    `StartupError` like the start of the older code, and for ``undo`` on pages;
    `CheckpointInUseError` for a query that must be stopped; `CheckpointError` if the checkpoint
    cannot be read. Nothing is changed then.
    """
    project = Project(migrations, targets or {}, {}, spark, operator, tuple(accept_edited))
    lineages = project.folder.lineages()
    # Said before Spark takes its time to start.
    _check_revisions(to, lineages)
    way = _WayBack(str(checkpoint), to, lineages, project, undo=undo)
    found = way.look()
    progress(found)
    if not apply:
        return found
    did: list[str] = []
    first, end = found.batch, time.monotonic() + timeout
    while True:
        # A query that has gone on under this call's eyes is not stopped.
        is_still = found.batch == first
        if not (timeout and found.step == "drain"):
            found = way.advanced(found, did, may_undo=is_still, stopped=stopped, wait=wait)
        if found.step != "drain" or time.monotonic() + interval > end:
            return replace(found, did=tuple(did))
        time.sleep(interval)
        found = way.look()
        progress(found)


class _WayBack:
    """The way of one checkpoint, looked at again each time."""

    def __init__(
        self,
        checkpoint: str,
        to: str | Mapping[str, str],
        lineages: Mapping[str, Lineage],
        project: Project,
        *,
        undo: bool,
    ) -> None:
        self._checkpoint = checkpoint
        self._to = to
        self._lineages = lineages
        self._project = self._older = project
        """As it was given, and with the targets that the older code has."""
        self._undo = undo

    def look(self) -> Rollback:
        """Where it stands. Raises what `rollback` says."""
        return retried(self._look, self._checkpoint)

    def _look(self) -> Rollback:
        with closing(open_committed(self._checkpoint, self._lineages, self._project)) as state:
            back = _revisions(self._to, state, self._lineages)
            self._check_undo(back, state)
            targets = {**self._project.targets, **back}
            self._older = replace(self._project, targets=targets)
            stores = tuple(self._store(state, store, revision) for store, revision in back.items())
            found = Rollback(state.checkpoint, state.engine, state.batch, stores, "done", "")
        step, text = self._next(found)
        return replace(found, step=step, next_action=text)

    def advanced(
        self, found: Rollback, did: list[str], *, may_undo: bool, stopped: bool, wait: float
    ) -> Rollback:
        """What can be done now, done."""
        if found.engine == "embedded" and found.step in ("backfill", "drain", "deploy"):
            return self._taken_back(found, did)
        if found.step in ("backfill", "failed"):
            did.append(self._plan())
            return self.look()
        if found.step == "undo" and may_undo:
            return self._undone(found, did, stopped=stopped, wait=wait)
        return found

    def _store(self, state: State, store: str, revision: str) -> RollbackStore:
        lineage = self._lineages[store]
        # Raises as the older code's start would.
        plan = planned(state, store, self._lineages, self._older)
        counts = {name: sum(each.values()) for name, each in state.counts(store).items()}
        deployed = _deployed(state, store, lineage)
        held = {each.revision for each in plan.sources} | ({deployed} if deployed else set())
        for each in held - {revision}:
            live_path(lineage, each, revision)
        families = {each.name: counts.get(each.name, 0) for each in plan.sources}
        return RollbackStore(store, revision, deployed, families, counts.get(plan.target.name, 0))

    def _check_undo(self, back: Mapping[str, str], state: State) -> None:
        if self._undo and state.keeps_control_source:
            raise StartupError(
                "SM-ROLLBACK-005",
                f"the backfill source of pages in {state.checkpoint} stays",
                expected="a query that got its backfill source by `statemigrate backfill "
                "--prepare`",
                found="an operator on pages, which has had its own from the first batch",
                next_action="roll back without --undo (undo=False), and go on with `paged` and the "
                f"older code; for code without pages stop the query and `statemigrate rewrite "
                f"{argument(state.checkpoint)} NEW --no-pages --apply`",
                path=state.checkpoint,
            )
        newer = {s: at for s, at in back.items() if at != self._lineages[s].oldest}
        if self._undo and newer:
            raise StartupError(
                "SM-ROLLBACK-001",
                "code without the backfill source declares the oldest family of a store alone",
                expected="the oldest revision, --to base, where the backfill source is to go",
                found=", ".join(f"{store}={revision}" for store, revision in newer.items()),
                next_action="roll back to base, or without --undo (undo=False): the older code "
                "goes on with the backfill source",
                stores=sorted(newer),
            )

    def _next(self, found: Rollback) -> tuple[RollbackStep, str]:
        again = " ".join(["statemigrate rollback", argument(self._checkpoint), *self._words])
        is_deployed = all(each.deployed in (None, each.target) for each in found.stores)
        if found.engine == "embedded":
            return self._next_embedded(found, again, is_deployed=is_deployed)
        if found.left:
            return self._next_with_values(found, again, is_deployed=is_deployed)
        if self._undo:
            return self._next_undo(found, again)
        return ("done", self._finished(found)) if is_deployed else self._deploy(found, again)

    def _next_with_values(
        self, found: Rollback, again: str, *, is_deployed: bool
    ) -> tuple[RollbackStep, str]:
        from statemigrate.native import chunk_files, lacks_control_source

        if lacks_control_source(chunk_files(found.checkpoint, self._project.operator)):
            return "prepare", (
                f"stop the query, `statemigrate backfill {argument(self._checkpoint)} --prepare "
                "--apply`, and "
                f"start {self._code(found)}; then `{again}`"
            )
        return self._next_chunks(found, again) if is_deployed else self._deploy(found, again)

    def _next_embedded(
        self, found: Rollback, again: str, *, is_deployed: bool
    ) -> tuple[RollbackStep, str]:
        if not found.left:
            if is_deployed:
                return "done", "nothing: every value is at its target"
            return "deploy", f"start the query with {self._code(found)}"
        text = f"stop the query and `{again} --apply`, which takes all values back"
        if is_deployed:
            return "drain", f"run the query on, its backfill goes on; or {text}"
        return "deploy", f"{text}; or start {self._code(found)} on it, and wait"

    def _next_chunks(self, found: Rollback, again: str) -> tuple[RollbackStep, str]:
        from statemigrate.commands.backfill import backfill_status_of

        status = backfill_status_of(found.checkpoint, self._older)
        newer = [store_of(name) for name in status.unplanned]
        unplanned = [each.store for each in found.stores if each.store in newer]
        run = f"run the query with {self._code(found)}"
        if not status.keys_left:
            return "drain", f"wait: what is left expires by itself; {run}, then `{again}`"
        if status.is_under_way and not unplanned:
            return "drain", f"{run}; it takes a chunk a batch. Then `{again}` again"
        if status.quarantined and not unplanned:
            first = found.stores[0]
            return "failed", (
                f"`statemigrate status {argument(self._checkpoint)} "
                f"--failed {argument(first.store)} "
                f"--target {argument(f'{first.store}={first.target}')}{self._option}` shows what "
                "does not go "
                "back, and why; correct the script, deploy it with accept_edited, then "
                f"`{again} --apply`"
            )
        return "backfill", f"`{again} --apply` plans the backfill of the way back"

    def _next_undo(self, found: Rollback, again: str) -> tuple[RollbackStep, str]:
        if self._is_undone(found):
            return "done", "nothing: start the release of before, without the backfill source"
        return "undo", (
            f"stop the query, and wait until its process has ended; then `{again} --apply`, which "
            "takes the backfill source out"
        )

    def _is_undone(self, found: Rollback) -> bool:
        from statemigrate.native import has_named_sources, last_backup, native_log

        log = native_log(found.checkpoint)
        if has_named_sources(log):
            record = read_record(log.files)
            return all(
                record[each.store].families == (each.store,) and not record[each.store].deployment
                for each in found.stores
                if each.store in record
            )
        backup = last_backup(log.files)
        return backup is not None and backup.record.progress == "undone"

    def _plan(self) -> str:
        from statemigrate.commands.backfill import backfill
        from statemigrate.native import BackfillPlan

        plan = backfill(self._checkpoint, self._older)
        assert isinstance(plan, BackfillPlan)  # noqa: S101 - not of the embedded engine
        return f"planned the backfill of {plan.keys:,} keys in {plan.chunks:,} chunks"

    def _taken_back(self, found: Rollback, did: list[str]) -> Rollback:
        """The embedded engine's: all values of a stopped query, and the empty families."""
        from statemigrate.commands.backfill import backfill, retire_families

        if not found.left:
            return found
        backfill(self._checkpoint, self._older)
        dropped = retire_families(self._checkpoint, self._older).dropped
        after = self.look()
        _check_same(found, after)
        did.append(f"took {found.left - after.left:,} values back")
        did.extend(f"dropped {name}" for name in dropped)
        return after

    def _undone(self, found: Rollback, did: list[str], *, stopped: bool, wait: float) -> Rollback:
        from statemigrate.commands.adopt import undo_adoption

        undo_adoption(
            self._checkpoint, apply=True, stopped=stopped, wait=wait, spark=self._project.spark
        )
        did.append("took the backfill source out")
        after = self.look()
        _check_same(found, after)
        did.append(f"read the state: {sum(s.in_target for s in after.stores):,} values, all back")
        return after

    def _deploy(self, found: Rollback, again: str) -> tuple[RollbackStep, str]:
        code = self._code(found)
        return "deploy", f"stop the query, and start {code} on this checkpoint; then `{again}`"

    def _finished(self, found: Rollback) -> str:
        if any(each.families for each in found.stores):
            return "restart the query: what is empty leaves the read path and is dropped"
        return f"nothing: keep {self._code(found)} until the backfill source is taken out"

    def _code(self, found: Rollback) -> str:
        """What the older code has that starts on this checkpoint."""
        named = {each.store: each.target for each in found.stores}
        call = call_of(found.checkpoint) if found.engine == "native" else None
        return f"the older code with {written_for(named, found.engine, call)}"

    @property
    def _option(self) -> str:
        operator = self._project.operator
        return "" if operator is None else f" --operator {argument(operator)}"

    @property
    def _words(self) -> list[str]:
        """The options that say the same on the command line."""
        to = self._to
        targets = [to] if isinstance(to, str) else [f"{store}={at}" for store, at in to.items()]
        return [
            *(f"--to {argument(each)}" for each in targets),
            *(["--undo"] if self._undo else []),
            *([self._option.strip()] if self._option else []),
        ]


def _check_revisions(to: str | Mapping[str, str], lineages: Mapping[str, Lineage]) -> None:
    """Raise `LineageError` for a revision that no store of the scripts has."""
    if not isinstance(to, str):
        require_scripted(to, lineages)
        for store, revision in to.items():
            lineages[store].resolve(revision)
    elif not any(_has(lineage, to) for lineage in lineages.values()):
        raise _in_no_store(to, sorted(lineages), "the scripts")


def _has(lineage: Lineage, revision: str) -> bool:
    try:
        lineage.resolve(revision)
    except LineageError:
        return False
    return True


def _revisions(
    to: str | Mapping[str, str], state: State, lineages: Mapping[str, Lineage]
) -> dict[str, str]:
    """By store the full revision that it goes back to. Raises `LineageError`."""
    own = [s for s in state.stores if s in lineages and s not in state.operator_stores]
    if not isinstance(to, str):
        require_scripted(to, own)
        return {store: lineages[store].resolve(at) for store, at in to.items()}
    if to == BASE and own:
        return {store: lineages[store].oldest for store in own}
    fitting = [store for store in own if _has(lineages[store], to)]
    if len(fitting) != 1:
        raise _in_no_store(to, fitting or own, state.checkpoint, len(fitting))
    return {fitting[0]: lineages[fitting[0]].resolve(to)}


def _in_no_store(to: str, stores: Sequence[str], place: str, number: int = 0) -> LineageError:
    """``to`` is the revision of none of the ``stores``, or of that ``number`` of them."""
    return LineageError(
        "SM-ROLLBACK-002",
        f"{to!r} is a revision of {f'{number} stores' if number else 'no store'} of {place}",
        expected="a revision of one store, `base` for the oldest of all, or STORE=REVISION",
        found=", ".join(stores) or "no store with scripts",
        next_action="say which: --to STORE=REVISION, or to={STORE: REVISION}; `statemigrate "
        "history` lists the revisions",
        revision=to,
    )


def _deployed(state: State, store: str, lineage: Lineage) -> str | None:
    """The revision that was written last, as far as the last deployment has noted it."""
    if state.target_is_deployed:
        found = state.stores[store].target.revision
        # One that no script has is an unknown revision, which the way from it says.
        return scripted_revision(lineage, found) or found
    from statemigrate.deployment import revision_in

    noted = read_record(open_files(state.checkpoint)).get(store, StoreRecord()).target
    return None if noted is None else revision_in(noted) or lineage.oldest


def _check_same(before: Rollback, after: Rollback) -> None:
    """Raise where the state is another than it was while the query was to stand still."""
    if after.batch != before.batch:
        raise CheckpointInUseError(
            "SM-ROLLBACK-003",
            f"the query of {before.checkpoint} went on meanwhile",
            expected=f"batch {before.batch} as the last one, as of a stopped query",
            found=f"batch {after.batch}",
            next_action="stop the query, and run the command again",
            path=before.checkpoint,
        )
    was = {each.store: each.values for each in before.stores}
    now = {each.store: each.values for each in after.stores}
    if was != now:
        raise CheckpointError(
            "SM-ROLLBACK-004",
            f"{before.checkpoint} holds other values than before",
            expected=_counts(was),
            found=_counts(now),
            next_action="do not start the query; restore the checkpoint from a copy, and report "
            "this with both numbers",
            path=before.checkpoint,
            batch=after.batch,
        )


def _counts(values: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} of {store}" for store, count in values.items())
