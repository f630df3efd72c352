"""A processor that works on the checkpoint of the query that it is deployed in."""

from previewed_code import MIGRATIONS, Totals

from statemigrate import migrated

CHECKPOINT = "/nowhere/checkpoint"


@migrated(migrations=MIGRATIONS, checkpoint=CHECKPOINT)
class Marked(Totals):
    """Marked for a checkpoint."""


def make():
    return Marked()
