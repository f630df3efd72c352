"""What an operator keeps: its states by name, each with its columns.

A probe has run the code, and finds the states in the checkpoint that it made. Where code only
starts, the plan has the state of a function; the variables of a processor are what its ``init``
declares. Spark itself calls ``init`` on the driver to find them, before a query's first batch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from statemigrate.checkpoint.operators import (
    KINDS,
    FamilyShape,
    OperatorShape,
    StructJson,
    is_internal,
    kind_of,
    shown_paths,
    with_labels,
)
from statemigrate.deployment import SETTINGS, Declared
from statemigrate.errors import StatemigrateError
from statemigrate.formats.struct import ddl_of, parse_ddl
from statemigrate.rewrite.column_pairing import store_families
from statemigrate.rewrite.plan_tree import PlanNode
from statemigrate.rewrite.python_code import object_of_udf

_log = logging.getLogger("statemigrate.meaning")


@dataclass(frozen=True)
class StateSchema:
    """A state by the DDL of its ``value``.

    ``key`` is the DDL of its key, None where it was not looked at, and ``user_key`` that of a map's
    own key, None for what is no map. A list has several values, one after the other. ``expires``
    says that values have a time to live, and ``lives`` for how many milliseconds, None where that
    is not known.
    """

    value: str
    key: str | None = None
    user_key: str | None = None
    is_list: bool = False
    expires: bool = False
    lives: int | None = None

    @property
    def kind(self) -> str:
        """How a person calls it."""
        if self.user_key is not None:
            return "map"
        return "list" if self.is_list else "value"

    def to_json(self) -> dict[str, Any]:
        """The parts, as a record or a lock file has them."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> StateSchema:
        """The state in a document of `to_json`. Raises `ValueError` for what is no DDL."""
        found = cls(**document)
        for text in (found.value, found.key, found.user_key):
            try:
                if text is not None:
                    parse_ddl(text)
            except StatemigrateError as error:
                raise ValueError(str(error)) from error
        return found


def probed_schemas(
    operator: OperatorShape, declared: Mapping[str, StateSchema]
) -> Mapping[str, StateSchema]:
    """The states of an operator that a probe has run; ``declared`` are those of its plan."""
    return {
        label: _of_family(place.family, declared.get(label))
        for label, place in store_families(operator)
        if not (kind_of(operator.name).has_variables and is_internal(place.family.name))
    }


def _of_family(family: FamilyShape, declared: StateSchema | None) -> StateSchema:
    return StateSchema(
        state_ddl(family.content),
        state_ddl(family.key),
        None if family.user_key is None else state_ddl(family.user_key),
        family.is_list,
        family.wrapping == "expiry",
        None if declared is None else declared.lives,
    )


def state_ddl(struct: StructJson) -> str:
    """The DDL of a struct of Spark's, with a label for each field, without those of no value."""
    named = with_labels(dict(struct))
    return ddl_of({**named, "fields": [named["fields"][at] for at in shown_paths(dict(struct))]})


def declared_schemas(root: PlanNode) -> dict[int, dict[str, StateSchema]]:
    """The states of each operator of a plan whose code declares them, by the operator's number."""
    return {
        node.number: dict(_declared(node))
        for node in root.every()
        if node.number is not None and "functionExpr" in node.fields
    }


def _declared(node: PlanNode) -> Iterator[tuple[str, StateSchema]]:
    if "stateType" in node.fields:
        word = next(kind.word for kind in KINDS if kind.has_function)
        yield f"{word}-{node.number}", StateSchema(state_ddl(node.fields["stateType"]))
        return
    # A bound method of PySpark's, which has the processor.
    caller = getattr(object_of_udf(node.java.functionExpr()), "__self__", None)
    processor = getattr(caller, "_stateful_processor", None)
    # Scripts say what becomes of the variables of a processor of ours.
    if processor is None or hasattr(type(processor), SETTINGS):
        return
    try:
        found = schemas_by_init(processor)
        processor.close()
    except Exception as error:  # a user's init may raise anything; Spark calls it too, and fails
        _log.warning(
            "the variables of %s are not compared: its init raised %s: %s",
            type(processor).__qualname__,
            type(error).__name__,
            error,
        )
        return
    yield from found.items()


def schemas_by_init(processor: Any) -> dict[str, StateSchema]:
    """The variables that a processor's ``init`` declares, by name; it keeps none."""
    from statemigrate.processor import Listening

    found: dict[str, StateSchema] = {}

    def record(declared: Declared) -> object:
        found[declared.store] = _schema_of(declared)
        return object()

    processor.init(Listening(record, lambda name: found.pop(name, None)))
    return found


def _schema_of(declared: Declared) -> StateSchema:
    key = declared.user_key
    return StateSchema(
        state_ddl(declared.schema.jsonValue()),
        user_key=None if key is None else state_ddl(key.jsonValue()),
        is_list=declared.variable_kind.has_several_values,
        expires=bool(declared.ttl),
        lives=declared.ttl or None,
    )
