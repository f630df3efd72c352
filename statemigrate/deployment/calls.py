"""The calls that declare an operator whose state migrates, as messages name them.

A start on Spark's own state records the call that its code was declared by. A message names that
one. Where no start has recorded any, it names `stateful`, which the first pages of the
documentation teach, and then the calls that `stateful` stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from statemigrate.quoting import argument

Call = Literal["stateful", "migrated"]


def recorded_call(calls: Iterable[Call | None]) -> Call | None:
    """The one call of several stores, None where they have none or several."""
    found = {each for each in calls if each is not None}
    return found.pop() if len(found) == 1 else None


def declared_by(call: Call | None, *, pages: bool = False) -> str:
    """How the operator of a query is declared whose code takes part in a backfill."""
    if pages:
        return "its operator declared by stateful with pages= (or by paged, with migrated)"
    if call == "migrated":
        return "with_backfill around its stream and migrated on its processor"
    if call == "stateful":
        return "its operator declared by stateful"
    return (
        "its operator declared by stateful (or with_backfill around its stream and migrated on "
        "its processor)"
    )


def gets_source(checkpoint: str, call: Call | None) -> str:
    """How a query gets the backfill source that it has run without."""
    by_hand = (
        f"run `statemigrate backfill {argument(checkpoint)} --prepare --apply`, put with_backfill "
        "around its stream"
    )
    if call == "migrated":
        return f"stop the query, {by_hand} and start it again"
    return (
        "stop the query, declare its operator by stateful, which makes room for the source, and "
        f"start it again; or, in place of stateful, {by_hand}"
    )


def written_for(targets: Mapping[str, str], engine: str, call: Call | None) -> str:
    """The call that declares code for older revisions than the heads, by store in ``targets``."""
    named = f"targets={dict(targets)}"
    if engine == "embedded":
        return f"migrated(..., {named})"
    if engine == "paged":
        return f"stateful(..., pages=..., {named}) (or paged, with migrated(..., {named}))"
    own = f"stateful(..., {named})"
    parts = f"migrated(..., {named}, checkpoint=...), and with_backfill around its stream"
    if call is None:
        return f"{own} (or {parts})"
    return own if call == "stateful" else parts
