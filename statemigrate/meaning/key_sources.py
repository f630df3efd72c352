"""What new keys are of old ones, and what two values make, as far as the code of both tells.

An expression of new code over what the old code had as a column of its keys is written as Python
that computes the same. Only such expressions are translated whose results are the same for every
value: tests compare each with Spark's own. What is not known is left to the author of a script.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statemigrate.meaning.plan_items import computation, key_text
from statemigrate.rewrite import (
    ATTRIBUTE,
    LITERAL,
    AggregateFunction,
    KeyMeaning,
    PlanExpression,
    TimeWindow,
    is_hidden,
    without_settings,
)
from statemigrate.scripts import ColumnSource, Merging, quoted

_INTEGERS = ("byte", "short", "integer", "long")
_STRING = "string"
_WHOLE = 2**31 - 1
"""The length that Spark gives to a part of text that goes to its end."""
_NUMBER = re.compile(r"'-?[0-9]+': long")
_UTC = ("UTC", "Etc/UTC", "Z", "GMT")
_UNITS = (("days", 86_400_000_000), ("hours", 3_600_000_000), ("minutes", 60_000_000))


@dataclass(frozen=True)
class _Python:
    """An expression as Python's ``source``, of Spark's type ``kind``.

    It is null where any of ``nullable``, expressions too, is; and never else.
    """

    source: str
    kind: str
    nullable: tuple[str, ...] = ()

    @property
    def whole(self) -> str:
        """The source with what it gives for null."""
        if not self.nullable or self.nullable == (self.source,):
            return self.source
        conditions = " or ".join(f"{each} is None" for each in self.nullable)
        return f"None if {conditions} else {self.source}"


def key_sources(
    old: Sequence[KeyMeaning] | None,
    new: Sequence[KeyMeaning],
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
) -> dict[str, ColumnSource]:
    """What each column of new keys is, by its name; empty where the code does not tell it.

    ``before`` and ``after`` are the fields of both keys, in the order of ``old`` and ``new``. Of
    old code that is not known, None, a column is taken for what its name says, with a question.
    """
    is_whole = len(new) == len(after) and (old is None or len(old) == len(before))
    if not is_whole or any(each.tree is None for each in new):
        return {}
    translation = _Translation(_known_columns(old, before))
    found = {}
    for meaning, column in zip(new, after, strict=True):
        of_window = _window_source(old or (), meaning, before, column)
        found[column["name"]] = of_window or _source(translation, meaning, column, old is None)
    return found


def _known_columns(
    old: Sequence[KeyMeaning] | None, before: Sequence[Mapping[str, Any]]
) -> dict[str, tuple[str, Any]]:
    """The name and the type of each old column, by what it is computed from."""
    texts = [each.expression for each in old] if old is not None else [e["name"] for e in before]
    return {
        without_settings(text): (column["name"], column["type"])
        for text, column in zip(texts, before, strict=True)
        if not is_hidden(text)
    }


def _source(
    translation: _Translation, meaning: KeyMeaning, column: Mapping[str, Any], is_guess: bool
) -> ColumnSource:
    name, kind, tree = column["name"], column["type"], meaning.tree
    assert tree is not None, "asked before"  # noqa: S101
    same = translation.known(tree)
    if same is not None and same[1] == kind:
        return ColumnSource(f"key[{quoted(same[0])}]", column=same[0])
    made = translation.of(tree)
    computed = computation(meaning.expression)
    if made is None or made.kind != kind:
        shown = kind if isinstance(kind, str) else kind["type"]
        return ColumnSource(
            "", f"what is the `{name}` ({shown}) of an old key? It is now {computed}"
        )
    asked = f"is `{name}` of an old key {computed}, as the columns' names say?" if is_guess else ""
    return ColumnSource(made.whole, asked)


def _window_source(
    old: Sequence[KeyMeaning],
    new: KeyMeaning,
    before: Sequence[Mapping[str, Any]],
    column: Mapping[str, Any],
) -> ColumnSource | None:
    """The window that an old one is a part of, or the old one itself where there is not one such.

    None for a column that is no window, and for one that the old key has as it is.
    """
    for meaning, was in zip(old, before, strict=False):
        one, other = meaning.window, new.window
        if one is None or other is None or one == other or was["type"] != column["type"]:
            continue
        source = f"key[{quoted(was['name'])}]"
        if isinstance(one, TimeWindow) and isinstance(other, TimeWindow):
            fits = (
                one.is_tumbling
                and other.is_tumbling
                and not (other.length % one.length or one.offset or other.offset)
                and _times_of(meaning.expression) == _times_of(new.expression)
            )
            if fits:
                return ColumnSource(f"window_around({source}, {_length(other.length)})")
        asked = f"may rows stay under {one.text}, where the new code makes {other.text}?"
        return ColumnSource(source, asked, was["name"])
    return None


def _times_of(expression: str) -> str:
    """What a window's expression is, but for its numbers: of one column of time they are alike."""
    return _NUMBER.sub("", expression)


