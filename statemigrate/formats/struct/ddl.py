"""Spark's DDL for struct types, read and written without Java.

The grammar is Spark's ``colTypeList`` and ``dataType``. SQL parsers at large take types that Spark
has not (TEXT, UINT), and refuse field names that it allows (``order``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NoReturn, cast

from statemigrate.errors import FormatError
from statemigrate.formats.schema import COLLATED, as_spark_writes, too_deep

# The words of Spark's DDL, and where each stands.


Kind = Literal["word", "name", "text", "sign"]
_WORDS = re.compile(
    r"""
      (?P<skipped> \s+ | --[^\r\n]* | /\*(?:(?!/\*).)*?\*/ )
    | (?P<word> \w+ )
    | (?P<name> `(?:[^`]|``)*` )
    | (?P<text> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
    | (?P<sign> <> | . )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Word:
    """A word as it is written, a quoted ``name`` or ``text``, or a ``sign``; ``end`` is past it."""

    kind: Kind
    text: str
    start: int
    end: int


def words_of(text: str) -> list[Word]:
    """Split a text; comments and blanks are left out, a quoted name is without its quotes."""
    found = []
    for match in _WORDS.finditer(text):
        kind = match.lastgroup
        if kind == "name":
            name = match[0][1:-1].replace("``", "`")
            found.append(Word("name", name, match.start(), match.end()))
        elif kind != "skipped":
            found.append(Word(cast(Kind, kind), match[0], match.start(), match.end()))
    return found


def without_not_null(text: str) -> Iterator[tuple[Kind, str]]:
    """The words of a DDL, without NOT NULL."""
    words = words_of(text)
    for at, word in enumerate(words):
        both = [(each.kind, each.text.upper()) for each in words[max(0, at - 1) : at + 2]]
        if (("word", "NOT"), ("word", "NULL")) not in pairwise(both):
            yield word.kind, word.text


def quoted(name: str) -> str:
    """A name in quotes, as Spark takes one that has any characters."""
    return "`" + name.replace("`", "``") + "`"


_ATOMIC = {
    "BOOLEAN": "boolean",
    "TINYINT": "byte",
    "BYTE": "byte",
    "SMALLINT": "short",
    "SHORT": "short",
    "INT": "integer",
    "INTEGER": "integer",
    "BIGINT": "long",
    "LONG": "long",
    "FLOAT": "float",
    "REAL": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamp",
    "TIMESTAMP_NTZ": "timestamp_ntz",
    "VOID": "void",
    "VARIANT": "variant",
}
_DECIMAL = ("DECIMAL", "DEC", "NUMERIC")
_BOUNDED = {"CHAR": "char", "CHARACTER": "char", "VARCHAR": "varchar"}
_EMPTY = re.compile(r"\s*struct\s*<\s*>\s*", re.IGNORECASE)
_UNITS = (("DAY", "HOUR", "MINUTE", "SECOND"), ("YEAR", "MONTH"))
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMES = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
}


def parse_ddl(text: str) -> dict[str, Any]:
    """Return the struct type of ``text`` in Spark's JSON form.

    Raises FormatError with the line and column of the first word that does not fit.
    """
    if _EMPTY.fullmatch(text):
        return {"type": "struct", "fields": []}
    try:
        struct = _Parser(text).struct()
    except RecursionError as error:
        raise too_deep() from error
    stored: dict[str, Any] = as_spark_writes(struct)
    return stored


def ddl_of(struct: dict[str, Any]) -> str:
    """Return the DDL of a struct type in Spark's JSON form, collations within the types."""
    if not struct["fields"]:
        return "struct<>"
    return ", ".join(_field_ddl(field, " ") for field in struct["fields"])


def _field_ddl(field: dict[str, Any], separator: str) -> str:
    suffix = "" if field["nullable"] else " NOT NULL"
    name = field["name"]
    written = name if _PLAIN.fullmatch(name) else quoted(name)
    return f"{written}{separator}{_type_ddl(field['type'])}{suffix}"


def _type_ddl(spark: Any) -> str:
    if isinstance(spark, str):
        collation = spark.removeprefix(COLLATED)
        if collation != spark:
            return f"STRING COLLATE {collation}"
        return _NAMES.get(spark, spark.upper())
    if spark["type"] == "array":
        return f"ARRAY<{_type_ddl(spark['elementType'])}>"
    if spark["type"] == "map":
        return f"MAP<{_type_ddl(spark['keyType'])}, {_type_ddl(spark['valueType'])}>"
    return f"STRUCT<{', '.join(_field_ddl(field, ': ') for field in spark['fields'])}>"


