"""A processor that is made for a checkpoint when this module is imported."""

from __future__ import annotations

from previewed_code import MIGRATIONS, Events, Totals

from statemigrate import migrated

CHECKPOINT = "/nowhere/checkpoint"
MADE = migrated(Totals(), migrations=MIGRATIONS, checkpoint=CHECKPOINT)


def totals(events: Events):
    output = "k STRING, n BIGINT, sum BIGINT"
    return events.groupBy("k").transformWithState(MADE, output, "Update", "None")
