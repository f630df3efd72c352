"""Inferring a script's functions from two formats, with a question for what cannot be inferred.

The source of new values out of old ones, type by type, with the questions that it raises.
"""

from __future__ import annotations

import ast
import builtins
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from statemigrate.formats import Format
from statemigrate.formats.schema import (
    NULL,
    Array,
    Field,
    FieldPair,
    Map,
    Node,
    Path,
    Reason,
    Record,
    accepts_none,
    matched_fields,
    type_name,
    unpaired,
    with_none,
    without_none,
)
from statemigrate.scripts.conversions import conversion
from statemigrate.scripts.source import (
    Break,
    Comment,
    Doc,
    Indent,
    LiteralEntry,
    assigned_or_empty,
    call,
    default_of,
    dict_literal,
    dict_of,
    identifier,
    item_of,
    list_of,
    quoted,
    render,
    unless_none,
    zero_item,
    zero_of,
)

# The functions that one direction of a script consists of.


class Functions:
    """``upgrade`` or ``downgrade`` and the private functions it calls, in the order they stand.

    ``drops`` are the fields it loses without a question.
    """

    def __init__(self, direction: str) -> None:
        self.direction = direction
        self.forward = direction == "upgrade"
        self.sources: dict[str, str] = {direction: ""}
        self.drops: list[str] = []

    def pairs(self, source: Record, target: Record) -> tuple[FieldPair, ...]:
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
    """Return a function, marked for linters if it does not use its argument."""
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    if "value" in names:
        return source
    head, _, body = source.partition("\n")
    return f"{head}  # noqa: ARG001\n{body}"


# Where a record's function finds the old values: in its argument and in structs within it.


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
            optional = optional or (depth + 1 < len(path) and accepts_none(inner))
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


# The comment lines that ask whether a guess was right.


MARK = "# QUESTION:"
"""How each of them begins."""
_WORD = MARK.removeprefix("# ")


def renamed(old: str, new: str) -> Comment:
    """Ask whether one field's values belong to another."""
    return _comment(f"was `{old}` renamed to `{new}`?")


def moved(old: str, new: str) -> Comment:
    """Ask whether a field moved into or out of a struct."""
    return _comment(f"did `{old}` move to `{new}`?")


def added(name: str, filling: Doc) -> Comment:
    """Ask for the value of a field that nothing old becomes."""
    return _comment(f"`{name}` is new: is {_short(filling)} right?")


def removed(name: str, filling: Doc) -> Comment:
    """Ask for the value of a field that ``upgrade`` drops."""
    return _comment(f"`{name}` was removed: is {_short(filling)} right?")


def lost_field(name: str) -> Comment:
    """Ask whether a field that ``upgrade`` has no use for is meant to be lost."""
    return _comment(f"`{name}` goes nowhere: is it meant to be lost? Then add it to `drops`.")


def without_value(name: str, filling: Doc) -> Comment:
    """Ask what stands in for None."""
    return _comment(f"is {_short(filling)} right where `{name}` was None?")


def unconverted(name: str, new: Node, filling: Doc) -> Comment:
    """Ask how to convert a field that gets a fixed value so far."""
    return _comment(f"how is `{name}` made {_type(new)}, if not {_short(filling)}?")


def converted(name: str, new: Node, fits: bool) -> Comment:
    """Ask whether a conversion is the one that was meant; without ``fits``, also if it can fail."""
    if fits:
        return _comment(f"is `{name}` made {_type(new)} like this?")
    return _comment(f"can every `{name}` be made {_type(new)} like this?")


def narrowed(name: str, new: Node) -> Comment:
    """Ask whether values fit into a type that holds fewer."""
    return _comment(f"does every `{name}` fit into {_type(new)}?")


def _type(node: Node) -> str:
    return _cut(type_name(node), 30)


def _short(filling: Doc) -> str:
    # A dict or a list with something in it is more than a line can say.
    text = render(filling)
    return "this" if "\n" in text else _cut(text, 40)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def question(text: str) -> Comment:
    """Ask something else."""
    return _comment(text)


def _comment(question: str) -> Comment:
    return Comment(f"{_WORD} {question}", " Delete this line once it is right.")


