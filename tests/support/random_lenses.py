"""Formats and lenses that nobody chose, for the laws of lenses."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st

from statemigrate.errors import ScriptError
from statemigrate.formats import Avro, Format, Struct
from statemigrate.formats.schema.matching import kind_of
from statemigrate.formats.schema.nodes import Array, Map, Node, Record, without_none
from statemigrate.lenses import (
    Change,
    Lens,
    LensChain,
    add,
    cast,
    default,
    drop,
    each,
    entries,
    function,
    join,
    map_values,
    move,
    rename,
    scale,
    split,
    unwrap,
    wrap,
)

_LEAVES = [
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY"),
    *("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL(5,2)", "DECIMAL(38,10)", "VARCHAR(9)"),
]
_NUMBERS = [*_LEAVES[1:5], "FLOAT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(38,10)", "STRING"]
_NAMES = ["a", "b", "c", "d", "e"]
_NEW = ["x", "y", "z"]


@st.composite
def _types(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.sampled_from(["leaf"] * 4 + ["struct", "list", "map"] * (depth > 0)))
    if kind == "leaf":
        return draw(st.sampled_from(_LEAVES))
    if kind == "struct":
        return f"STRUCT<{draw(_fields(depth - 1))}>"
    inner = draw(st.one_of(_types(depth - 1), _fields(depth - 1).map(lambda f: f"STRUCT<{f}>")))
    return f"ARRAY<{inner}>" if kind == "list" else f"MAP<STRING, {inner}>"


@st.composite
def _fields(draw: st.DrawFn, depth: int = 2) -> str:
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True))
    rest = st.sampled_from(["", "", " NOT NULL"])
    return ", ".join(f"{name}: {draw(_types(depth))}{draw(rest)}" for name in names)


@st.composite
def _formats(draw: st.DrawFn) -> Format:
    fmt = Struct(f"struct<{draw(_fields())}>")
    if draw(st.booleans()):
        try:
            return Avro(fmt.avro_schema)
        except Exception:  # not every struct is an Avro schema
            return fmt
    return fmt


_UNFIT = st.sampled_from([None, "fail", "null"])
_FILLINGS = {
    "integer": {7: 0, 0: 7},
    "text": {"text": "0", "0": "text"},
    "float": {1.5: 0.5},
    "boolean": {True: False, False: True},
}


def _paths(record: Record, around: str = "") -> Iterator[tuple[str, Node]]:
    for field in record.fields:
        path = f"{around}{field.name}"
        yield path, without_none(field.type)
        if isinstance(inner := without_none(field.type), Record):
            yield from _paths(inner, f"{path}.")


@st.composite
def _lens(draw: st.DrawFn, record: Record, depth: int = 1) -> Lens:
    """A lens that fits a struct, or nearly."""
    path, node = draw(st.sampled_from(list(_paths(record))))
    around = path.rpartition(".")[0]
    new = draw(st.sampled_from(_NEW))
    to = f"{around}.{new}" if around else new
    top = st.sampled_from([field.name for field in record.fields])
    found = [
        st.just(rename(path, new)),
        st.just(move(path, new)),
        st.just(move(path, f"{new}.{draw(st.sampled_from(_NAMES))}")),
        st.lists(top, min_size=1, max_size=2).map(lambda names: wrap(new, *names)),
        st.builds(add, st.just(to), st.sampled_from(_LEAVES)),
        st.just(add(to, *draw(st.sampled_from([("INT", 1), ("STRING", "text")])))),
        st.just(drop(path)),
        st.just(function(path, lambda v: v, lambda v: v)),
    ]
    if isinstance(node, Record):
        found = [
            st.just(unwrap(path)),
            top.map(lambda name: move(name, f"{path}.{new}")),
            top.map(lambda name: move(name, f"{path}.{new}.{name}")),
        ]
    elif isinstance(node, Array | Map):
        inner = without_none(node.items if isinstance(node, Array) else node.values)
        if depth and isinstance(inner, Record) and inner.fields:
            of = each if isinstance(node, Array) else entries
            found = [_lens(inner, depth - 1).map(lambda one: of(path, one))]
    else:
        kind = kind_of(node)
        filling = _FILLINGS.get(kind, {})
        found += [
            st.builds(cast, st.just(path), st.sampled_from(_NUMBERS), unfit=_UNFIT),
            st.builds(scale, st.just(path), st.integers(0, 4), unfit=_UNFIT),
            st.just(default(path, next(iter(filling), "text"))),
            st.builds(
                map_values,
                st.just(path),
                st.sampled_from([filling, dict.fromkeys(filling, next(iter(filling), 0))]),
                otherwise=st.sampled_from(["keep", "fail", "null"]),
                back=st.sampled_from([None, {each_: each_ for each_ in filling}]),
            ),
        ]
        if kind == "text":
            texts = [name for name, each_ in _paths(record) if kind_of(each_) == "text"]
            found += [
                st.just(split(path, (f"{new}1", f"{new}2"), "t")),
                st.just(join(to, (path.rpartition(".")[2], draw(st.sampled_from(texts))), " ")),
            ]
    return draw(st.one_of(found))


@st.composite
def fitting_changes(draw: st.DrawFn, old: Format | None = None) -> Change:
    """Lenses that fit a format, of some that do not; one that nobody chose if none is given."""
    fmt = old or draw(_formats())
    change = Change.of(LensChain(()), fmt)
    for _ in range(draw(st.integers(2, 6))):
        if not change.new.schema.fields:
            break
        one = draw(_lens(change.new.schema))
        try:
            change = Change.of(LensChain((*change.chain.lenses, one)), fmt)
        except ScriptError as error:
            if not error.code.startswith("SM-LENS-"):
                raise
    return change
