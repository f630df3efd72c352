"""Writing Python source safely: literals, names, comments, formats.

What a field gets that has no value yet: None, the Avro default, or a zero of its type.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any
from unicodedata import normalize

from statemigrate.formats import Avro, Format, Struct
from statemigrate.formats.schema import (
    Array,
    Decimals,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    accepts_none,
    plain_default,
    without_none,
)
from statemigrate.quoting import visible, visible_lines

# The one writer of comments in generated scripts.
#
# What a comment says has names of fields in it, which come from checkpoints: a line break in one
# would make code of what follows.


def comment(text: str, longest: int | None = None) -> str:
    """Return a comment on one line, with escapes for what nobody sees; cut off where it is long."""
    line = f"# {visible(text)}"
    return line if longest is None or len(line) <= longest else f"{line[: longest - 3]}..."


# Lays out source code: one entry a line. How long a line may be is for the team's formatter.
#
# A document is text, several documents in a row, or one of the marks below.


STEP = 4
_COMMENT = 100


@dataclass(frozen=True)
class Break:
    """A line break."""


@dataclass(frozen=True)
class Indent:
    """Lines inside are indented one step more."""

    body: Doc


@dataclass(frozen=True)
class Comment:
    """What a comment says, with ``more`` at its end where there is room: no formatter folds one."""

    text: str
    more: str = ""


Doc = str | Comment | tuple["Doc", ...] | Break | Indent


def render(doc: Doc, margin: int = 0) -> str:
    """Return a document's text, its lines but the first indented by ``margin``."""
    match doc:
        case str():
            return doc
        case Comment():
            return _comment(doc, _COMMENT - margin)
        case Break():
            return f"\n{' ' * margin}"
        case Indent():
            return render(doc.body, margin + STEP)
    return "".join(render(each, margin) for each in doc)


def _comment(given: Comment, room: int) -> str:
    whole = comment(given.text + given.more)
    return whole if len(whole) <= room else comment(given.text, room)


# Plain values as Python source: the one writer of literals in generated scripts.
#
# Names and values come from checkpoints. None may end the literal that it stands in.


def quoted(text: str, *, readable: bool = False) -> str:
    """Return a string literal on one line, with the quotes that ``ruff format`` prefers.

    It is in ASCII; if ``readable``, letters and signs that can be seen are kept.
    """
    escaped = "".join(map(_readable, text)) if readable else _ascii(text)
    return _in_quotes(escaped, text.count('"') > text.count("'"))


def block(text: str) -> str | None:
    """Return a literal in which the lines of a text stand as they are, between blank ends.

    None for a text that would then say something else, or has what nobody sees.
    """
    if '"""' in text or not all(each.isprintable() for each in text.split("\n")):
        return None
    prefix = "r" if "\\" in text else ""
    return f'{prefix}"""\n{text}\n"""'


def in_docstring(text: str) -> str:
    """Return what, between three quotes, is a text in which an escape shows what nobody sees."""
    lines = "\n".join(visible_lines(text)).replace("\\", "\\\\").replace('"""', "'''")
    return f'{lines[:-1]}\\"' if lines.endswith('"') else lines


def leaf_literal(value: Any) -> str:  # noqa: PLR0911  # one a kind of value
    """Return the literal, or the call, that makes a plain value with no values inside."""
    match value:
        case str():
            return quoted(value)
        case bytes():
            return _bytes(value)
        case float() if not isfinite(value):
            return f'float("{value}")'
        case Decimal():
            return f"Decimal({value})" if value == 0 == value.as_tuple().exponent else _quote(value)
        case datetime():
            return _datetime(value)
        case date():
            return f"date({value.year}, {value.month}, {value.day})"
        case timedelta():
            return f"timedelta({value.days}, {value.seconds}, {value.microseconds})"
        case time():
            return f'time.fromisoformat("{value}")' if value != time() else "time()"
    return repr(value)


def _quote(value: Decimal) -> str:
    return f'Decimal("{value:f}")'


def _bytes(value: bytes) -> str:
    if value and not any(value):
        return f"bytes({len(value)})"
    return f"b{quoted(value.decode('ascii'))}" if value.isascii() else _hex(value)


def _hex(value: bytes) -> str:
    return f'bytes.fromhex("{value.hex()}")'


def _datetime(value: datetime) -> str:
    zone = "" if value.tzinfo is None else "tzinfo=UTC"
    if value.time() == time():
        parts = [str(value.year), str(value.month), str(value.day), zone]
        return f"datetime({', '.join(part for part in parts if part)})"
    return f'datetime.fromisoformat("{value.isoformat()}")'


