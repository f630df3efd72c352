"""An embedded query whose checkpoint is on a file system that only Spark's JVM reaches."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pipelines import Pipeline, no_backfill
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import backfill, migrated, open_state, status
from statemigrate.commands.retire import retire

FIRST = [batch(f"b{n}", range(10 * n, 10 * n + 40)) for n in range(3)]
NEXT = batch("next", range(30, 70))
OPTIONS = {"snapshot_every": 2, "retain": 2}


def expected_of(*batches: tuple[Iterable[Any], str]) -> Expected:
    expected = Expected()
    for rows, revision in batches:
        expected.process(rows, revision)
    return expected


def goes_on_elsewhere(pipeline: Pipeline, migrations: Path) -> None:
    """One machine is lost whole; another one goes on from the checkpoint, and migrates."""
    pipeline.feed(*FIRST)
    pipeline.deploy(CentsTally(), **OPTIONS)
    before = [(rows, CENTS) for rows in FIRST]
    assert pipeline.stored() == expected_of(*before).stored(CENTS)
    shutil.rmtree(pipeline.working)
    pipeline.feed(NEXT)
    pipeline.deploy(migrated(AmountsTally(), migrations=migrations), **OPTIONS)
    expected = expected_of(*before, (NEXT, AMOUNTS))
    expected.drain(AMOUNTS)
    assert pipeline.stored() == expected.stored(AMOUNTS)
    with open_state(pipeline.checkpoint, migrations=migrations) as state:
        assert len(list(state["tally"].entries())) == 70
    (store,) = status(pipeline.checkpoint, migrations=migrations).stores
    assert store.left == 0


def is_backfilled_while_it_is_stopped(pipeline: Pipeline, migrations: Path) -> None:
    """The verbs that write: a new epoch of the same version, from any machine."""
    pipeline.feed(*FIRST, NEXT)
    pipeline.deploy(CentsTally(), **OPTIONS)
    pipeline.lose_working_copy()
    done: Any = backfill(pipeline.checkpoint, migrations=migrations)
    assert (done.migrated, done.left) == (70, {"tally": 0})
    assert retire(pipeline.checkpoint, migrations=migrations).dropped == ("tally",)
    expected = expected_of(*((rows, CENTS) for rows in (*FIRST, NEXT)))
    expected.drain(AMOUNTS)
    stored = expected.stored(AMOUNTS)
    assert pipeline.stored() == stored
    pipeline.feed(NEXT)
    pipeline.deploy(
        migrated(AmountsTally(), migrations=migrations), backfill=no_backfill(), **OPTIONS
    )
    expected.process(NEXT, AMOUNTS)
    assert pipeline.stored() == expected.stored(AMOUNTS)


LIVES: dict[str, Callable[[Pipeline, Path], None]] = {
    "goes on elsewhere": goes_on_elsewhere,
    "is backfilled while it is stopped": is_backfilled_while_it_is_stopped,
}
