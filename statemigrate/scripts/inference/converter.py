"""The source of new values out of old ones, type by type, with the questions that it raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from statemigrate.formats.schema.matching import Pair, Path, Reason, unpaired
from statemigrate.formats.schema.nodes import NULL, Array, Field, Map, Node, Record
from statemigrate.formats.schema.nullability import holds_none, without_none
from statemigrate.scripts.inference import questions
from statemigrate.scripts.inference.conversions import conversion
from statemigrate.scripts.inference.functions import Functions
from statemigrate.scripts.inference.scope import ARGUMENT, LOOP_NAMES, Scope
from statemigrate.scripts.source.expressions import (
    Entry,
    call,
    dict_literal,
    dict_of,
    item_of,
    list_of,
    unless_none,
)
from statemigrate.scripts.source.layout import Doc, render
from statemigrate.scripts.source.zeros import default_of, zero_item, zero_of

_Pairs = Mapping[Path, Pair]


class Converter:
    """Writes the functions of one direction."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions

    def whole(self, old: Record, new: Record) -> None:
        """Write the direction's own function."""
        scope = Scope(old)
        entries = self._entries(scope, old, new, "")
        result = dict_literal(entries, self._lost(old, new, ""))
        self.functions.define(self.functions.direction, result, statements=scope.statements)

    def _entries(self, scope: Scope, old: Record, new: Record, where: str) -> list[Entry]:
        pairs = {pair.new: pair for pair in self.functions.pairs(old, new)}
        return [self._entry(scope, pairs, (f.name,), f, where) for f in new.fields]

    def _entry(self, scope: Scope, pairs: _Pairs, path: Path, field: Field, where: str) -> Entry:
        inner = without_none(field.type)
        if path in pairs:
            return self._carried(scope, pairs[path], field, where)
        if isinstance(inner, Record) and any(other[: len(path)] == path for other in pairs):
            fields = [self._entry(scope, pairs, (*path, f.name), f, where) for f in inner.fields]
            return Entry(field.name, dict_literal(fields))
        return self._filled(field, _label(where, *path))

    def _filled(self, field: Field, label: str) -> Entry:
        value = default_of(field)
        ask = questions.added if self.functions.forward else questions.removed
        return Entry(field.name, value, (ask(label, value),))

    def _lost(self, old: Record, new: Record, where: str) -> list[Doc]:
        """Ask about each old field that becomes nothing; on the way back note it instead.

        What `upgrade` adds has no place to go back to: there is nothing to decide about it.
        """
        taken = [pair.old for pair in self.functions.pairs(old, new)]
        lost = [_label(where, *path) for path in unpaired(old, taken)]
        if self.functions.forward:
            return [questions.lost(label) for label in lost]
        self.functions.drops += lost
        return []

    def _carried(self, scope: Scope, pair: Pair, field: Field, where: str) -> Entry:
        source, old = scope.find(pair.old)
        label = _label(where, *pair.new)
        asked: list[Doc] = []
        value = self._value(source, old, field.type, label, asked, lambda: zero_of(field))
        if value is None:
            value = default_of(field)
            asked = [questions.unconverted(label, without_none(field.type), value)]
        return Entry(field.name, value, (*self._origin(pair, where), *asked))

    def _origin(self, pair: Pair, where: str) -> list[Doc]:
        # Asked once: the way back follows from the answer.
        if not self.functions.forward or pair.reason == Reason.KEPT:
            return []
        ask = questions.renamed if pair.reason == Reason.RENAMED else questions.moved
        return [ask(_label(where, *pair.old), _label(where, *pair.new))]

    def _value(
        self,
        source: Doc,
        old: Node,
        new: Node,
        label: str,
        asked: list[Doc],
        zero: Callable[[], Doc],
        depth: int = 0,
    ) -> Doc | None:
        """Return the new value, None if there is no way to it; append to ``asked``."""
        if NULL in (without_none(old), without_none(new)):
            return source if without_none(old) == without_none(new) else None
        value = self._held(source, without_none(old), without_none(new), label, asked, depth)
        if value is None or not holds_none(old):
            return value
        if holds_none(new):
            return source if value == source else unless_none(source, "None", value)
        instead = zero()
        asked.append(questions.without_value(label, instead))
        return unless_none(source, self._on_one_line(instead, label), value)

    def _held(
        self, source: Doc, old: Node, new: Node, label: str, asked: list[Doc], depth: int
    ) -> Doc | None:
        match old, new:
            case Record(), Record():
                return self._record(source, old, new, label, asked)
            case Array(), Array():
                each = self._item(old.items, new.items, f"{label}[]", asked, depth)
                return each and _looped(list_of, each, source, depth)
            case Map(), Map() if old.keys == new.keys:
                each = self._item(old.values, new.values, f"{label}{{}}", asked, depth)
                return each and _looped(dict_of, each, source, depth)
            case (Record() | Array() | Map(), _) | (_, Record() | Array() | Map()):
                return None
        return _converted(source, old, new, label, asked)

    def _item(self, old: Node, new: Node, label: str, asked: list[Doc], depth: int) -> Doc | None:
        name = _loop_name(depth)
        return self._value(name, old, new, label, asked, lambda: zero_item(new), depth + 1)

    def _record(self, source: Doc, old: Record, new: Record, label: str, asked: list[Doc]) -> Doc:
        name = self.functions.reserve(label)
        scope = Scope(old)
        entries = self._entries(scope, old, new, label)
        lost = self._lost(old, new, label)
        if _is_unchanged(old, entries):
            self.functions.forget(name)
            asked += [question for entry in entries for question in entry.questions]
            return source
        self.functions.define(name, dict_literal(entries, lost), statements=scope.statements)
        return call(name, source)

    def _on_one_line(self, value: Doc, label: str) -> Doc:
        """Return a value that can stand within an expression."""
        text = render(value)
        if "\n" not in text:
            return value
        name = self.functions.reserve(f"{label}.default")
        kind = "Value" if text.startswith("{") else "list"
        self.functions.define(name, value, signature=f"() -> {kind}")
        return call(name)


def _converted(source: Doc, old: Node, new: Node, label: str, asked: list[Doc]) -> Doc | None:
    found = conversion(old, new)
    if found is None:
        return None
    if found.guess:
        asked.append(questions.converted(label, new, found.fits))
    elif not found.fits:
        asked.append(questions.narrowed(label, new))
    return found.apply(source)


def _is_unchanged(old: Record, entries: list[Entry]) -> bool:
    same = {e.name for e in entries if e.value == item_of(ARGUMENT, e.name)}
    return same == {field.name for field in old.fields} and len(same) == len(entries)


def _looped(loop: Callable[[Doc, str, Doc], Doc], each: Doc, source: Doc, depth: int) -> Doc:
    name = _loop_name(depth)
    return source if each == name else loop(each, name, source)


def _loop_name(depth: int) -> str:
    return LOOP_NAMES[depth] if depth < len(LOOP_NAMES) else f"inner{depth}"


def _label(where: str, *path: str) -> str:
    return ".".join([where, *path] if where else path)
