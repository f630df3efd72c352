"""Whether a checkpoint without state is that of a query which keeps none.

Spark notes the same of a query without state as of one with it, but for the folder ``state``: where
that is missing, only the query's owner can say which of both it is.
"""

from __future__ import annotations

from statemigrate.checkpoint.operators.shapes import CheckpointShape
from statemigrate.errors import CheckpointError
from statemigrate.files import Files
from statemigrate.native.seen.record import read_record


def check_state(old: Files, shape: CheckpointShape, *, without_state: bool) -> None:
    """Raise `CheckpointError` unless there is state, or it was said that there is none."""
    deployed = sorted(read_record(old))
    if shape.operators and without_state:
        raise CheckpointError(
            "SM-FORK-004",
            f"{old.location} has state",
            expected="a query that keeps none, as was said",
            found=", ".join(f"operator {each.number}" for each in shape.operators),
            next_action="leave out --without-state",
            path=old.location,
        )
    if not shape.operators and (deployed or not without_state):
        noted = f"; the query was deployed with {', '.join(deployed)}" if deployed else ""
        raise CheckpointError(
            "SM-FORK-005",
            f"{old.location} has no state of any operator",
            expected="the folder state, with a folder for each stateful operator",
            found=f"none, and its logs do not say whether the query keeps any{noted}",
            next_action="restore the folder state from a copy of the checkpoint"
            if deployed
            else "restore the folder state from a copy of the checkpoint; a query that keeps no "
            "state is forked with --without-state",
            path=old.location,
        )
