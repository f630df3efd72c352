"""Code for a checkpoint of the embedded engine: what it declares, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statemigrate.commands.new_code import (
    NewCode,
    check_known_once,
    inputs_of,
    query_of,
)
from statemigrate.deployment import (
    SETTINGS,
    DeploymentSettings,
    StoredStore,
    fitting_lineages,
    named_object,
    only_looking,
    plan_store,
)
from statemigrate.errors import CodeError
from statemigrate.files import Files
from statemigrate.inspect import code_of
from statemigrate.meaning import PROCESSOR, CodeMeaning, read_lock, recorded_meaning
from statemigrate.rewrite import input_schemas
from statemigrate.state import Project

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class DeclaredCode:
    """The ``stores`` that code declares, as its first start would record them.

    ``key`` is the type of the grouping key and ``partitions`` the number of them, both None where
    the code is a processor alone, as is ``meaning``, what the processor's rows and their keys mean.
    ``is_migrated`` says whether it is marked by `migrated`, and ``expiring`` are the stores that it
    gives a time to live.
    """

    stores: Mapping[str, StoredStore]
    key: StructType | None
    partitions: int | None
    is_migrated: bool
    expiring: tuple[str, ...] = ()
    meaning: CodeMeaning | None = None


def declared_by(target: NewCode, project: Project, checkpoint: str) -> DeclaredCode:
    """What the code in ``target`` declares, a processor or a function that makes the query.

    Raises `CodeError` for other code, and for a meaning that a processor alone cannot show.
    """
    reference = str(target.code)
    check_known_once(target)
    if target.code is None or target.like:
        raise CodeError(
            "SM-CODE-016",
            f"code for the embedded engine's state in {checkpoint} is not seen in a checkpoint",
            expected="--code, which names the processor or the function that makes the query",
            found=f"--like {target.like}",
            next_action="give --code in its place",
            reference=reference,
        )
    with only_looking():
        found, key, partitions, meaning = named_object(reference), None, None, None
        if not isinstance(found, type) and not hasattr(found, "handleInputRows"):
            inputs = inputs_of(reference, target.old_code, target.inputs)
            # Looked at before Spark starts.
            input_schemas(found, inputs, reference)
            query = query_of(NewCode(reference, inputs), project.spark, checkpoint)
            found, meaning = query.parts.processor, query.meaning
            key, partitions = query.parts.schema.key, query.parts.options.partitions
        elif target.old_code or target.lock:
            raise _meaningless(reference)
        declared = code_of(found, reference).declared
    settings: DeploymentSettings = getattr(found, SETTINGS, DeploymentSettings())
    is_migrated = hasattr(found, SETTINGS)
    lineages = fitting_lineages(declared, project.lineages if is_migrated else {}, settings)
    stores = {}
    for each in declared:
        lineage = lineages.get(each.store)
        own = DeploymentSettings() if lineage is None else settings
        stores[each.store] = plan_store(each, lineage, None, own).stored()
    expiring = tuple(each.store for each in declared if each.ttl)
    return DeclaredCode(stores, key, partitions, is_migrated, expiring, meaning)


def _meaningless(reference: str) -> CodeError:
    return CodeError(
        "SM-CODE-018",
        f"{reference} is a processor, which does not show what its rows and keys mean",
        expected="a function from the input streams to the EmbeddedQuery, with --old-code or "
        "--lock",
        found="a processor alone",
        next_action="name the function in --code; or leave --old-code and --lock out, and the "
        "stores alone are compared",
        reference=reference,
    )


def meant_before(
    target: NewCode, files: Files, version: int, project: Project
) -> CodeMeaning | None:
    """What the code meant that wrote a version of the state; None where nothing says it.

    Raises `CodeError` for a lock file that is none or of another query, and for old code that does
    not run; `CorruptFileError` for a record that was altered.
    """
    if target.lock is not None:
        found = read_lock(target.lock)
        if PROCESSOR not in [each.name for each in found.operators]:
            raise _other_lock(str(target.lock), found, files.location)
        return found
    if target.old_code is None:
        record = recorded_meaning(files, version)
        return None if record is None else record.meaning
    inputs = inputs_of(target.old_code, str(target.code), target.inputs)
    return query_of(NewCode(target.old_code, inputs), project.spark, files.location).meaning


def _other_lock(lock: str, found: CodeMeaning, location: str) -> CodeError:
    return CodeError(
        "SM-LOCK-004",
        f"{lock} is not of the code that {location} was written by",
        expected="the processor of an EmbeddedQuery",
        found=", ".join(each.name for each in found.operators) or "no stateful operator",
        next_action="take the lock file of the commit that is deployed, or leave --lock out",
        reference=lock,
    )
