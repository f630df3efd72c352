"""Formats as the Python source of a script."""

from __future__ import annotations

import json
from collections.abc import Iterable

from statemigrate.formats import Avro, Format, Struct
from statemigrate.scripts.source.literals import block, quoted

_WIDTH = 100


def assignment(name: str, format: Format | None) -> str:
    """Return the line or lines that assign ``format`` to ``name``, left open if it is None.

    Written as ``ruff format`` would leave them.
    """
    if format is None:
        return f"{name}: Avro | Struct = ..."
    kind = "Avro" if isinstance(format, Avro) else "Struct"
    text = _text(format)
    line = f"{name} = {kind}({quoted(text, readable=True)})"
    if len(line) <= _WIDTH and isinstance(format, Struct):
        return line
    body = text if isinstance(format, Avro) else "\n".join(f"    {f}" for f in _fields_of(text))
    literal = block(body)
    if literal is not None:
        exempt = _exempt(max(map(len, body.split("\n"))))
        return f"{name} = {kind}({literal}){exempt}"
    # A name with what nobody sees stands in a literal of its field's own.
    lines = [f"    {quoted(part, readable=True)}" for part in _parts(text)]
    return "\n".join([f"{name} = {kind}(", *(f"{each}{_exempt(len(each))}" for each in lines), ")"])


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


def _exempt(width: int) -> str:
    return "  # noqa: E501" if width > _WIDTH else ""


def _parts(ddl: str) -> list[str]:
    """A text in parts that end where a field does."""
    fields = _fields_of(ddl)
    return [*(f"{field} " for field in fields[:-1]), fields[-1]]


def _fields_of(ddl: str) -> list[str]:
    lines, depth, quoted = [""], 0, False
    for character in ddl:
        quoted ^= character == "`"
        depth += 0 if quoted else (character in "<(") - (character in ">)")
        lines[-1] += character
        if character == "," and depth == 0 and not quoted:
            lines.append("")
    return [line.strip(" ") for line in lines]
