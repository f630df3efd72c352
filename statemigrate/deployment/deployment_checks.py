"""The checks of rule 10: each a clear error before anything is touched."""

from __future__ import annotations

from collections.abc import Sequence

from statemigrate.deployment.stored import (
    Declared,
    DeploymentSettings,
    StoredFamily,
    StoredStore,
    StoreFacts,
    is_family_of,
    revision_in,
)
from statemigrate.errors import StartupError
from statemigrate.formats import Struct, differences
from statemigrate.formats.struct import shape_of
from statemigrate.migration import Lineage
from statemigrate.quoting import argument


def check_targets(settings: DeploymentSettings, declared: Sequence[Declared]) -> None:
    """Raise `StartupError` if ``targets`` names a store the processor does not have."""
    names = sorted(each.store for each in declared)
    for store in settings.targets:
        if store not in names:
            raise StartupError(
                "SM-START-001",
                f"targets names the store {store}, which the processor does not have",
                expected=f"one of {', '.join(names)}",
                found=store,
                next_action="correct the name in targets=",
                store=store,
            )


def check_scripted(store: str, families: Sequence[str]) -> None:
    """Raise `StartupError` for a store without scripts, if ``families`` has any of a revision."""
    migrated = {
        name: str(revision_in(name))
        for name in families
        if name != store and is_family_of(store, name)
    }
    if migrated:
        raise StartupError(
            "SM-START-002",
            f"store {store} has families of revisions, and not one script",
            expected=f"the scripts of {', '.join(migrated.values())}",
            found=f"the family {', '.join(migrated)} in the checkpoint, and no script of {store}",
            next_action="check migrations=, the folder of scripts, in the call of stateful (or "
            "migrated); bring back those this checkpoint was last run with: without them "
            "the values in these families would be lost",
            store=store,
            families=list(migrated),
        )


def check_expiry(declared: Declared, facts: StoreFacts) -> None:
    """Raise `StartupError` if values expire in the state and not by the code, or otherwise."""
    # To Spark, no milliseconds are no time to live.
    asked = bool(declared.ttl)
    for family, expires in facts.expires.items():
        if expires != asked:
            states = {True: "values expire", False: "values do not expire"}
            raise StartupError(
                "SM-START-003",
                f"store {declared.store}: the code and the state differ in time to live",
                expected=f"{states[expires]}, as in family {family}",
                found=states[asked],
                next_action="declare the variable with ttlDurationMs exactly if it had one; to "
                "change that, stop the query and `statemigrate rewrite CHECKPOINT NEW --code "
                "MODULE:FUNCTION`, which asks when the old values expire; out of pages first, with "
                "--no-pages, where they are in pages",
                store=declared.store,
            )


def check_complement(declared: Declared) -> None:
    """Raise `StartupError` for values that expire: their complements would not."""
    if declared.ttl:
        raise StartupError(
            "SM-START-033",
            f"store {declared.store}: values that expire cannot have complements",
            expected="a variable without a time to live",
            found=f"{declared.ttl} milliseconds",
            next_action="leave complement=True out; or declare the variable without ttlDurationMs",
            store=declared.store,
        )


def check_schema(declared: Declared, target: StoredFamily, lineage: Lineage) -> None:
    """Raise `StartupError` unless the code declares the target's format."""
    if declared.given is target.format:
        return
    wanted = target.format.struct_type()
    if shape_of(wanted) == shape_of(declared.schema):
        return
    # The code may declare as nullable what is not.
    found = differences(target.format, Struct(declared.schema), nullable=True)
    raise StartupError(
        "SM-START-004",
        f"store {declared.store}: the code's schema is not the one of its target revision "
        f"{target.revision}",
        expected=wanted.simpleString(),
        found="\n".join([*found, declared.schema.simpleString()]),
        next_action=f"`statemigrate history --show {argument(declared.store)}@head` shows the "
        "format; "
        "declare it in "
        "init, or set targets to the revision the code is written for, or run "
        f"`statemigrate new {argument(declared.store)} -m MESSAGE`",
        store=declared.store,
        head=lineage.head,
        differences=found,
    )


def check_kind(declared: Declared, stored: StoredStore) -> None:
    """Raise `StartupError` if the code declares another kind of store than is stored."""
    user_key = None if declared.user_key is None else declared.user_key.jsonValue()
    found = (stored.kind, stored.user_key)
    if found != (declared.kind, user_key):
        raise StartupError(
            "SM-START-005",
            f"store {declared.store} changed its kind or its map key",
            expected=f"{stored.kind} state, map key {stored.user_key}",
            found=f"{declared.kind} state, map key {user_key}",
            next_action="give the new state another name; kind and map key do not migrate while "
            "the query runs: of Spark's own state, `statemigrate rewrite CHECKPOINT NEW --code "
            "MODULE:FUNCTION` makes another kind while it is stopped",
            store=declared.store,
        )


def check_families(lineage: Lineage, stored: StoredStore) -> None:
    """Raise `StartupError` for a family of an unknown revision, or of another format."""
    for family in stored.families:
        if family.revision not in lineage:
            raise StartupError(
                "SM-START-006",
                f"store {lineage.store}: the checkpoint has a family of the unknown revision "
                f"{family.revision}",
                expected=f"one of {', '.join(lineage.revisions)}",
                found=f"{family.revision} (family {family.name})",
                next_action="check out the scripts this checkpoint was last run with; "
                f"`statemigrate history {argument(lineage.store)}` lists those that are here",
                store=lineage.store,
                revision=family.revision,
            )
        _check_format(lineage, family)


def _check_format(lineage: Lineage, family: StoredFamily) -> None:
    scripted = lineage.format_of(family.revision)
    if scripted.fingerprint != family.format.fingerprint:
        found = differences(family.format, scripted)
        raise StartupError(
            "SM-START-007",
            f"store {lineage.store}: the format stored for revision {family.revision} is not the "
            "script's",
            expected=f"as stored, {family.format!r}",
            found="\n".join([*found, f"in the script, {scripted!r}"]),
            next_action="restore the script's format and make the change in a new migration: "
            f"`statemigrate new {argument(lineage.store)} -m MESSAGE`",
            store=lineage.store,
            revision=family.revision,
            differences=found,
        )


def check_scripts(lineage: Lineage, stored: StoredStore, settings: DeploymentSettings) -> None:
    """Raise `StartupError` for a script that was edited since it was applied."""
    for migration in lineage.migrations:
        checksum = stored.applied.get(migration.revision, migration.checksum)
        if migration.was_applied_as(checksum) or migration.revision in settings.accept_edited:
            continue
        raise StartupError(
            "SM-START-008",
            f"store {lineage.store}: {migration.where} was edited after it was applied to this "
            "checkpoint",
            expected=f"checksum {checksum[:12]}",
            found=f"checksum {migration.checksum[:12]}",
            next_action="restore the script and make the change in a new migration; if values "
            f"migrate the same as before, pass accept_edited=({migration.revision!r},) to "
            f"{settings.call}",
            store=lineage.store,
            revision=migration.revision,
        )
