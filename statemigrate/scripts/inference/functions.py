"""The functions that one direction of a script consists of."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from statemigrate.formats.schema.matching import Pair
from statemigrate.formats.schema.nodes import Record
from statemigrate.formats.schema.resolution import matched_fields
from statemigrate.scripts.source.identifiers import identifier
from statemigrate.scripts.source.layout import Break, Doc, Indent, render


class Functions:
    """``upgrade`` or ``downgrade`` and the private functions it calls, in the order they stand.

    ``drops`` are the fields it loses without a question.
    """

    def __init__(self, direction: str) -> None:
        self.direction = direction
        self.forward = direction == "upgrade"
        self.sources: dict[str, str] = {direction: ""}
        self.drops: list[str] = []

    def pairs(self, source: Record, target: Record) -> tuple[Pair, ...]:
        """Pair the fields of two records, so that the way back undoes the way there."""
        if self.forward:
            return matched_fields(source, target)
        return tuple(pair.reversed() for pair in matched_fields(target, source))

    def reserve(self, where: str) -> str:
        """Return a name for a private function and keep its place among the others."""
        words = identifier(where.replace("[]", "").replace("{}", "").replace(".", "_"))
        stem = f"_{self.direction}_{words}"
        name, number = stem, 2
        while name in self.sources:
            name, number = f"{stem}_{number}", number + 1
        self.sources[name] = ""
        return name

    def forget(self, name: str) -> None:
        """Drop a function that turned out not to be needed."""
        del self.sources[name]

    def define(
        self,
        name: str,
        result: Doc,
        *,
        statements: Sequence[Doc] = (),
        signature: str = "(value: Value) -> Value",
    ) -> None:
        """Write the function of that name."""
        lines = [*statements, ("return ", result)]
        body = Indent(tuple(part for line in lines for part in (Break(), line)))
        source = render((f"def {name}{signature}:", body))
        self.sources[name] = _excused(source) if "(value:" in signature else source


def _excused(source: str) -> str:
    """Return a function with linters told if it has no use for its argument."""
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    if "value" in names:
        return source
    head, _, body = source.partition("\n")
    return f"{head}  # noqa: ARG001\n{body}"
