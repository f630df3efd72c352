"""Both directions between two formats, as the source that a script's template takes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from statemigrate.formats import Format
from statemigrate.scripts.inference.converter import Converter
from statemigrate.scripts.inference.functions import Functions
from statemigrate.scripts.inference.questions import MARK
from statemigrate.scripts.source.literals import quoted

_MODULES = {
    "datetime": ("UTC", "date", "datetime", "time", "timedelta"),
    "decimal": ("Decimal",),
}


@dataclass(frozen=True)
class Transforms:
    """``source`` holds ``upgrade``, ``downgrade``, what they call, and ``drops`` if it is needed.

    ``imports`` are the lines that import from the standard library, possibly none.
    """

    source: str
    imports: str

    @property
    def questions(self) -> tuple[str, ...]:
        """The comment lines that ask whether a guess is right."""
        lines = (line.strip() for line in self.source.splitlines())
        return tuple(line for line in lines if line.startswith(MARK))


def infer_transforms(old: Format, new: Format, *, back: bool = True) -> Transforms:
    """Return functions that take every value of ``old`` to ``new``, and ``back``.

    Kept fields are copied and types converted where there is an obvious way; renamed and moved
    fields are found by their names and types. What is filled in, and each field of ``old`` that
    goes nowhere, is a question; what ``downgrade`` loses is in ``drops``. Only a conversion that a
    question doubts can fail.
    """
    upgrade, downgrade = Functions("upgrade"), Functions("downgrade")
    Converter(upgrade).whole(old.schema, new.schema)
    if back:
        Converter(downgrade).whole(new.schema, old.schema)
    drops = [_drops(downgrade.drops)] if downgrade.drops else []
    backward = downgrade.sources.values() if back else ()
    source = "\n\n\n".join([*upgrade.sources.values(), *backward, *drops])
    return Transforms(source, _imports(source))


def _drops(fields: Sequence[str]) -> str:
    names = [quoted(field) for field in fields]
    line = f"drops = ({', '.join(names)}{',' if len(names) == 1 else ''})"
    return f"# Fields of `new` that `downgrade` has no place for.\n{line}"


def _imports(source: str) -> str:
    used = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    lines = []
    for module, names in _MODULES.items():
        needed = [name for name in names if name in used]
        if needed:
            lines.append(f"from {module} import {', '.join(needed)}")
    return "\n".join(lines)