def _length(micros: int) -> str:
    """A length as `window_around` takes it."""
    for name, size in _UNITS:
        if micros % size == 0:
            return f"{name}={micros // size}"
    return f"seconds={micros / 1_000_000:g}"


class _Translation:
    """Writes expressions over known ``columns`` as Python.

    These are names and types by the text of what they are computed from.
    """

    def __init__(self, columns: Mapping[str, tuple[str, Any]]) -> None:
        self.columns = columns

    def known(self, tree: PlanExpression) -> tuple[str, Any] | None:
        """The name and the type of the column that an expression is; None where it is none."""
        return self.columns.get(without_settings(tree.text))

    def of(self, tree: PlanExpression) -> _Python | None:
        """An expression in Python; None where it is not one of those that are known."""
        known = self.known(tree)
        if known is not None:
            name, kind = known
            source = f"key[{quoted(name)}]"
            return _Python(source, kind, (source,)) if isinstance(kind, str) else None
        if tree.name == LITERAL:
            return _literal(tree)
        if tree.name == ATTRIBUTE or tree.name not in _TRANSLATED:
            return None
        parts = [self.of(each) for each in tree.children]
        if None in parts:
            return None
        return _TRANSLATED[tree.name](tree, [each for each in parts if each is not None])


def _literal(tree: PlanExpression) -> _Python | None:
    kind = tree.fields.get("dataType")
    if tree.value is None:
        return None
    if kind == _STRING:
        return _Python(quoted(str(tree.value)), _STRING)
    return _Python(str(int(tree.value)), kind) if kind in _INTEGERS else None


def _nullable(*parts: _Python) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for part in parts for each in part.nullable))


def _of_text(method: str, argument: str = "") -> Callable[[PlanExpression, list[_Python]], Any]:
    """A function of one text that is a method of Python's."""

    def translated(tree: PlanExpression, parts: list[_Python]) -> _Python | None:  # noqa: ARG001
        if [each.kind for each in parts] != [_STRING]:
            return None
        source = f"{_operand(parts[0])}.{method}({argument})"
        return _Python(source, _STRING, parts[0].nullable)

    return translated


def _operand(part: _Python) -> str:
    """A source as a part of a larger one."""
    is_simple = not (" + " in part.source or " if " in part.source or " % " in part.source)
    return part.source if is_simple else f"({part.source})"


def _length_of(tree: PlanExpression, parts: list[_Python]) -> _Python | None:  # noqa: ARG001
    if [each.kind for each in parts] != [_STRING]:
        return None
    return _Python(f"len({parts[0].source})", "integer", parts[0].nullable)


def _substring(tree: PlanExpression, parts: list[_Python]) -> _Python | None:
    place, length = (_number(each) for each in tree.children[1:])
    if parts[0].kind != _STRING or place is None or length is None or place < 0 or length < 0:
        return None
    first = max(place - 1, 0)
    begin, end = str(first) if first else "", "" if length >= _WHOLE else str(first + length)
    return _Python(f"{_operand(parts[0])}[{begin}:{end}]", _STRING, parts[0].nullable)


def _number(tree: PlanExpression) -> int | None:
    """A whole number that stands in the code."""
    is_number = tree.name == LITERAL and tree.fields.get("dataType") == "integer"
    return int(tree.value) if is_number and tree.value is not None else None


def _concat(tree: PlanExpression, parts: list[_Python]) -> _Python | None:  # noqa: ARG001
    if not parts or any(each.kind != _STRING for each in parts):
        return None
    return _Python(" + ".join(map(_operand, parts)), _STRING, _nullable(*parts))


def _coalesce(tree: PlanExpression, parts: list[_Python]) -> _Python | None:  # noqa: ARG001
    if len(parts) != 2 or parts[1].nullable or parts[0].kind != parts[1].kind:
        return None
    first, instead = parts
    if not first.nullable:
        return first
    conditions = " or ".join(f"{each} is None" for each in first.nullable)
    return _Python(f"{instead.source} if {conditions} else {first.source}", first.kind)