_Pairs = Mapping[Path, FieldPair]


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

    def _entries(self, scope: Scope, old: Record, new: Record, where: str) -> list[LiteralEntry]:
        pairs = {pair.new: pair for pair in self.functions.pairs(old, new)}
        return [self._entry(scope, pairs, (f.name,), f, where) for f in new.fields]

    def _entry(
        self, scope: Scope, pairs: _Pairs, path: Path, field: Field, where: str
    ) -> LiteralEntry:
        inner = without_none(field.type)
        if path in pairs:
            return self._carried(scope, pairs[path], field, where)
        if isinstance(inner, Record) and any(other[: len(path)] == path for other in pairs):
            fields = [self._entry(scope, pairs, (*path, f.name), f, where) for f in inner.fields]
            return LiteralEntry(field.name, dict_literal(fields))
        return self._filled(field, _label(where, *path))

    def _filled(self, field: Field, label: str) -> LiteralEntry:
        value = default_of(field)
        ask = added if self.functions.forward else removed
        return LiteralEntry(field.name, value, (ask(label, value),))

    def _lost(self, old: Record, new: Record, where: str) -> list[Doc]:
        """Ask about each old field that becomes nothing; on the way back note it instead.

        What `upgrade` adds has no place to go back to: there is nothing to decide about it.
        """
        taken = [pair.old for pair in self.functions.pairs(old, new)]
        lost = [_label(where, *path) for path in unpaired(old, taken)]
        if self.functions.forward:
            return [lost_field(label) for label in lost]
        self.functions.drops += lost
        return []

    def _carried(self, scope: Scope, pair: FieldPair, field: Field, where: str) -> LiteralEntry:
        source, old = scope.find(pair.old)
        label = _label(where, *pair.new)
        asked: list[Doc] = []
        value = self._value(source, old, field.type, label, asked, lambda: zero_of(field))
        if value is None:
            value = default_of(field)
            asked = [unconverted(label, without_none(field.type), value)]
        return LiteralEntry(field.name, value, (*self._origin(pair, where), *asked))

    def _origin(self, pair: FieldPair, where: str) -> list[Doc]:
        # Asked once: the way back follows from the answer.
        if not self.functions.forward or pair.reason == Reason.KEPT:
            return []
        ask = renamed if pair.reason == Reason.RENAMED else moved
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
        value = self._nested(source, without_none(old), without_none(new), label, asked, depth)
        if value is None or not accepts_none(old):
            return value
        if accepts_none(new):
            return source if value == source else unless_none(source, "None", value)
        instead = zero()
        asked.append(without_value(label, instead))
        return unless_none(source, self._on_one_line(instead, label), value)

    def _nested(
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
        asked.append(converted(label, new, found.fits))
    elif not found.fits:
        asked.append(narrowed(label, new))
    return found.apply(source)


def _is_unchanged(old: Record, entries: list[LiteralEntry]) -> bool:
    same = {e.name for e in entries if e.value == item_of(ARGUMENT, e.name)}
    return same == {field.name for field in old.fields} and len(same) == len(entries)


def _looped(loop: Callable[[Doc, str, Doc], Doc], each: Doc, source: Doc, depth: int) -> Doc:
    name = _loop_name(depth)
    return source if each == name else loop(each, name, source)


def _loop_name(depth: int) -> str:
    return LOOP_NAMES[depth] if depth < len(LOOP_NAMES) else f"inner{depth}"


def _label(where: str, *path: str) -> str:
    return ".".join([where, *path] if where else path)


# Both directions between two formats, as the source that a script's template takes.


_MODULES = {
    "datetime": ("UTC", "date", "datetime", "time", "timedelta"),
    "decimal": ("Decimal",),
    "typing": ("Any",),
}


@dataclass(frozen=True)
class Transforms:
    """``source`` holds ``upgrade``, ``downgrade``, what they call, and ``drops`` if it is needed.

    ``imports`` are the lines that import from the standard library, possibly none. If the script
    declares its change, ``source`` holds that, and ``lenses`` are the names that it uses.
    """

    source: str
    imports: str
    lenses: tuple[str, ...] = ()

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
    return Transforms(source, library_imports(source))


def _drops(fields: Sequence[str]) -> str:
    names = [quoted(field) for field in fields]
    line = f"drops = ({', '.join(names)}{',' if len(names) == 1 else ''})"
    return f"# Fields of `new` that `downgrade` has no place for.\n{line}"


def library_imports(source: str) -> str:
    """The lines that import what generated source uses of the standard library."""
    used = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    lines = []
    for module, names in _MODULES.items():
        needed = [name for name in names if name in used]
        if needed:
            lines.append(f"from {module} import {', '.join(needed)}")
    return "\n".join(lines)
