"""Formats as the Python source of a script."""

from __future__ import annotations

import json
from collections.abc import Iterable

from statemigrate.formats import Avro, Format, Struct

_WIDTH = 100


def assignment(name: str, format: Format | None) -> str:
    """Return the line or lines that assign ``format`` to ``name``, left open if it is None.

    Written as ``ruff format`` would leave them.
    """
    if format is None:
        return f"{name}: Avro | Struct = ..."
    kind = "Avro" if isinstance(format, Avro) else "Struct"
    text = _text(format)
    line = f"{name} = {kind}({json.dumps(text, ensure_ascii=False)})"
    if "\n" not in text and len(line) <= _WIDTH and isinstance(format, Struct):
        return line
    prefix = "r" if "\\" in text else ""
    body = text if isinstance(format, Avro) else _one_field_a_line(text)
    exempt = "  # noqa: E501" if max(map(len, body.splitlines())) > _WIDTH else ""
    return f'{name} = {kind}({prefix}"""\n{body}\n"""){exempt}'


def imported_names(formats: Iterable[Format | None], *, functions: bool) -> list[str]:
    """Return what a script with these formats imports from statemigrate.formats, sorted."""
    names: set[str] = {"Value"} if functions else set()
    for format in formats:
        names |= {"Avro", "Struct"} if format is None else {type(format).__name__}
    return sorted(names)


def _text(format: Format) -> str:
    if isinstance(format, Struct):
        return format.ddl
    # ASCII escapes keep characters out of the script that an editor would not show.
    return json.dumps(format.avro_schema, indent=2)


def _one_field_a_line(ddl: str) -> str:
    lines, depth, quoted = [""], 0, False
    for character in ddl:
        quoted ^= character == "`"
        depth += 0 if quoted else (character in "<(") - (character in ">)")
        lines[-1] += character
        if character == "," and depth == 0 and not quoted:
            lines.append("")
    return "\n".join(f"    {line.strip()}" for line in lines)
