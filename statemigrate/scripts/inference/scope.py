"""Where a record's function finds the old values: in its argument and in structs within it."""

from __future__ import annotations

import builtins
import keyword

from statemigrate.formats.schema.matching import Path
from statemigrate.formats.schema.nodes import Node, Record
from statemigrate.formats.schema.nullability import holds_none, with_none, without_none
from statemigrate.scripts.source.expressions import assigned_or_empty, call, item_of
from statemigrate.scripts.source.identifiers import identifier
from statemigrate.scripts.source.layout import Doc
from statemigrate.scripts.source.literals import quoted

ARGUMENT = "value"
LOOP_NAMES = ("each", "inner", "innermost")
_TAKEN = {
    *(ARGUMENT, "key", *LOOP_NAMES),
    *("l", "date", "datetime", "time", "timedelta"),
    *keyword.softkwlist,
    *dir(builtins),
}


class Scope:
    """The body of one function; ``statements`` are the lines before its ``return``."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.statements: list[Doc] = []
        self._variables: dict[Path, str] = {}

    def find(self, path: Path) -> tuple[Doc, Node]:
        """Return the source of an old value, and its type: with None if a struct around it is."""
        base: Doc = ARGUMENT
        node: Node = self.record
        optional = False
        for depth, name in enumerate(path):
            inner = _type_of(node, name)
            found = call((base, ".get"), quoted(name)) if optional else item_of(base, name)
            optional = optional or (depth + 1 < len(path) and holds_none(inner))
            base = (
                self._variable(path[: depth + 1], found) if _more(path, depth, optional) else found
            )
            node = with_none(inner) if optional else inner
        return base, node

    def _variable(self, path: Path, found: Doc) -> str:
        if path not in self._variables:
            # Linters take a name with an underscore in front for one that is never read.
            name = identifier(path[-1]).lstrip("_")
            name = name if name.isidentifier() else f"field_{name}"
            while name in _TAKEN or keyword.iskeyword(name) or name in self._variables.values():
                name += "_"
            self._variables[path] = name
            self.statements.append(assigned_or_empty(name, found))
        return self._variables[path]


def _more(path: Path, depth: int, optional: bool) -> bool:
    return optional and depth + 1 < len(path)


def _type_of(node: Node, name: str) -> Node:
    record = without_none(node)
    assert isinstance(record, Record)  # noqa: S101  # paths lead through structs only
    return next(field.type for field in record.fields if field.name == name)
