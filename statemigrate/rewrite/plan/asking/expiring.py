"""What is asked of variables with a time to live: when old values expire, if they did not before.

How long values live is said in the code alone: Spark notes of each when it expires. So that is what
the author says, as a moment, or as an expression of Spark's SQL over old entries.
"""

from __future__ import annotations

from collections.abc import Sequence

from statemigrate.rewrite.plan.asking.ask import OF_TABLES, Asked
from statemigrate.rewrite.plan.asking.questions import Question
from statemigrate.rewrite.plan.families import FamilyPlan

EXPIRES = "expires"


def ask_expiry(asked: Asked, families: Sequence[FamilyPlan]) -> None:
    """Ask of each family whose values begin to expire, or do not any more."""
    for each in families:
        name = f"{each.name}:{EXPIRES}"
        match each.expiry:
            case "told":
                asked.told(_when(name, each.name, asked.rows))
            case "ends":
                asked.confirm(_never(name, each.name))
            case "kept":
                asked.may_tell(_when(name, each.name, asked.rows))


def _when(name: str, variable: str, rows: str) -> Question:
    by_column = (f"--take {name}=COLUMN",) if rows == OF_TABLES else ()
    return Question(
        name,
        "expiry",
        f"values of {variable} have a time to live, and {rows} do not say when they expire: when "
        "do they? A number of milliseconds since 1970, or an expression over batch_time, key and "
        "value",
        None,
        (f"--start '{name}=\"batch_time + 3600000\"'", *by_column),
    )


def _never(name: str, variable: str) -> Question:
    return Question(
        name,
        "gone",
        f"values of {variable} do not expire any more: do all that have not yet expired stay?",
        "they stay",
    )