def _ascii(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


def _readable(character: str) -> str:
    is_kept = character.isprintable() and character != "\\"
    return character if is_kept else _ascii(character)


def _in_quotes(escaped: str, single: bool) -> str:
    quote = "'" if single else '"'
    return quote + escaped.replace(quote, f"\\{quote}") + quote


# Python expressions as documents.


@dataclass(frozen=True)
class LiteralEntry:
    """One field of a dict literal, under the questions about it."""

    name: str
    value: Doc
    questions: tuple[Doc, ...] = ()


def item_of(base: Doc, name: str) -> Doc:
    """``base["name"]``."""
    return (base, "[", quoted(name), "]")


def call(function: Doc, *arguments: Doc) -> Doc:
    """``function(argument, ...)``."""
    parted = tuple(part for each in arguments for part in (", ", each))
    return (function, "(", *parted[1:], ")")


def unless_none(subject: Doc, instead: Doc, value: Doc) -> Doc:
    """``instead if subject is None else value``."""
    return (instead, " if ", subject, " is None else ", value)


def list_of(value: Doc, each: str, items: Doc) -> Doc:
    """``[value for each in items]``."""
    return ("[", value, f" for {each} in ", items, "]")


def assigned_or_empty(variable: str, value: Doc) -> Doc:
    """``variable = value or {}``, a line of a function's own body."""
    return (variable, " = ", value, " or {}")


def dict_of(value: Doc, each: str, items: Doc) -> Doc:
    """``{key: value for key, each in items.items()}``."""
    return ("{key: ", value, f" for key, {each} in ", items, ".items()}")


def dict_literal(entries: Sequence[LiteralEntry], remarks: Sequence[Doc] = ()) -> Doc:
    """``{"name": value, ...}``, one line a field, and below them ``remarks``, comments."""
    lines = [line for entry in entries for line in _entry(entry)]
    return _lines("{", [*lines, *remarks], "}")


def list_literal(items: Sequence[Doc]) -> Doc:
    """``[item, ...]``, one line an item."""
    return _lines("[", ((item, ",") for item in items), "]")


def _entry(entry: LiteralEntry) -> list[Doc]:
    return [*entry.questions, (f"{quoted(entry.name)}: ", entry.value, ",")]


def _lines(start: str, lines: Iterable[Doc], end: str) -> Doc:
    body = tuple((Break(), line) for line in lines)
    return (start, Indent(body), Break(), end) if body else start + end


_LEAVES: dict[str, Any] = {
    "boolean": False,
    "int": 0,
    "long": 0,
    "float": 0.0,
    "double": 0.0,
    "string": "",
    "bytes": b"",
    "null": None,
    "date": date(1970, 1, 1),
    "time-micros": time(),
    "day-time-interval": timedelta(0),
    "year-month-interval": 0,
    "timestamp-millis": datetime(1970, 1, 1, tzinfo=UTC),
    "timestamp-micros": datetime(1970, 1, 1, tzinfo=UTC),
    "local-timestamp-millis": datetime(1970, 1, 1),
    "local-timestamp-micros": datetime(1970, 1, 1),
}


def default_of(field: Field) -> Doc:
    """Return a field's Avro default, or None if it holds that, or a zero value."""
    return literal(filling(field))


def zero_of(field: Field) -> Doc:
    """Return what stands in for None in a field that does not hold it."""
    return literal(_default(field) if field.has_default else _zero(without_none(field.type)))


def zero_item(node: Node) -> Doc:
    """Return what stands in for None among the items of a list or map."""
    return literal(_zero(node))


def literal(value: Any) -> Doc:
    """Return a plain value as source; dicts and lists take one line an item."""
    if isinstance(value, dict):
        return dict_literal([LiteralEntry(name, literal(each)) for name, each in value.items()])
    if isinstance(value, list):
        return list_literal([literal(each) for each in value])
    return leaf_literal(value)


def filling(field: Field) -> Any:
    """Return the plain value that `default_of` is the source of."""
    if field.has_default:
        return _default(field)
    return None if accepts_none(field.type) else _zero(field.type)


def _default(field: Field) -> Any:
    return plain_default(field.type, field.default)


def _zero(node: Node) -> Any:  # noqa: PLR0911  # one a kind of node
    match without_none(node):
        case Record() as record:
            return {field.name: filling(field) for field in record.fields}
        case Array():
            return []
        case Map():
            return {}
        case Enum() as enum:
            return enum.default or enum.symbols[0]
        case Primitive(decimals=Decimals() as d) | Fixed(decimals=Decimals() as d):
            return Decimal(0).scaleb(-d.scale)
        case Fixed() as fixed:
            return bytes(fixed.size)
        case Primitive() as leaf:
            return _LEAVES[leaf.logical or leaf.type]
        case union:
            return _zero(union.branches[0])


# Formats as the Python source of a script.


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


# The one writer of names of functions and variables in generated scripts.


def identifier(text: str) -> str:
    """Return what, behind a letter or an underscore, is part of a name in Python.

    It is in small letters, and as Python itself takes it: two texts that differ only in what
    Python makes the same are the same here.
    """
    whole = normalize("NFKC", text.lower())
    kept = "".join(each if f"_{each}".isidentifier() else "_" for each in whole)
    return normalize("NFKC", kept)
