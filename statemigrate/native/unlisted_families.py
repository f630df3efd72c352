"""Families whose values a reader of the state would leave out, or show beside newer ones.

A batch that was killed runs again with other code: Spark keeps the list of the code that had begun
the batch, which has what the other code did not see. Or code without statemigrate runs on migrated
state: Spark forgets what that code does not declare. The values stay in the state each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators import (
    CheckpointShape,
    OperatorShape,
    is_internal,
    kind_of,
)
from statemigrate.checkpoint.stores import provider_of
from statemigrate.deployment import is_family_of, revision_in, store_of
from statemigrate.errors import CheckpointError
from statemigrate.native.deployment_check import StoreRecord, read_record
from statemigrate.native.listing import (
    Listing,
    column_families,
    read_listing,
    was_run_again,
)
from statemigrate.native.operators import is_pages
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from statemigrate.files import Files


def check_all_listed(files: Files, shape: CheckpointShape) -> None:
    """Raise `CheckpointError` if a look at all rows would leave values out, or show older ones."""
    for operator in shape.operators:
        for error in hidden_families(files, shape, operator):
            raise error


def hidden_families(
    files: Files, shape: CheckpointShape, operator: OperatorShape, store: str | None = None
) -> Iterator[CheckpointError]:
    """An error for each family, of one store or of all, that may have values and is not listed.

    A variable of plain code that is not declared any more is none of them: its user removed it.
    """
    if not kind_of(operator.name).has_variables or not provider_of(shape.conf).has_families:
        return
    if was_run_again(files, operator.number):
        listing = read_listing(files, shape.batch, operator.number, begun=False)
        yield from _passed_over(files, shape, operator, store, listing)
    yield from _forgotten(files, shape, operator, store)


def _passed_over(
    files: Files,
    shape: CheckpointShape,
    operator: OperatorShape,
    store: str | None,
    listing: Listing,
) -> Iterator[CheckpointError]:
    """Errors for families that code which ran a killed batch again did not declare."""
    record = read_record(files)
    stores = {store_of(name) for name in listing.variables} if store is None else {store}
    for each in sorted(stores):
        started = record.get(each, StoreRecord())
        batches = range(started.batch + 1, shape.batch + 1)
        for name, batch in sorted(listing.passed_over(batches, started.begun).items()):
            is_migrated = is_family_of(each, name) and (each in record or revision_in(name))
            if is_migrated and _has_rows(files, shape, operator, name):
                yield _was_passed_over(files, name, batch)


def _forgotten(
    files: Files, shape: CheckpointShape, operator: OperatorShape, store: str | None
) -> Iterator[CheckpointError]:
    """Errors for families that only the database has."""
    there = column_families(files, shape.batch, operator.number) or frozenset()
    listed = {family.name for each in operator.stores for family in each.families}
    stores = {store_of(name) for name in listed}
    for name in sorted(there - listed):
        is_migrated = store_of(name) in stores or revision_in(name) or is_pages(name)
        if is_internal(name) or not is_migrated or store not in (None, store_of(name)):
            continue
        if _has_rows(files, shape, operator, name):
            yield _was_forgotten(files, shape.batch, name)


def _has_rows(files: Files, shape: CheckpointShape, operator: OperatorShape, name: str) -> bool:
    # It loads Arrow, which a plan without such families does without.
    from statemigrate.checkpoint import OperatorFamily, stored_partitions

    (store,) = operator.stores
    parts = stored_partitions(files, shape, operator, store)
    # Keys are not decoded: of what is not listed nothing says what they are.
    family = replace(store.families[0], name=name)
    rows = OperatorFamily(files, shape.conf, operator, store, family, parts)
    return any(
        len(keys)
        for partition, part in enumerate(parts)
        if name in part.families
        for keys, _ in rows.raw(partition, has_values=False)
    )


def _repairing(files: Files) -> str:
    return (
        f"stop the query; `statemigrate doctor {argument(files.location)} --repair` says what can "
        "be brought back, and with --apply makes a new checkpoint that has it"
    )


def _was_passed_over(files: Files, name: str, batch: int) -> CheckpointError:
    return CheckpointError(
        "SM-STATE-037",
        f"code that does not know the family {name} ran on {files.location}, in batch {batch}",
        expected=f"{name} among the variables of all code that ran since it has values",
        found="Spark lists what the code declared that had begun the batch, not what ran it again: "
        "the family's values may be older than the store's others of the same keys",
        next_action=_repairing(files),
        path=files.location,
        family=name,
        batch=batch,
    )


def _was_forgotten(files: Files, batch: int, name: str) -> CheckpointError:
    return CheckpointError(
        "SM-STATE-036",
        f"family {name} in {files.location} has values that Spark has forgotten",
        expected=f"{name} among the variables that Spark lists for batch {batch}",
        found="it is in the database alone: code that does not declare it ran on the checkpoint",
        next_action=f"{_repairing(files)}; or, to give up the values, run the code once with "
        f"handle.deleteIfExists({name!r})",
        path=files.location,
        family=name,
        batch=batch,
    )
