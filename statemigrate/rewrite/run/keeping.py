"""Operators whose state goes on byte for byte: their files are copied, no row is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from statemigrate.checkpoint.logs.pinned import is_avro
from statemigrate.files import Files
from statemigrate.rewrite.forking.copying import copy_files
from statemigrate.rewrite.forking.files import state_files
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.plan.pairing.places import is_unused
from statemigrate.rewrite.plan.plan import OperatorPlan, RewritePlan

_OF_STATE = "stateStore"
"""In the names of settings that say how files of state are written."""


@dataclass(frozen=True)
class Copies:
    """The ``names`` of new files, by those of the old ones in ``source``."""

    source: Files
    names: Mapping[str, str]

    def put(self, target: Files) -> None:
        """Copy them. Raises `CheckpointError` for one that is gone."""
        copy_files(self.source, target, self.names)


def kept_operators(plan: RewritePlan, old: Files) -> dict[int, Copies]:
    """What is copied of the checkpoint ``old``, by the new number of each operator that is kept.

    Avro notes schemas of the old checkpoint by their numbers in each row, and files with ids have
    other ones in the new commit: both are written anew. Raises `CorruptFileError` for a file that
    is missing.
    """
    has_ids = any(shape.commits[shape.batch].state_ids for shape in (plan.old, plan.new))
    if has_ids or is_avro(plan.old.conf) or any(_OF_STATE in name for name in plan.changed_conf):
        return {}
    return {
        each.new.number: Copies(old, _renamed(state_files(old, plan.old, each.old), each))
        for each in plan.operators
        if each.old is not None and each.new is not None and _is_kept(each)
    }


def _is_kept(operator: OperatorPlan) -> bool:
    old, new = operator.old, operator.new
    assert old is not None, "asked before"  # noqa: S101
    assert new is not None, "asked before"  # noqa: S101
    same = old.name == new.name and old.stores == new.stores
    return same and all(
        each.is_derived or is_unused(new, each.new.family) or _stays(each)
        for each in operator.families
    )


def _stays(family: FamilyPlan) -> bool:
    """Whether the family has the same rows under the same name."""
    if family.key is None or family.value is None or family.way != "rows":
        return False
    is_identity = family.key.is_identity and family.value.is_identity
    return is_identity and family.new.is_at(family.old)


def _renamed(names: list[str], operator: OperatorPlan) -> dict[str, str]:
    assert operator.old is not None, "asked before"  # noqa: S101
    assert operator.new is not None, "asked before"  # noqa: S101
    before, after = f"state/{operator.old.number}/", f"state/{operator.new.number}/"
    return {name: after + name.removeprefix(before) for name in names}
