"""`new --edit REVISION --lens`: lenses in place of a script's functions, proven equal."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.errors import LineageError
from statemigrate.files import replacing
from statemigrate.formats import made_up_values
from statemigrate.inspect import Comparing, Equality, LensComparison, Unequal
from statemigrate.migration import BASE, Direction, Lineage, Migration
from statemigrate.migration import MigrationPath as Steps
from statemigrate.native import looks_again
from statemigrate.quoting import argument
from statemigrate.scripts import DeclaredScript, chosen, declared, read_applied
from statemigrate.state import Project, applied_by, open_committed, planned, require_store

if TYPE_CHECKING:
    from statemigrate.native import Spark


@dataclass(frozen=True)
class LensEdit:
    """A script with lenses in place of its functions, written or proposed.

    ``open_fields`` are fields that no lens was found for, with the reason, and ``unequal`` those
    that lenses change otherwise. If there are any of either, ``text`` is None and nothing
    was written. ``made_up`` and ``of_state`` are how many values were the same on both sides.
    ``taken`` values are refused by the functions and not by the lenses. ``applied`` says that the
    script was applied to a state.
    """

    store: str
    revision: str
    path: Path
    before: str
    text: str | None
    written: bool
    open_fields: Mapping[str, str]
    unequal: tuple[Unequal, ...]
    made_up: int
    of_state: int | None
    taken: int
    applied: bool
    next_action: str

    @property
    def is_proven(self) -> bool:
        """Whether lenses were found, and make the same of all values."""
        return self.text is not None

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "store": self.store,
            "revision": self.revision,
            "path": str(self.path),
            "proven": self.is_proven,
            "text": self.text,
            "written": self.written,
            "open_fields": dict(self.open_fields),
            "unequal": [each.to_json() for each in self.unequal],
            "made_up": self.made_up,
            "of_state": self.of_state,
            "taken": self.taken,
            "applied": self.applied,
            "next_action": self.next_action,
        }


@looks_again
def declare_lenses(
    revision: str,
    *,
    checkpoint: str | Path | None = None,
    apply: bool = False,
    migrations: str | Path = "migrations",
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> LensEdit:
    """Find lenses that do what a script's functions do, and prove that they do.

    ``revision`` is as in `show`. The lenses are found by running the functions on values made up
    from the formats. They are proven on such values, in both directions, and on those of
    ``checkpoint``. A field that no lens makes gets `function` with the script's own expression, if
    the script has one for that field alone. Without ``apply`` nothing is written.

    Raises `ScriptError` for a script without functions of one value, and the errors of `show`.
    """
    project = Project(migrations, {}, stores or {}, spark, operator)
    folder = project.folder
    found = folder.survey()
    entry = chosen(found, revision)
    for fault in entry.faults:
        raise fault
    migration = entry.migration
    assert migration is not None, "a script without faults is complete"  # noqa: S101
    lineage = found.sound(migration.store)[migration.store]
    script = next(each for each in found.scripts if str(each.path) == entry.path)
    made = declared(script, migration)
    equality, of_state = Equality(), None
    if made.script is not None:
        comparison = LensComparison(
            lineage.format_of(migration.down_revision or BASE),
            migration.new,
            _function(migration),
            migration.downgrade,
            made.script.get("change"),
        )
        equality = _of_made_up(comparison, migration)
        if checkpoint is not None:
            of_state = _of_state(comparison, migration, lineage, str(checkpoint), project)
    applied = _applied(project, migration, checkpoint)
    return _result(made, migration, equality, of_state, apply, applied)


def _function(migration: Migration) -> Any:
    assert migration.upgrade is not None, "asked before"  # noqa: S101
    return migration.upgrade


def _of_made_up(comparison: LensComparison, migration: Migration) -> Equality:
    found = Equality()
    old = [*(each.value for each in migration.examples), *made_up_values(comparison.old)]
    upgraded = []
    for value in old:
        try:
            made = comparison.upgrade(comparison.old.decode(comparison.old.encode(value)))
            upgraded.append(comparison.new.conform(made))
        except Exception:  # noqa: S112  # whatever a script's function raises: no value to take back
            continue
    comparison.compare(old, "upgrade", found)
    comparison.compare([*upgraded, *made_up_values(comparison.new)], "downgrade", found)
    return found


def _of_state(
    comparison: LensComparison,
    migration: Migration,
    lineage: Lineage,
    checkpoint: str,
    project: Project,
) -> Equality:
    """What the values of a checkpoint show, wherever they are in the lineage."""
    store = migration.store
    require_store(checkpoint, store)
    lineages = {store: lineage}
    found = Equality()
    with closing(open_committed(checkpoint, lineages, project)) as state:
        plan = planned(state, store, lineages, project, rewrites=state.can_be_rewritten)
        families = [plan.target, *plan.sources]
        ways = {each.name: dict(_ways(lineage, migration, each.revision)) for each in families}
        values = state.values(plan, [each for each in families if ways[each.name]])
        for _, document in values.map(Comparing(comparison, ways)):
            found.add(Equality.from_json(document))
    return found


def _ways(lineage: Lineage, migration: Migration, revision: str) -> list[tuple[Direction, Steps]]:
    """From a family's revision, the paths to the formats on both sides of a script."""
    before = lineage.revisions[lineage.position(migration.revision) - 1]
    ends: list[tuple[Direction, str]] = [("upgrade", before), ("downgrade", migration.revision)]
    found = []
    for way, end in ends:
        try:
            found.append((way, lineage.path(revision, end)))
        except LineageError:  # no way back to there
            continue
    return found


def _applied(project: Project, migration: Migration, checkpoint: str | Path | None) -> bool:
    recorded = read_applied(project.directory).get(migration.store, {})
    there = {} if checkpoint is None else applied_by(str(checkpoint)).get(migration.store, {})
    return migration.revision in {**recorded, **there}


def _result(
    made: DeclaredScript,
    migration: Migration,
    equality: Equality,
    of_state: Equality | None,
    apply: bool,
    applied: bool,
) -> LensEdit:
    every = Equality()
    for each in (equality, of_state or Equality()):
        every.add(each)
    is_proven = made.text is not None and every.is_equal
    if is_proven and apply and made.text is not None:
        data = made.path.read_bytes()
        ends = "\r\n" if b"\r\n" in data else "\n"
        with replacing(made.path) as stream:
            stream.write(made.text.replace("\n", ends).encode())
    return LensEdit(
        migration.store,
        migration.revision,
        made.path,
        made.before,
        made.text if is_proven else None,
        is_proven and apply,
        made.open_fields,
        tuple(every.groups.values()),
        _same(equality),
        None if of_state is None else _same(of_state),
        sum(every.taken.values()),
        applied,
        _next(migration, is_proven, apply, applied),
    )


def _same(found: Equality) -> int:
    differing = sum(each.values for each in found.groups.values())
    return sum(found.tried.values()) - sum(found.refused.values()) - differing


def _next(migration: Migration, is_proven: bool, apply: bool, applied: bool) -> str:
    if not is_proven:
        return "leave the functions, or change what differs and try again; nothing was written"
    if not apply:
        return f"`statemigrate new --edit {argument(migration.revision)} --lens --apply` writes it"
    if applied:
        return (
            f"deploy with accept_edited=({migration.revision!r},), since the script was applied, "
            "then `statemigrate check --checkpoint PATH --record`"
        )
    return f"`statemigrate history --show {argument(migration.revision)}` shows it"
