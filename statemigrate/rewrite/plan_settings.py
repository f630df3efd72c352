"""Settings of a session that change what an expression computes, and not its name or its parts.

Spark takes some of them when it makes an expression, as the zone of a cast, and some when the
expression runs. Neither is in the text of a plan. Here an expression has the setting as a field of
its own, only where it makes a difference: ``spark.sql.ansi.enabled=false`` is a part of the text of
a cast from text to a number, and of none from a number to text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ANSI, ZONE = "spark.sql.ansi.enabled", "spark.sql.session.timeZone"
_PRECISION = "spark.sql.decimalOperations.allowPrecisionLoss"
_PARSER = "spark.sql.legacy.timeParserPolicy"
_MAP_KEYS = "spark.sql.mapKeyDedupPolicy"
_NULL_FIELDS = "spark.sql.jsonGenerator.ignoreNullFields"
_CORRUPT = "spark.sql.columnNameOfCorruptRecord"
_COMPLEX_TEXT = "spark.sql.legacy.castComplexTypesToString.enabled"
DEFAULTS: Mapping[str, str] = {
    ANSI: "true",
    _PRECISION: "true",
    _PARSER: "CORRECTED",
    _MAP_KEYS: "EXCEPTION",
    _NULL_FIELDS: "true",
    _CORRUPT: "_corrupt_record",
    _COMPLEX_TEXT: "false",
}
"""What Spark has unless a session says something else. No expression has a setting as it is here.

A zone has no such value: an expression that depends on it has the zone in any case.
"""
EFFECTS: Mapping[str, str] = {
    ANSI: "what overflows or cannot be converted fails the query with true, and is null or another "
    "number with false",
    ZONE: "days, hours and texts of times are those of the other zone",
    _PRECISION: "decimals are rounded at other places",
    _PARSER: "times are read and written by other rules",
    _MAP_KEYS: "a key that a map has twice fails the query, or has the last value",
    _NULL_FIELDS: "JSON text has fields that are null, or leaves them out",
    _CORRUPT: "text that cannot be read is in another field",
    _COMPLEX_TEXT: "arrays, maps and structs are other texts",
}
"""What each of the settings decides."""

_TRY = "try"
"""The field of an expression that is null where it would fail, as ``try_cast``."""
_ZONE_FIELD = "timeZoneId"
_MODES = ("evalMode", "evalContext")
_FAILS = ("failOnError", "ansiEnabled")
_LITERAL, _PYTHON = "Literal", "PythonUDF"
_CAST, _AVERAGE, _INTERVAL = "Cast", "Average", "TimestampAddInterval"
_PARSERS = ("JsonToStructs", "CsvToStructs", "XmlToStructs")
_WRITERS = ("StructsToJson", "StructsToCsv", "StructsToXml")
_FORMATTED = ("GetTimestamp", "UnixTimestamp", "ToUnixTimestamp", "DateFormatClass", "FromUnixTime")
_MAPS = (
    "CreateMap",
    "MapConcat",
    "MapFromArrays",
    "MapFromEntries",
    "StringToMap",
    "TransformKeys",
)
_OF_ARGUMENTS = (*_WRITERS, "Sequence", "Hour", "Minute", "Second", "SecondWithFraction")
"""Expressions to which the zone matters only if what they get has times."""
_ARITHMETIC = ("Add", "Subtract", "Multiply", "Divide", "Remainder", "Pmod", "IntegralDivide")
_NEVER_TOO_LARGE = ("Add", "Subtract", "Multiply", "Sum", _AVERAGE)
"""Expressions that do not fail for floating-point numbers."""
_LOOKED_AT = frozenset({*_MODES, *_FAILS, _ZONE_FIELD})
_OF_A_SETTING = frozenset({*_PARSERS, *_WRITERS, *_FORMATTED, *_MAPS, _PYTHON})
_MODE = re.compile(r"\b(LEGACY|ANSI|TRY)\b")
_DAYS = re.compile(r"day|week|month|year", re.IGNORECASE)
_ZONE_OPTION = re.compile(r"\btimezone\b", re.IGNORECASE)
_EVALUATOR = re.compile(r"(StructsTo(?:Json|Xml)Evaluator\(.*),Some\(([^()]+)\)\)")
"""An object of Spark's that writes text, as its plans have it in place of an expression."""
_TIMESTAMP = re.compile(r"\btimestamp\b")
_SPARK_TIMES = re.compile(r"\b(?:TimestampType|TimestampNTZType|DateType)\b")
_TIME = re.compile(r"\b(?:timestamp|timestamp_ntz|date)\b")
_OF_WINDOW = "precisetimestampconversion"
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_FLOATING = ("float", "double")
_PANDAS = frozenset({200, 201, 202, 203, 204, 205, 206})
"""PySpark's numbers of functions that get times without a zone, as they are in the session's."""
_DECIMAL = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")