def _cast(tree: PlanExpression, parts: list[_Python]) -> _Python | None:
    (part,), kind = parts, tree.fields.get("dataType")
    if part.kind == kind:
        return part
    if part.kind in _INTEGERS and kind == _STRING:
        return _Python(f"str({part.source})", _STRING, part.nullable)
    if part.kind in _INTEGERS and kind in _INTEGERS:
        is_wider = _INTEGERS.index(part.kind) < _INTEGERS.index(kind)
        return _Python(part.source, kind, part.nullable) if is_wider else None
    if part.kind == "timestamp" and kind == "date" and tree.fields.get("timeZoneId") in _UTC:
        return _Python(f"{_operand(part)}.date()", "date", part.nullable)
    return None


def _pmod(tree: PlanExpression, parts: list[_Python]) -> _Python | None:
    divisor = tree.children[1]
    is_known = divisor.name == LITERAL and parts[1].kind in _INTEGERS and int(divisor.value) > 0
    if not is_known or parts[0].kind != parts[1].kind:
        return None
    return _Python(f"{_operand(parts[0])} % {parts[1].source}", parts[0].kind, _nullable(*parts))


_TRANSLATED: Mapping[str, Callable[[PlanExpression, list[_Python]], _Python | None]] = {
    "Upper": _of_text("upper"),
    "Lower": _of_text("lower"),
    "StringTrim": _of_text("strip", '" "'),
    "StringTrimLeft": _of_text("lstrip", '" "'),
    "StringTrimRight": _of_text("rstrip", '" "'),
    "Substring": _substring,
    "Length": _length_of,
    "Concat": _concat,
    "Coalesce": _coalesce,
    "Cast": _cast,
    "Pmod": _pmod,
}


# What two values make whose new keys are the same, and what a value goes on as.


_ORDERED = (*_INTEGERS, _STRING, "date", "timestamp", "timestamp_ntz", "boolean")
"""Types whose values Python orders as Spark does: not those with numbers that are not one."""


def merging_of(
    functions: Sequence[AggregateFunction], fields: Sequence[Mapping[str, Any]]
) -> dict[str, Merging]:
    """What two values make, by the names of their fields, as far as functions tell it.

    ``fields`` are those of a value, which has the buffers of the functions in their order.
    """
    kept = [(each, place) for each in functions for place in range(len(each.fields))]
    if len(kept) != len(fields):
        return {}
    found = {}
    for (function, place), field in zip(kept, fields, strict=True):
        rule = _merging(function, place)
        if rule is not None:
            found[field["name"]] = rule
    return found


def _merging(function: AggregateFunction, place: int) -> Merging | None:
    kinds = [kind for _, kind in function.fields]
    match function.function:
        case "Count":
            return "add"
        case "Sum" if kinds in (["long"], ["double"]):
            return "add unless null"
        case "Average" if kinds == ["double", "long"]:
            return "add" if place else "add unless null"
        case "Min" if kinds[0] in _ORDERED:
            return "least"
        case "Max" if kinds[0] in _ORDERED:
            return "greatest"
    return None


def function_questions(
    old: Sequence[AggregateFunction],
    new: Sequence[AggregateFunction],
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    """What to ask where a field has the name of an old one, and is of another function."""
    was, now = _by_field(old, before), _by_field(new, after)
    for name, function in now.items():
        if name in was and (
            was[name].in_any_session().meaning != function.in_any_session().meaning
        ):
            yield f"does `{name}`, which was {was[name].text}, go on as {function.text}?"


def _by_field(
    functions: Sequence[AggregateFunction], fields: Sequence[Mapping[str, Any]]
) -> dict[str, AggregateFunction]:
    """The functions by the names of their first fields; none where these are not all the fields."""
    found, at = {}, 0
    for each in functions:
        if at < len(fields):
            found[str(fields[at]["name"])] = each
        at += len(each.fields)
    return found if at == len(fields) else {}


def computed_notes(old: Sequence[KeyMeaning] | None, new: Sequence[KeyMeaning]) -> str:
    """What a script says of its keys: how both versions of the code compute them."""
    before, after = ({each.name: each for each in keys} for keys in (old or (), new))
    lines = [
        f"- `{name}` {word} {key_text(each, others.get(name))}"
        for word, keys, others in (("was", before, after), ("is", after, before))
        for name, each in keys.items()
    ]
    return "\n".join(["What the code computes keys from:", "", *lines])
