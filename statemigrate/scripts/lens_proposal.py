"""Finding the lenses that do what two functions by hand do, by trying the functions on values.

What is found is a proposal. Before it is written it has to be proven equal on every value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import combinations, islice, permutations, product
from typing import Any

from statemigrate.errors import FormatError, ScriptError
from statemigrate.formats import Format, samples
from statemigrate.formats.schema import (
    INTEGER_RANGES,
    Array,
    Field,
    Map,
    Node,
    Primitive,
    Record,
    accepts_none,
    kind_of,
    layout,
    with_none,
    without_none,
)
from statemigrate.lenses import Change, LensChain, ddl_of, format_of
from statemigrate.scripts.lens_inference import LensCall, Name, Path

Function = Callable[[Any], Any]
Names = Callable[[Path, Path], tuple[str, str | None] | None]
"""Gives the names of two functions, up and back, that a script can have for a new field of an old
one: its own expression for it. None where there is none."""

_REFUSED: Any = object()
_VALUES = 120
_PAIRS = 8000
_BASES = 4
_OF_A_FIELD = 16
_CONSTANTS = 40
_TABLE = 50
_SEPARATORS = (" ", ",", ", ", "-", "/", ":", ";", "_", ".", "|")


@dataclass(frozen=True)
class HandWrittenPair:
    """Two functions between two formats; ``downgrade`` is None if there is no way back.

    ``constants`` are the texts and numbers that their source names: values that they may know.
    ``examples`` are values of the old format that may be tried.
    """

    old: Format
    new: Format
    upgrade: Function
    downgrade: Function | None
    constants: tuple[Any, ...] = ()
    examples: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Proposal:
    """The lenses that were found; ``open_fields`` has why there is none, by new or old field."""

    calls: tuple[LensCall, ...]
    open_fields: Mapping[str, str]


def proposal(pair: HandWrittenPair, names: Names | None = None) -> Proposal:
    """The lenses that do what a pair does, as far as values show it.

    With ``names`` a field that no other lens makes may be made by `function`.
    """
    search = _Search(pair, names)
    calls = tuple(search.calls())
    found = dict(search.open_fields)
    if not found:
        try:
            Change.of(LensChain(tuple(each.lens for each in calls)), pair.old, pair.new)
        except (ScriptError, FormatError) as cause:
            name = str(cause.data.get("field") or cause.data.get("lens") or "")
            found[name] = f"{cause.summary} Expected {cause.expected}, found {cause.found}"
    return Proposal(calls, found)


@dataclass(frozen=True)
class _Leaf:
    """A field that is no struct, or a struct without fields; ``optional`` with all around it."""

    path: Path
    type: Node
    optional: bool

    @property
    def whole_type(self) -> Node:
        return with_none(self.type) if self.optional else self.type


def _leaves(record: Record, at: Path = (), optional: bool = False) -> Iterator[_Leaf]:
    for each in record.fields:
        path, may = (*at, each.name), optional or accepts_none(each.type)
        inner = without_none(each.type)
        if isinstance(inner, Record) and inner.fields:
            yield from _leaves(inner, path, may)
        else:
            yield _Leaf(path, each.type, may)


def _structs(record: Record, at: Path = ()) -> Iterator[Path]:
    for each in record.fields:
        inner = without_none(each.type)
        if isinstance(inner, Record) and inner.fields:
            yield (*at, each.name)
            yield from _structs(inner, (*at, each.name))


def _at(value: Any, path: Path) -> Any:
    for name in path:
        if value is None:
            return None
        value = value[name]
    return value


def _with(value: Any, path: Path, part: Any) -> Any:
    """A copy with another value at a path; None where a struct on the way is None."""
    if value is None:
        return None
    name, *rest = path
    inner = _with(value[name], tuple(rest), part) if rest else part
    return None if rest and inner is None else {**value, name: inner}


def _same(one: Any, other: Any) -> bool:
    # A NaN does not equal itself, and 1 == 1.0 == True.
    return repr(one) == repr(other)


def _of_field(function: Function, base: Any, there: Path, here: Path) -> Function:
    """What a function of whole values makes of one field, the others as in ``base``."""
    return lambda part: _at(function(_with(deepcopy(base), there, part)), here)


def _text(path: Path) -> str:
    return ".".join(path)


@dataclass
class _Search:
    """The search for the lenses of one pair."""

    pair: HandWrittenPair
    names: Names | None
    open_fields: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pair = self.pair
        self.old = {each.path: each for each in _leaves(pair.old.schema)}
        self.new = {each.path: each for each in _leaves(pair.new.schema)}
        self.up = _checked(pair.upgrade, pair.new)
        self.down = None if pair.downgrade is None else _checked(pair.downgrade, pair.old)
        self.bases = [*pair.examples[:_VALUES], *samples(pair.old.schema, _VALUES)]
        self.known = [*self._taken(self._pool())] or [
            *islice(self._taken(islice(self._pairs(), _PAIRS)), _VALUES)
        ]
        self.refused: set[Path] = set()
        self.sources: dict[Path, list[Path]] = {path: [] for path in self.new}
        for path, made in self._varied():
            for new in self.new:
                if path not in self.sources[new] and not _same(
                    _at(made[0], new), _at(made[1], new)
                ):
                    self.sources[new].append(path)

    # The values that are tried.

    def _taken(self, values: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Those that the functions take, with what they make of them."""
        for value in values:
            made = _REFUSED if value is None else self.up(value)
            if made is not _REFUSED:
                yield value, made

    def _constants(self, node: Node) -> list[Any]:
        """The constants of the source that a type holds."""
        inner = without_none(node)
        kind = kind_of(inner)
        if kind == "text":
            named = [each for each in self.pair.constants if isinstance(each, str)]
            apart = [f"one{each}two" for each in named if each and not each.isalnum()]
            found: list[Any] = [*apart, *named]
        elif kind == "integer" and isinstance(inner, Primitive):
            least, most = INTEGER_RANGES[inner.narrow or inner.type]
            found = [
                each for each in self.pair.constants if type(each) is int and least <= each <= most
            ]
        else:
            found = []
        return list(dict.fromkeys(found))[:_CONSTANTS]

    def _pool(self) -> Iterator[Any]:
        """Made-up values and examples, also with single constants of the source in them."""
        yield from self.bases
        for base in self.bases[:_BASES]:
            for path, constants in self._named():
                yield from (_with(base, path, each) for each in constants)

    def _pairs(self) -> Iterator[Any]:
        """Values with two constants in them: functions that look values up know no others."""
        base = self.bases[0]
        for (one, first), (other, second) in combinations(self._named(), 2):
            for a, b in product(first, second):
                yield _with(_with(base, one, a), other, b)

    def _named(self) -> list[tuple[Path, list[Any]]]:
        fields = ((each.path, self._constants(each.type)) for each in self.old.values())
        return [(path, found) for path, found in fields if found]

    def _varied(self) -> Iterator[tuple[Path, tuple[Any, Any]]]:
        """For a field, what two values become that differ in it alone."""
        bases = [*self.known]
        stride = max(1, len(bases) // _BASES)
        chosen = bases[::stride][: _BASES + 1]
        for path, leaf in self.old.items():
            others = [*samples(leaf.type, _OF_A_FIELD), *self._constants(leaf.type)]
            for value, made in chosen:
                for other in others:
                    changed = _with(value, path, other)
                    if changed is None or _at(changed, path[:-1]) is None:
                        continue
                    result = self.up(changed)
                    if result is _REFUSED:
                        self.refused.add(path)
                    else:
                        self.known.append((changed, result))
                        yield path, (made, result)

    # The lenses, in the order in which they are done.

    def calls(self) -> Iterator[LensCall]:
        """The lenses; what has none is noted in ``open_fields``."""
        if not self.known:
            self.open_fields[""] = "the functions take no value that was tried"
            return
        origins, whole = self._origins()
        used = {*origins.values(), *(path for of in whole.values() for path in of)}
        yield from self._dropped(used)
        yield from self._combined(whole)
        yield from self._moved(origins)
        for new, path in origins.items():
            yield from self._value(new, path)
        for new in self.new:
            if not self.sources[new]:
                yield from self._added(new)

    def _origins(self) -> tuple[dict[Path, Path], dict[tuple[Path, ...], tuple[Path, ...]]]:
        """By new field the old one that it is; and texts that are split or joined."""
        users: dict[Path, list[Path]] = {}
        for new, olds in self.sources.items():
            for path in olds:
                users.setdefault(path, []).append(new)
        origins: dict[Path, Path] = {}
        whole: dict[tuple[Path, ...], tuple[Path, ...]] = {}
        for path, news in users.items():
            if len(news) > 1 and all(self.sources[each] == [path] for each in news):
                whole[tuple(news)] = (path,)
        for new, olds in self.sources.items():
            if len(olds) > 1:
                if all(users[each] == [new] for each in olds):
                    whole[(new,)] = tuple(olds)
                else:
                    names = ", ".join(map(_text, olds))
                    self.open_fields[_text(new)] = f"depends on {names}"
            elif olds and len(users[olds[0]]) == 1:
                origins[new] = olds[0]
            elif olds and not any(new in news for news in whole):
                self.open_fields[_text(new)] = f"is not all that is made of {_text(olds[0])}"
        return origins, whole

    def _dropped(self, used: set[Path]) -> Iterator[LensCall]:
        gone = [path for path in self.old if path not in used]
        structs = list(_structs(self.pair.old.schema))
        done: list[Path] = []
        for struct in structs:
            inner = [path for path in self.old if path[: len(struct)] == struct]
            if all(path in gone for path in inner) and not _covered(struct, done):
                done.append(struct)
        for path in [*done, *(each for each in gone if not _covered(each, done))]:
            back = self._constant_back(path)
            yield LensCall("drop", (_text(path),), {} if back is None else {"back": back})

    def _constant_back(self, path: Path) -> Any:
        """What the way back puts into a dropped field."""
        values = [*(made for _, made in self.known), *samples(self.pair.new.schema, _VALUES)]
        for value in values if self.down else ():
            back = self.down(value) if self.down else _REFUSED
            if back is not _REFUSED and _at(back, path[:-1] or ()) is not None:
                return _at(back, path)
        leaf = self.old.get(path)
        if leaf is None or accepts_none(leaf.type):
            return None
        zero = samples(leaf.type, 2)
        return zero[-1] if zero else None

    def _combined(self, whole: Mapping[tuple[Path, ...], tuple[Path, ...]]) -> Iterator[LensCall]:
        for news, olds in whole.items():
            found = self._split(news, olds[0]) if len(olds) == 1 else self._joined(news[0], olds)
            if found is not None:
                yield found
            for each in news if found is None else ():
                names = ", ".join(map(_text, olds))
                self.open_fields[_text(each)] = f"is made of {names}, and by no lens"

    def _split(self, news: Sequence[Path], old: Path) -> LensCall | None:
        types = [self.new[each].type for each in news] + [self.old[old].type]
        if any(kind_of(without_none(each)) != "text" for each in types) or any(
            each[:-1] != old[:-1] for each in news
        ):
            return None
        makers = (
            LensCall("split", (_text(old), tuple(each[-1] for each in order), at))
            for order in permutations(news)
            for at in self._separators()
        )
        return next((each for each in makers if self._makes(each, [old], news)), None)

    def _joined(self, new: Path, olds: Sequence[Path]) -> LensCall | None:
        types = [self.old[each].type for each in olds] + [self.new[new].type]
        if any(kind_of(without_none(each)) != "text" for each in types) or any(
            each[:-1] != new[:-1] for each in olds
        ):
            return None
        makers = (
            LensCall("join", (_text(new), tuple(each[-1] for each in order), at))
            for order in permutations(olds)
            for at in self._separators()
        )
        return next((each for each in makers if self._makes(each, olds, [new])), None)

    def _separators(self) -> list[str]:
        named = [each for each in self.pair.constants if isinstance(each, str) and each]
        return list(dict.fromkeys([*named[:_CONSTANTS], *_SEPARATORS]))

    def _moved(self, origins: Mapping[Path, Path]) -> Iterator[LensCall]:
        """Other names and other places; what is in the way of another one goes first."""
        at = {old: old for old in origins.values()}
        news = {old: new for new, old in origins.items()}
        for call, before, after in self._whole_structs(news):
            yield call
            at |= {
                old: (*after, *path[len(before) :])
                for old, path in at.items()
                if path[: len(before)] == before
            }
        there = {*_structs(self.pair.new.schema)}
        while waiting := [old for old in at if at[old] != news[old]]:
            taken = set(at.values())
            old = next((each for each in waiting if news[each] not in taken), waiting[0])
            path, target = at[old], news[old]
            if path[:-1] != target[:-1] and path[:-1] and path[:-1] not in there:
                yield LensCall("unwrap", (_text(path[:-1]),))
                around = path[:-1]
                at |= {
                    each: (*around[:-1], *one[len(around) :])
                    for each, one in at.items()
                    if one[: len(around)] == around
                }
            elif path[:-1] == target[:-1]:
                yield LensCall("rename", (_text(path), target[-1]))
                at[old] = target
            else:
                yield LensCall("move", (_text(path), _text(target)))
                at[old] = target

    def _whole_structs(self, news: Mapping[Path, Path]) -> Iterator[tuple[LensCall, Path, Path]]:
        """Structs that get another name, or another place, as a whole."""
        there = {*_structs(self.pair.new.schema)}
        done: list[Path] = []
        for struct in _structs(self.pair.old.schema):
            inside = [(old, new) for old, new in news.items() if old[: len(struct)] == struct]
            if struct in there or _covered(struct, done) or not inside:
                continue
            targets = {new[: len(new) - len(old) + len(struct)] for old, new in inside}
            target = targets.pop()
            if targets or target not in there:
                continue
            done.append(struct)
            if struct[:-1] == target[:-1]:
                yield LensCall("rename", (_text(struct), target[-1])), struct, target
            else:
                yield LensCall("move", (_text(struct), _text(target))), struct, target

    def _added(self, new: Path) -> Iterator[LensCall]:
        leaf, value = self.new[new], _at(self.known[0][1], new)
        if not all(_same(_at(made, new), value) for _, made in self.known if _has(made, new)):
            self.open_fields[_text(new)] = "varies with no single field"
            return
        yield LensCall("add", (_text(new), ddl_of(leaf.type), *(() if value is None else (value,))))

    # What becomes of the value of one field.

    def _value(self, new: Path, old: Path) -> Iterator[LensCall]:
        pairs: dict[str, tuple[Any, Any]] = {}
        for value, made in self.known:
            one, other = _at(value, old), _at(made, new)
            first = pairs.setdefault(repr(one), (one, other))
            if not _same(first[1], other):
                self.open_fields[_text(new)] = f"is not made of {_text(old)} alone"
                return
        found = self._first(new, old, list(pairs.values()))
        if found is None:
            self.open_fields[_text(new)] = f"no lens makes it of {_text(old)}"
        else:
            yield from found

    def _first(
        self, new: Path, old: Path, pairs: Sequence[tuple[Any, Any]]
    ) -> list[LensCall] | None:
        before, after = self.old[old].whole_type, self.new[new].whole_type
        filled = next((other for one, other in pairs if one is None), None)
        for candidate in self._candidates(new, old, pairs):
            calls = candidate
            if filled is not None and accepts_none(before):
                calls = [*candidate, LensCall("default", (_text(new), filled))]
            plain = [_at_top(each) for each in calls]
            if self._agrees(plain, before, after, pairs):
                return calls
        return None

    def _candidates(
        self, new: Path, old: Path, pairs: Sequence[tuple[Any, Any]]
    ) -> Iterator[list[LensCall]]:
        before, after = without_none(self.old[old].type), without_none(self.new[new].type)
        label, ddl = _text(new), ddl_of(after)
        is_same = layout(before) == layout(after)
        # What fails is in no pair; what becomes None is.
        rules: list[dict[str, Any]] = [{}, {"unfit": "fail"}, {"unfit": "null"}]
        if is_same:
            yield []
        else:
            yield from ([LensCall("cast", (label, ddl), each)] for each in rules)
        if (kind_of(before), kind_of(after)) == ("integer", "decimal"):
            places = {"places": _places(after)}
            yield from (
                [LensCall("scale", (label,), {**places, **kind, **each})]
                for kind in ({}, {"type": ddl})
                for each in rules
            )
        yield from self._inside(new, old)
        yield from self._tables(new, old, pairs, {} if is_same else {"type": ddl})
        names = None if self.names is None else self.names(new, old)
        if names is not None:
            yield [self._function(new, old, names, {} if is_same else {"type": ddl})]

    def _function(
        self, new: Path, old: Path, names: tuple[str, str | None], options: dict[str, Any]
    ) -> LensCall:
        base = next(v for v, _ in self.known if _at(v, old[:-1] or ()) is not None)
        base_new = next(m for _, m in self.known if _at(m, new[:-1] or ()) is not None)
        functions = [Name(names[0], _of_field(self.pair.upgrade, base, old, new))]
        if names[1] is not None and self.pair.downgrade is not None:
            back = _of_field(self.pair.downgrade, base_new, new, old)
            functions.append(Name(names[1], back))
        return LensCall("function", (_text(new), *functions), options)

    def _tables(
        self, new: Path, old: Path, pairs: Sequence[tuple[Any, Any]], kind: dict[str, Any]
    ) -> Iterator[list[LensCall]]:
        leaf = self.old[old]
        known = self._constants(leaf.type) or samples(without_none(leaf.type), _OF_A_FIELD)
        every = {one: other for one, other in pairs if isinstance(one, str | int) and one in known}
        changed = {one: other for one, other in every.items() if kind or one != other}
        rules = ["fail", "null", "keep"] if old in self.refused or kind else ["keep", "null"]
        for otherwise in rules:
            table = changed if otherwise == "keep" else every
            if table and len(table) <= _TABLE and set(map(type, table.values())) != {type(None)}:
                options = {"otherwise": otherwise} if otherwise != "keep" else {}
                back = self._back_table(new, old, table)
                more = {"back": back} if back else {}
                yield [LensCall("map_values", (_text(new), table), {**options, **more, **kind})]

    def _back_table(self, new: Path, old: Path, table: Mapping[Any, Any]) -> dict[Any, Any]:
        """What the way back makes of values that several become."""
        values = list(table.values())
        several = [each for each in dict.fromkeys(values) if values.count(each) > 1]
        found = {}
        for each in several if self.down is not None else ():
            for _, made in self.known[:_VALUES]:
                changed = _with(made, new, each)
                back = _REFUSED if changed is None or self.down is None else self.down(changed)
                if back is not _REFUSED:
                    found[each] = _at(back, old)
                    break
        return {key: value for key, value in found.items() if key is not None}

    def _inside(self, new: Path, old: Path) -> Iterator[list[LensCall]]:
        """`each` and `entries`, with the lenses between the structs within."""
        before, after = without_none(self.old[old].type), without_none(self.new[new].type)
        match before, after:
            case Array(items=one), Array(items=other):
                name, key = "each", 0
            case Map(keys=keys, values=one), Map(values=other):
                name, key = "entries", samples(keys, 1)[0]
            case _:
                return
        if not all(isinstance(without_none(each), Record) for each in (one, other)):
            return
        inner = proposal(self._within(new, old, key, name == "entries", one, other))
        if inner.open_fields:
            mark = "{}" if name == "entries" else "[]"
            for path, why in inner.open_fields.items():
                self.open_fields[f"{_text(new)}{mark}.{path}"] = why
            return
        yield [LensCall(name, (_text(new), list(inner.calls)))]

    def _within(
        self, new: Path, old: Path, key: Any, of_map: bool, one: Node, other: Node
    ) -> HandWrittenPair:
        base = next((v for v, _ in self.known if _at(v, old[:-1] or ()) is not None), None)
        base_new = next((m for _, m in self.known if _at(m, new[:-1] or ()) is not None), None)

        def through(function: Function, base: Any, there: Path, here: Path) -> Function:
            def element(value: Any) -> Any:
                held = {key: value} if of_map else [value]
                made = _at(function(_with(base, there, held)), here)
                if len(made) != 1:
                    raise ValueError("another number of elements")
                return made[key]

            return element

        down = self.pair.downgrade
        return HandWrittenPair(
            _format(without_none(one), self.pair.old),
            _format(without_none(other), self.pair.new),
            through(self.pair.upgrade, base, old, new),
            None if down is None else through(down, base_new, new, old),
            self.pair.constants,
        )

    def _agrees(
        self, calls: Sequence[LensCall], old: Node, new: Node, pairs: Sequence[tuple[Any, Any]]
    ) -> bool:
        """Whether lenses on a field called ``field`` make what the functions made."""
        change = self._change(calls, Record("one", (Field("field", old),)),
                              Record("one", (Field("field", new),)))  # fmt: skip
        if change is None:
            return False
        up = _checked(change.upgrade, change.new)
        for one, other in pairs:
            made = up({"field": one})
            if made is _REFUSED or not _same(made["field"], other):
                return False
        return True

    def _makes(self, call: LensCall, olds: Sequence[Path], news: Sequence[Path]) -> bool:
        """Whether one lens makes some fields of others, all next to each other."""
        plain = _at_top(call, olds[0][:-1])
        fields = [Field(each[-1], self.old[each].whole_type) for each in olds]
        made = [Field(each[-1], self.new[each].whole_type) for each in news]
        change = self._change([plain], Record("one", tuple(fields)), Record("one", tuple(made)))
        if change is None:
            return False
        up = _checked(change.upgrade, change.new)
        for value, expected in self.known:
            found = up({each[-1]: _at(value, each) for each in olds})
            if found is _REFUSED or any(
                not _same(found[each[-1]], _at(expected, each)) for each in news
            ):
                return False
        return True

    def _change(self, calls: Sequence[LensCall], old: Record, new: Record) -> Change | None:
        try:
            chain = LensChain(tuple(each.lens for each in calls))
            return Change.of(chain, format_of(old, self.pair.old), format_of(new, self.pair.new))
        except (ScriptError, FormatError):
            return None


def _at_top(call: LensCall, around: Path | None = None) -> LensCall:
    """The same lens on a field that is in no struct, called ``field`` without ``around``."""
    name = "field" if around is None else str(call.arguments[0]).rpartition(".")[2]
    return LensCall(call.name, (name, *call.arguments[1:]), call.options)


def _checked(function: Function, format: Format) -> Function:
    """The function on a copy, with what the format makes of its result; or `_REFUSED`."""

    def call(value: Any) -> Any:
        try:
            return format.conform(function(deepcopy(value)))
        except Exception:  # whatever a script's function or the format raises
            return _REFUSED

    return call


def _format(record: Node, like: Format) -> Format:
    assert isinstance(record, Record), "asked before"  # noqa: S101
    return format_of(record, like)


def _covered(path: Path, done: Sequence[Path]) -> bool:
    return any(path[: len(each)] == each for each in done)


def _has(value: Any, path: Path) -> bool:
    return len(path) == 1 or _at(value, path[:-1]) is not None


def _places(node: Node) -> int:
    from statemigrate.lenses import decimals_of

    return decimals_of(node).scale