def settings_of(session: Any) -> dict[str, str]:
    """The settings of a session of Spark's, as expressions may have them."""
    conf = session.conf()
    found = {name: str(conf.get(name, value)) for name, value in DEFAULTS.items()}
    made = {
        name: each.upper() if DEFAULTS[name].isupper() else each.lower()
        for name, each in found.items()
    }
    return {**made, ZONE: str(conf.get(ZONE)), _CORRUPT: found[_CORRUPT]}


def unset_settings(session: Any) -> frozenset[str]:
    """The settings that neither the code nor anybody else has set in a session of Spark's.

    They are what Spark has by itself, the zone that of the machine.
    """
    conf = session.sessionState().conf()
    return frozenset(name for name in EFFECTS if not conf.contains(name))


def depends_on_settings(node: Mapping[str, Any], name: str) -> bool:
    """Whether a setting may change what a node of an expression computes."""
    if name == _LITERAL:
        return _EVALUATOR.match(str(node.get("value"))) is not None
    return name in _OF_A_SETTING or not _LOOKED_AT.isdisjoint(node)


def fields_of_settings(
    node: Mapping[str, Any], name: str, java: Any, settings: Mapping[str, str]
) -> dict[str, Any]:
    """The fields of a node by which it depends on ``settings``.

    ``java`` is what Spark has there, None where that is not at hand: then the session's settings
    count.
    """
    if name == _LITERAL:
        return dict(_of_evaluator(str(node["value"]), settings))
    found: dict[str, Any] = {}
    mode = _mode(node, java, settings)
    if mode != "ANSI" and _may_fail(name, java):
        found |= {_TRY: True} if mode == "TRY" else {ANSI: "false"}
    if name in _ARITHMETIC and settings[_PRECISION] == "false" and _is_decimal(java):
        found[_PRECISION] = "false"
    if node.get(_ZONE_FIELD) and _needs_zone(node, name, java):
        found[ZONE] = node[_ZONE_FIELD]
    if settings[_PARSER] == "LEGACY" and (name in _FORMATTED or _has(_TIME, node, name, java)):
        found[_PARSER] = "LEGACY"
    if settings[_MAP_KEYS] != DEFAULTS[_MAP_KEYS] and name in _MAPS:
        found[_MAP_KEYS] = settings[_MAP_KEYS]
    if settings[_NULL_FIELDS] == "false" and name == "StructsToJson":
        found[_NULL_FIELDS] = "false"
    if settings[_CORRUPT] != DEFAULTS[_CORRUPT] and _has_corrupt(node, name, settings[_CORRUPT]):
        found[_CORRUPT] = settings[_CORRUPT]
    is_text = name == _CAST and node.get("dataType") == "string"
    if settings[_COMPLEX_TEXT] == "true" and is_text and "<" in _argument_types(java):
        found[_COMPLEX_TEXT] = "true"
    is_pandas = name == _PYTHON and node.get("evalType") in _PANDAS
    if is_pandas and _TIMESTAMP.search(_argument_types(java)):
        found[ZONE] = settings[ZONE]
    return found


def _has_corrupt(node: Mapping[str, Any], name: str, called: str) -> bool:
    """Whether a field of parsed text has the name of the one for what cannot be read."""
    if name not in _PARSERS or "columnNameOfCorruptRecord" in str(node.get("options")):
        return False
    names = {str(each["name"]) for each in _parsed_fields(node)}
    return not names.isdisjoint({called, DEFAULTS[_CORRUPT]})