class _Parser:
    """One pass over the words of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.words = words_of(text)

    def struct(self) -> dict[str, Any]:
        if self._word() == "STRUCT" and self._word(1) in ("<", "<>"):
            struct: dict[str, Any] = self._type()
        else:
            struct = self._fields()
        if self.position < len(self.words):
            self._fail("a comma or the end")
        return struct

    def _fields(self) -> dict[str, Any]:
        fields = [self._field()]
        while self._take(","):
            fields.append(self._field())
        return {"type": "struct", "fields": fields}

    def _field(self) -> dict[str, Any]:
        name = self._name()
        self._take(":")
        spark = self._type()
        nullable = not self._take("NOT")
        if not nullable:
            self._expect("NULL")
        if self._take("COMMENT"):
            self._comment()
        return {"name": name, "type": spark, "nullable": nullable, "metadata": {}}

    def _name(self) -> str:
        found = self._next()
        if found is None or found.kind not in ("word", "name"):
            self._fail("a field name")
        self.position += 1
        return found.text

    def _comment(self) -> None:
        if not self._take_text():
            self._fail("a comment in quotes")
        while self._take_text():
            pass

    def _take_text(self) -> bool:
        found = self._next()
        if found is None or found.kind != "text":
            return False
        self.position += 1
        return True

    def _type(self) -> Any:  # noqa: PLR0911  # one a kind of type
        word = self._word()
        if word in _ATOMIC:
            self.position += 1
            return self._collated() if word == "STRING" else _ATOMIC[word]
        if word == "INTERVAL":
            return self._interval()
        if word in _DECIMAL:
            return self._decimal()
        if word == "TIME":
            return f"time({(self._arguments() or [6])[0]})"
        if word in _BOUNDED:
            return self._bounded(_BOUNDED[word])
        if word in ("ARRAY", "MAP", "STRUCT"):
            return self._nested(word)
        return self._fail("a type of Spark's")

    def _collated(self) -> str:
        if not self._take("COLLATE"):
            return "string"
        name = self._word()
        if not name.replace("_", "a").isalnum():
            self._fail("the name of a collation")
        self.position += 1
        return "string" if name == "UTF8_BINARY" else COLLATED + name

    def _interval(self) -> str:
        self.position += 1
        units = next((each for each in _UNITS if self._word() in each), None)
        if units is None:
            self._fail("DAY, HOUR, MINUTE, SECOND, YEAR or MONTH")
        start = end = self._unit(units)
        if self._take("TO"):
            end = self._unit(units[units.index(start) + 1 :])
        words = start if start == end else f"{start} TO {end}"
        return f"interval {words.lower()}"

    def _unit(self, units: tuple[str, ...]) -> str:
        unit = self._word()
        if unit not in units:
            self._fail(f"one of {', '.join(units)}" if units else "no smaller unit")
        self.position += 1
        return unit

    def _decimal(self) -> str:
        arguments = self._arguments()
        if len(arguments) > 2:
            self._fail("DECIMAL(precision, scale)")
        precision, scale = [*arguments, *(10, 0)[len(arguments) :]]
        return f"decimal({precision},{scale})"

    def _bounded(self, name: str) -> str:
        arguments = self._arguments()
        if len(arguments) != 1:
            self._fail("a length in parentheses")
        return f"{name}({arguments[0]})"

    def _arguments(self) -> list[int]:
        """Read the numbers in parentheses after a type's name, if there are any."""
        self.position += 1
        numbers: list[int] = []
        if self._take("("):
            while not numbers or self._take(","):
                numbers.append(self._number())
            self._expect(")")
        return numbers

    def _number(self) -> int:
        text = self._word()
        if not text.isdecimal():
            self._fail("a whole number")
        self.position += 1
        return int(text)

    def _nested(self, word: str) -> dict[str, Any]:
        self.position += 1
        if word == "STRUCT" and self._take("<>"):
            return {"type": "struct", "fields": []}
        self._expect("<")
        if word == "STRUCT":
            struct = self._fields()
            self._expect(">")
            return struct
        first = self._type()
        if word == "ARRAY":
            self._expect(">")
            return {"type": "array", "elementType": first, "containsNull": True}
        self._expect(",")
        second = self._type()
        self._expect(">")
        return {"type": "map", "keyType": first, "valueType": second, "valueContainsNull": True}

    def _next(self, ahead: int = 0) -> Word | None:
        index = self.position + ahead
        return self.words[index] if index < len(self.words) else None

    def _word(self, ahead: int = 0) -> str:
        found = self._next(ahead)
        # A quoted word is never a keyword.
        quoted = found is None or found.kind in ("name", "text")
        return "" if found is None or quoted else found.text.upper()

    def _take(self, word: str) -> bool:
        if self._word() != word:
            return False
        self.position += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._take(word):
            self._fail(repr(word))

    def _fail(self, expected: str) -> NoReturn:
        word = self._next()
        start = word.start if word else len(self.text)
        before = self.text[:start]
        line, column = before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1
        found = repr(self.text[start : word.end]) if word else "the end of the text"
        raise _error(self.text, expected, f"{found} at line {line}, column {column}")


def _error(text: str, expected: str, found: str) -> FormatError:
    return FormatError(
        "SM-FORMAT-013",
        f"Not the DDL of a struct type: {text!r:.200}",
        expected=expected,
        found=found,
        next_action="correct it there; the form is \"name TYPE [NOT NULL] [COMMENT '...'], ...\"",
    )
