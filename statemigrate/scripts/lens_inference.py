"""Inferring the lenses of a script from two formats, where lenses say all that differs.

A field has another name only where the author says so: two formats alone do not tell it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from statemigrate import lenses
from statemigrate.errors import FormatError, ScriptError, did_you_mean
from statemigrate.formats import Format
from statemigrate.formats.schema import (
    Array,
    Field,
    FieldPair,
    Map,
    Node,
    Reason,
    Record,
    accepts_none,
    field_addresses,
    kind_of,
    layout,
    matched_fields,
    unpaired,
    without_none,
)
from statemigrate.lenses import Change, Lens, LensChain, ddl_of
from statemigrate.quoting import argument
from statemigrate.scripts.inference import added, library_imports, moved, narrowed, question
from statemigrate.scripts.source import (
    Break,
    Comment,
    Doc,
    Indent,
    filling,
    leaf_literal,
    quoted,
    render,
)

Path = tuple[str, ...]


class NotDeclarableError(Exception):
    """Two formats differ by more than lenses say; the text says by what."""


@dataclass(frozen=True)
class LensCall:
    """One lens as it is written: its function, and what that is given.

    What it is given may be the lenses of a list's elements, or a function by its `Name`.
    """

    name: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    questions: tuple[Doc, ...] = ()

    @property
    def lens(self) -> Lens:
        """The lens itself."""
        given = [_given(one) for one in self.arguments]
        made: Lens = getattr(lenses, self.name)(*given, **self.options)
        return made

    @property
    def source(self) -> Doc:
        """The call as it is written."""
        parts = [lens_source(one) if _is_chain(one) else _text(one) for one in self.arguments]
        parts += [f"{name}={_text(value)}" for name, value in self.options.items()]
        commas: tuple[Doc, ...] = tuple(each for part in parts for each in (", ", part))
        return (self.name, "(", *commas[1:], ")")

    @property
    def names(self) -> set[str]:
        """The names of lenses in it."""
        inner = [each for one in self.arguments if _is_chain(one) for each in one]
        nested = {name for each in inner for name in each.names}
        return {self.name, *nested, *(["lens"] if inner else [])}


@dataclass(frozen=True)
class Name:
    """A function of a script, as a lens is given it."""

    name: str
    function: Callable[[Any], Any]


def _is_chain(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], LensCall)


def _given(value: Any) -> Any:
    if _is_chain(value):
        return LensChain(tuple(each.lens for each in value))
    return value.function if isinstance(value, Name) else value


def _text(value: Any) -> str:
    match value:
        case Name(name=name):
            return name
        case dict():
            pairs = [f"{_text(key)}: {_text(each)}" for key, each in value.items()]
            return f"{{{', '.join(pairs)}}}"
        case tuple():
            return f"({', '.join(map(_text, value))}{',' * (len(value) == 1)})"
        case list():
            return f"[{', '.join(map(_text, value))}]"
        case str():
            return quoted(value)
    return leaf_literal(value)


def lens_source(calls: Sequence[LensCall]) -> Doc:
    """The source ``lens(...)`` of several lenses, one a line."""
    lines: list[Doc] = []
    for each in calls:
        lines += [*each.questions, (each.source, ",")]
    body = Indent(tuple(part for line in lines for part in (Break(), line)))
    return ("lens(", body, Break(), ")")


@dataclass(frozen=True)
class Declaration:
    """The statement ``change = lens(...)`` of a script, and the ``names`` of lenses in it.

    ``imports`` are the lines that import from the standard library, possibly none.
    """

    source: str
    imports: str
    names: tuple[str, ...]


def declaration(old: Format, new: Format, renames: Mapping[str, str] | None = None) -> Declaration:
    """The lenses that are the difference of two formats.

    ``renames`` has the paths of old fields that have another name, or another place, and the paths
    that they get. Fields that come and go, and casts that not every value takes, are asked about
    in comments ``# QUESTION:``.

    Raises NotDeclarableError where lenses do not say everything, and `ScriptError` for renames of
    fields that are not there.
    """
    given = {_path(one): _path(other) for one, other in (renames or {}).items()}
    _check(old, given, "old")
    _check(new, given.values(), "new")
    calls = list(_between(old.schema, new.schema, (), given))
    try:
        Change.of(LensChain(tuple(each.lens for each in calls)), old, new)
    except (ScriptError, FormatError) as cause:
        raise NotDeclarableError(f"{cause.summary} Expected {cause.expected}") from cause
    names = {"lens", *(name for each in calls for name in each.names)}
    source = f"change = {render(lens_source(calls))}"
    return Declaration(source, library_imports(source), tuple(sorted(names)))


def _path(text: str) -> Path:
    return tuple(text.split("."))


def _check(format: Format, paths: Any, side: str) -> None:
    known = [each.path for each in field_addresses(format.schema)]
    known += [path.rpartition(".")[0] for path in known]
    for path in map(".".join, paths):
        if path not in known:
            raise ScriptError(
                "SM-SCRIPT-035",
                f"`{path}` is to be renamed, and `{side}` has no such field.",
                expected=f"a field of `{side}`",
                found=path,
                next_action="correct the name" + did_you_mean(path, known),
                field=path,
            )


def _between(
    old: Record, new: Record, at: Path, renames: Mapping[Path, Path]
) -> Iterator[LensCall]:
    """The lenses between two structs at a place of the whole value."""
    given = {
        one[len(at) :]: other[len(at) :]
        for one, other in renames.items()
        if one[: len(at)] == at == other[: len(at)]
    }
    mine = {one: other for one, other in given.items() if not _deeper(one, other, old, new)}
    rest, wanted = _without(old, mine), _without(new, mine.values())
    pairs = matched_fields(rest, wanted)
    guessed = [each for each in pairs if each.reason == Reason.RENAMED]
    if guessed:
        one, other = (_joined(at, each) for each in (guessed[0].old, guessed[0].new))
        raise NotDeclarableError(f"{one} may have become {other}: --rename {one}={other} says so")
    taken_old, taken_new = [each.old for each in pairs], [each.new for each in pairs]
    come = [
        leaf
        for path in unpaired(wanted, taken_new)
        for leaf in _leaves(wanted, path, list(mine.values()))
    ]
    for path in unpaired(rest, taken_old):
        yield _dropped(rest, path, at, [_joined(at, each) for each in come])
    for there, here in mine.items():
        yield from _renamed(there, here, at)
        yield from _typed(_at(old, there), _at(new, here), (*at, *here), renames)
    yield from _moved(rest, wanted, [each for each in pairs if each.reason == Reason.MOVED], at)
    for each in pairs:
        if each.reason == Reason.KEPT and each.old != each.new:
            yield LensCall("rename", (_joined(at, each.old), each.new[-1]))
        yield from _typed(_at(rest, each.old), _at(wanted, each.new), (*at, *each.new), renames)
    for leaf in come:
        yield _added(wanted, leaf, at)


def _deeper(one: Path, other: Path, old: Record, new: Record) -> bool:
    """Whether a rename is within a struct that both sides have, which has lenses of its own."""
    if len(one) < 2 or len(other) < 2 or one[0] != other[0]:
        return False
    sides = (_find(old, one[:1]), _find(new, other[:1]))
    return all(each is not None and isinstance(without_none(each.type), Record) for each in sides)


def _renamed(one: Path, other: Path, at: Path) -> Iterator[LensCall]:
    if one[:-1] == other[:-1]:
        yield LensCall("rename", (_joined(at, one), other[-1]))
    else:
        yield LensCall("move", (_joined(at, one), _joined(at, other)))


def _moved(old: Record, new: Record, pairs: Sequence[FieldPair], at: Path) -> Iterator[LensCall]:
    """Fields that go into a struct or out of one: as a whole, or one by one."""
    whole = {}
    for name, record, paths in _structs(old, new, pairs):
        if {path[-1] for path in paths} == {each.name for each in record.fields}:
            whole[name] = paths
    for name, paths in whole.items():
        label = _joined(at, (name,))
        one, other = _joined(at, paths[0]), paths[0][-1]
        if len(paths[0]) > 1:
            yield LensCall("unwrap", (label,), questions=(moved(one, _joined(at, (other,))),))
        else:
            names = [path[-1] for path in paths]
            asked = moved(one, f"{label}.{paths[0][-1]}")
            yield LensCall("wrap", (label, *names), questions=(asked,))
    gone = {path for paths in whole.values() for path in paths}
    for each in pairs:
        if each.old not in gone:
            there, back = _joined(at, each.old), _joined(at, each.new)
            yield LensCall("move", (there, back), questions=(moved(there, back),))


def _structs(
    old: Record, new: Record, pairs: Sequence[FieldPair]
) -> Iterator[tuple[str, Record, list[Path]]]:
    """The structs that only one side has, with the old paths of fields that come or go."""
    for record, other, is_new in ((new, old, True), (old, new, False)):
        for outer in record.fields:
            inner = without_none(outer.type)
            sides = [(each.new, each.old) if is_new else (each.old, each.new) for each in pairs]
            paths: list[Path] = [
                (there if is_new else here)
                for here, there in sides
                if len(here) == 2 and here[0] == outer.name and len(there) == 1
            ]
            if isinstance(inner, Record) and paths and _find(other, (outer.name,)) is None:
                yield outer.name, inner, paths


def _leaves(record: Record, path: Path, there: Sequence[Path]) -> Iterator[Path]:
    """A field, or those in a struct that renames have made already."""
    inner = without_none(_at(record, path).type)
    if not isinstance(inner, Record) or not any(each[: len(path)] == path for each in there):
        yield path
        return
    for each in inner.fields:
        yield from _leaves(record, (*path, each.name), there)


def _dropped(record: Record, path: Path, at: Path, come: Sequence[str]) -> LensCall:
    label, found = _joined(at, path), _at(record, path)
    options = {} if accepts_none(found.type) else {"back": _leaf(filling(found), label)}
    asked = [question(f"`{label}` goes nowhere: is it meant to be lost?")]
    if come:
        renamed = argument(f"{label}={come[0]}")
        asked.append(
            Comment(f"If it becomes `{come[0]}`, write this again with --rename {renamed}")
        )
    return LensCall("drop", (label,), options, tuple(asked))


def _added(record: Record, path: Path, at: Path) -> LensCall:
    label, found = _joined(at, path), _at(record, path)
    value = _leaf(filling(found), label)
    asked = added(label, leaf_literal(value))
    kept = () if value is None else (value,)
    return LensCall("add", (label, ddl_of(found.type), *kept), questions=(asked,))


def _leaf(value: Any, label: str) -> Any:
    if isinstance(value, dict | list):
        raise NotDeclarableError(f"{label} is new and may not be None: a function makes its value")
    return value


def _typed(one: Field, other: Field, at: Path, renames: Mapping[Path, Path]) -> Iterator[LensCall]:
    """The lenses for what is in a field, which has its new name already."""
    old, new, label = without_none(one.type), without_none(other.type), ".".join(at)
    if layout(old) == layout(new):
        return
    match old, new:
        case Record(), Record():
            yield from _between(old, new, at, renames)
        case Array(items=before), Array(items=after):
            yield _inner("each", before, after, label)
        case Map(values=before), Map(values=after) if layout(old.keys) == layout(new.keys):
            yield _inner("entries", before, after, label)
        case _:
            yield _cast(old, new, label)


def _inner(name: str, before: Node, after: Node, label: str) -> LensCall:
    old, new = without_none(before), without_none(after)
    if not isinstance(old, Record) or not isinstance(new, Record):
        raise NotDeclarableError(f"what is in {label} changes its type")
    return LensCall(name, (label, list(_between(old, new, (), {}))))


def _cast(old: Node, new: Node, label: str) -> LensCall:
    asked: Doc | None = None
    if (kind_of(old), kind_of(new)) == ("integer", "decimal") and not _is_whole(new):
        # Whole units, or the smallest ones as with `scale`: the types do not tell.
        asked = question(f"does `{label}` count whole units? Of cents make scale(..., places=2).")
    call = LensCall("cast", (label, ddl_of(new)), questions=(asked,) if asked else ())
    record = Record("one", (Field(label.replace(".", "_"), old),))
    plain = replace(call, arguments=(record.fields[0].name, call.arguments[1]))
    try:
        _forward(plain.lens, record)
    except ScriptError as cause:
        if cause.code != "SM-LENS-004":
            raise NotDeclarableError(f"no lens casts {label}: {cause.found}") from cause
        questions = (*call.questions, narrowed(label, new))
        return replace(call, options={"unfit": "fail"}, questions=questions)
    return call


def _forward(lens: Lens, record: Record) -> None:
    from statemigrate.lenses import input_shape

    lens.forward(input_shape(record))


def _is_whole(node: Node) -> bool:
    from statemigrate.lenses import decimals_of

    return decimals_of(node).scale == 0


def _joined(at: Path, path: Path) -> str:
    return ".".join((*at, *path))


def _find(record: Record, path: Path) -> Field | None:
    found: Field | None = None
    for name in path:
        found = next((each for each in record.fields if each.name == name), None)
        inner = None if found is None else without_none(found.type)
        record = inner if isinstance(inner, Record) else Record("none", ())
    return found


def _at(record: Record, path: Path) -> Field:
    found = _find(record, path)
    if found is None:
        raise NotDeclarableError(f"{'.'.join(path)} is in a list or a map")
    return found


def _without(record: Record, paths: Any) -> Record:
    """A struct without some fields, and without the structs that are empty then."""
    fields = []
    for each in record.fields:
        inner = [path[1:] for path in paths if path[0] == each.name]
        if () in inner:
            continue
        node = without_none(each.type)
        if not inner or not isinstance(node, Record):
            fields.append(each)
            continue
        left = _without(node, inner)
        if left.fields:
            fields.append(replace(each, type=_like(each.type, left)))
    return replace(record, fields=tuple(fields))


def _like(node: Node, record: Record) -> Node:
    from statemigrate.formats.schema import with_none

    return with_none(record) if accepts_none(node) else record