def _parsed_fields(node: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    schema = node.get("schema")
    is_struct = isinstance(schema, Mapping) and schema.get("type") == "struct"
    return schema["fields"] if is_struct and schema is not None else ()


def _of_evaluator(text: str, settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The settings that an object which writes text depends on, from what Spark shows of it."""
    made = _EVALUATOR.match(text)
    if made is None:
        return
    if "TimestampType" in made[1] and not _ZONE_OPTION.search(made[1]):
        yield ZONE, made[2]
    if settings[_PARSER] == "LEGACY" and _SPARK_TIMES.search(made[1]):
        yield _PARSER, "LEGACY"
    is_json = made[1].startswith("StructsToJson")
    if settings[_NULL_FIELDS] == "false" and is_json and "ignoreNullFields" not in made[1]:
        yield _NULL_FIELDS, "false"


def _mode(node: Mapping[str, Any], java: Any, settings: Mapping[str, str]) -> str:
    """What a node does with a value that it has no result for, in Spark's word."""
    of_session = "ANSI" if settings[ANSI] == "true" else "LEGACY"
    for each in _MODES:
        if each in node:
            shown = None if java is None else _MODE.search(str(getattr(java, each)().toString()))
            return of_session if shown is None else shown[1]
    # One that never fails, whatever the session says, has the field too.
    is_set = any(node.get(each) is False for each in _FAILS)
    return of_session if is_set else "ANSI"


def _may_fail(name: str, java: Any) -> bool:
    """Whether there is a value for which a node has no result."""
    if java is None:
        return True
    if name == _CAST:
        return not _is_always_right(_argument_types(java), str(java.dataType().catalogString()))
    if name in _ARITHMETIC and _OF_WINDOW in str(java.toString()):
        return False  # a window's, of times that Spark can have
    return name not in _NEVER_TOO_LARGE or str(java.dataType().catalogString()) not in _FLOATING


def _is_always_right(old: str, new: str) -> bool:
    """Whether each value of a type, as Spark writes it, has one of another type."""
    if old == new or new in ("string", "binary") or new.startswith(("varchar", "char")):
        return True
    if old in _DIGITS and new in _DIGITS:
        return _DIGITS[old] <= _DIGITS[new]
    is_number = old in _DIGITS or old in _FLOATING or old.startswith("decimal")
    if new in _FLOATING or new == "boolean":
        return is_number or old == "boolean"
    return _fits(old, new) or all(_TIME.fullmatch(each) for each in (old, new))


def _fits(old: str, new: str) -> bool:
    """Whether each number of a type has a place in a type of decimals."""
    to_decimal, of_decimal = _DECIMAL.fullmatch(new), _DECIMAL.fullmatch(old)
    if to_decimal is None:
        return False
    whole, places = int(to_decimal[1]) - int(to_decimal[2]), int(to_decimal[2])
    if of_decimal is None:
        return whole >= _DIGITS.get(old, 99)
    # Rounded up, a number may have a digit more.
    is_rounded = int(of_decimal[2]) > places
    return whole >= int(of_decimal[1]) - int(of_decimal[2]) + is_rounded


def _argument_types(java: Any) -> str:
    """The types of what an expression gets; any type if that is not at hand."""
    if java is None:
        return "map<timestamp,date>"
    children = java.children()
    types = (children.apply(at).dataType().catalogString() for at in range(children.size()))
    return " ".join(map(str, types))


def _is_decimal(java: Any) -> bool:
    return java is None or str(java.dataType().catalogString()).startswith("decimal")


def _needs_zone(node: Mapping[str, Any], name: str, java: Any) -> bool:
    """Whether the zone of a node changes its result: Spark gives one to every cast."""
    if _ZONE_OPTION.search(str(node.get("options"))):
        return False
    if name in _PARSERS or name in _OF_ARGUMENTS:
        return _has(_TIMESTAMP, node, name, java)
    if name == "CurrentBatchTimestamp":
        return node.get("dataType") != "timestamp"
    if java is not None and name == _CAST:
        return bool(java.needsTimeZone())
    if java is not None and name == _INTERVAL:
        added = java.children().apply(1)
        is_constant = str(added.getClass().getSimpleName()) == _LITERAL
        return not is_constant or _DAYS.search(str(added.toString())) is not None
    return True


def _has(types: re.Pattern[str], node: Mapping[str, Any], name: str, java: Any) -> bool:
    """Whether text that a node reads or writes has values of some types."""
    if name in _PARSERS:
        return has_types(types, node.get("schema"))
    if name not in _OF_ARGUMENTS:
        return False
    return types.search(_argument_types(java)) is not None


def has_types(types: re.Pattern[str], spark: Any) -> bool:
    """Whether any of some ``types`` is in one as Spark's JSON has it."""
    match spark:
        case {"type": "struct", "fields": list(fields)}:
            return any(has_types(types, each["type"]) for each in fields)
        case {"type": "array", "elementType": element}:
            return has_types(types, element)
        case {"type": "map", "keyType": key, "valueType": value}:
            return has_types(types, key) or has_types(types, value)
    return not isinstance(spark, str) or types.search(spark) is not None


def for_schema(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an expression that parses text, without settings that its schema has no use of.

    The schema may be a part of the one that Spark has there.
    """
    needless = {
        name
        for name, types in ((ZONE, _TIMESTAMP), (_PARSER, _TIME))
        if not has_types(types, fields.get("schema"))
    }
    if _CORRUPT in fields and not _has_corrupt(fields, _PARSERS[0], str(fields[_CORRUPT])):
        needless.add(_CORRUPT)
    return {name: each for name, each in fields.items() if name not in needless}


# Settings in the texts of expressions.


_NAME = r"spark\.sql\.[A-Za-z.]+"
_IN_TEXT = re.compile(rf"(?:, )?\b({_NAME})=([^,()]*)")
_IN_JSON = re.compile(rf'\\*"({_NAME})\\*":\\*"([^"\\]*)\\*",?')
_ZONE_IN_TEXT = re.compile(rf"(?:, )?\b{_ZONE_FIELD}=([^,()]*)")
_ZONE_IN_JSON = re.compile(rf'\\*"{_ZONE_FIELD}\\*":\\*"([^"\\]*)\\*",?')
_EVALUATOR_ZONE = re.compile(
    r"(StructsTo(?:Json|Xml)Evaluator\([^']*?),Some\([A-Za-z0-9_/+:-]+\)\)"
)
_TRY_FIELD = re.compile(rf'(?:, )?\b{_TRY}=True|\\*"{_TRY}\\*":true,?')
_FAILS_FIELD = re.compile(
    rf"(?:, )?\b(?:{'|'.join(_FAILS)})=(?:True|False)"
    rf'|\\*"(?:{"|".join(_FAILS)})\\*":(?:true|false),?'
)


def settings_in(text: str) -> Iterator[tuple[str, str]]:
    """The settings in the text of an expression, each by its name with its value, in their order.

    Texts of format 1 and 2 have none of them.
    """
    for pattern in (_IN_TEXT, _IN_JSON):
        yield from ((found[1], found[2]) for found in pattern.finditer(text))


def zones_in(text: str) -> set[str]:
    """The zones in the text of an expression, also those that make no difference."""
    return {
        each[1] for pattern in (_ZONE_IN_TEXT, _ZONE_IN_JSON) for each in pattern.finditer(text)
    }


def without_settings(text: str) -> str:
    """The text of an expression as one has it that says nothing of settings."""
    return _without(text, _IN_TEXT, _IN_JSON)


def in_any_session(text: str, *, of_any_mode: bool, with_try: bool) -> str:
    """The text of an expression, the same in whichever session it is.

    ``of_any_mode`` leaves out too whether it fails, and without ``with_try`` whether it is null
    where it would.
    """
    text = _EVALUATOR_ZONE.sub(r"\1)", text)
    patterns = [_IN_TEXT, _IN_JSON, _ZONE_IN_TEXT, _ZONE_IN_JSON]
    patterns += [_FAILS_FIELD] if of_any_mode else []
    patterns += [] if with_try else [_TRY_FIELD]
    return _without(text, *patterns)


def _without(text: str, *patterns: re.Pattern[str]) -> str:
    made = text
    for each in patterns:
        made = each.sub("", made)
    return text if made == text else made.replace("(, ", "(").replace(",}", "}")
