"""Code without `migrated` on a checkpoint whose state is in families it does not know."""

from __future__ import annotations

from typing import Any

from statemigrate.deployment import is_family_of, revision_in
from statemigrate.errors import StartupError
from statemigrate.native.seen.record import read_record
from statemigrate.native.seen.seen import directory_of
from statemigrate.native.spark_state.listing import read_listing
from statemigrate.processor.variables.handle import Listening, declared_variables


def check_forgetting(checkpoint: str, operator: int | None, code: Any) -> None:
    """Raise `StartupError` if ``code``, which is not migrated, would make Spark forget values.

    Spark drops a state variable that no code declares, and says nothing.
    """
    batch = directory_of(checkpoint).last_commit()
    if batch < 0:
        return
    record = read_record(checkpoint)
    if not hasattr(code, "handleInputRows"):
        _check_function(checkpoint, sorted(record))
        return
    variables = read_listing(checkpoint, batch, operator).variables
    live = {
        name
        for store, each in record.items()
        for name in each.families
        # Another operator of the query has stores of its own.
        if any(is_family_of(store, variable) for variable in variables)
    }
    listed = {name for name in variables if revision_in(name)}
    declared = {each.store for each in declared_variables(code, Listening)}
    unknown = sorted((live | listed) - declared)
    if unknown:
        raise StartupError(
            "SM-START-022",
            f"{type(code).__qualname__} is not migrated, and the state is in families it does not "
            "declare",
            expected=f"migrated({type(code).__qualname__}(...), ...), since the checkpoint has "
            f"{', '.join(sorted(live | listed))}",
            found=f"only {', '.join(sorted(declared)) or 'no state variable'}: Spark would forget "
            f"{', '.join(unknown)} with every value in it",
            next_action="put migrated around the processor again; to go back to an older format, "
            "with targets=",
            path=checkpoint,
        )


def _check_function(checkpoint: str, stores: list[str]) -> None:
    if stores:
        raise StartupError(
            "SM-START-023",
            "the function is not migrated, and the state is in envelopes",
            expected=f"migrated(function, store={stores[0]!r}, ...)",
            found="a function that would be handed the envelope in place of its value",
            next_action="put migrated around the function again; to go back to an older format, "
            "with targets=",
            path=checkpoint,
        )
