"""Whether a script takes values that were made up from its own formats."""

from __future__ import annotations

from collections.abc import Iterator

from statemigrate.formats import Format
from statemigrate.formats.made_up import made_up_values
from statemigrate.inspect.checking.report import Finding
from statemigrate.inspect.report.dry_run import Loss
from statemigrate.inspect.trial.fields.group import Group
from statemigrate.inspect.trial.fields.losses import losses
from statemigrate.inspect.trial.findings import Findings
from statemigrate.inspect.trial.trial import WAY_BACK, Trial
from statemigrate.migration import BASE, Direction, Migration, Path, Step, Transform
from statemigrate.migration.signatures import takes_key

_CAUSES = 3


def made_up_findings(migration: Migration) -> Iterator[Finding]:
    """What is found by taking values made up from `old` through ``upgrade``, and back.

    A function that fails on every one of them is wrong, unless the script's ``examples`` show
    values that it takes. One that fails on some is worth a note where there are no examples: made
    up values need not be ones that the state can have. So is a field that the script loses and does
    not name in ``drops``.
    """
    found = _found(migration)
    # A question that is open may be about the very thing.
    yield from (each for each in found if each.severity == "error" or not migration.questions)


def _found(migration: Migration) -> Iterator[Finding]:
    if migration.old is None or migration.upgrade is None or takes_key(migration.upgrade):
        # No key can be made up: which columns it has is nowhere said.
        return
    there = _step(migration, "upgrade", migration.upgrade, migration.new)
    back = migration.downgrade and _step(migration, "downgrade", migration.downgrade, migration.old)
    found = _tried(migration.old, there, back)
    yield from _failing(migration, "upgrade", found.failures, found.failed, found.tried)
    ways_back = {
        name.removeprefix(WAY_BACK): group
        for name, group in found.differences.items()
        if name.startswith(WAY_BACK)
    }
    failed = sum(group.values for group in ways_back.values())
    yield from _failing(migration, "downgrade", ways_back, failed, found.tried - found.failed)
    yield from (_losing(migration, loss) for loss in _lost(there, found))
    if back is not None:
        yield from (_losing(migration, loss) for loss in _lost(back, _tried(migration.new, back)))


def _step(migration: Migration, direction: Direction, transform: Transform, to: Format) -> Step:
    ends = (migration.down_revision or BASE, migration.revision)
    start, end = ends if direction == "upgrade" else reversed(ends)
    return Step(
        migration.store,
        start,
        end,
        transform,
        to,
        migration.path,
        direction=direction,
        drops=migration.drops,
    )


def _tried(old: Format, there: Step, back: Step | None = None) -> Findings:
    way_back = None if back is None else Path(back.source, back.target, (back,))
    path = Path(there.source, there.target, (there,))
    trial = Trial(old, there.format, path, way_back, lambda value: value)
    written = [old.encode(value) for value in made_up_values(old)]
    for data in written:
        # The value is its own key, to be shown; a transform may change what it is given.
        trial.run(old.decode(data), data, old.decode(data))
    return trial.finished(len(written))


def _lost(step: Step, found: Findings) -> tuple[Loss, ...]:
    fates = {(0, name.partition(" ")[2]): fate for name, fate in found.fates.items()}
    # Made up values are beyond what a state has: that some of them lose a field says little.
    lost = losses([step], fates)
    return tuple(loss for loss in lost if not loss.meant and loss.values is None)


def _failing(
    migration: Migration, name: str, groups: dict[str, Group], failed: int, tried: int
) -> Iterator[Finding]:
    every = failed == tried
    if not failed or (migration.examples and not every):
        return
    ordered = sorted(groups.items(), key=lambda item: -item[1].values)
    for cause, group in ordered[: 1 if every else _CAUSES]:
        values = f"every one of {tried:,}" if every else f"{group.values:,} of {tried:,}"
        such = f", such as {min(group.keys, key=len)}" if group.keys else ""
        yield Finding(
            "made-up",
            f"`{name}` fails on {values} values made up from `old`{such}",
            f"correct `{name}`, or give `examples` of values that it takes",
            found=f"{cause}; {group.note}" if group.note else cause,
            store=migration.store,
            revision=migration.revision,
            path=migration.path,
            severity="error" if every and not migration.examples else "note",
        )


def _losing(migration: Migration, loss: Loss) -> Finding:
    return Finding(
        "made-up",
        f"`{loss.direction}` keeps nothing of {loss.field}",
        f"correct `{loss.direction}`, or, if that is meant, add {loss.field!r} to `drops`",
        store=migration.store,
        revision=migration.revision,
        path=migration.path,
        severity="note",
    )
