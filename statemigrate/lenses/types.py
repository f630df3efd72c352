"""The types that lenses name and make: from DDL, and to a format of either kind."""

from __future__ import annotations

from statemigrate.errors import FormatError
from statemigrate.formats import Avro, Format, Struct, struct_from_json
from statemigrate.formats.schema import (
    Array,
    Field,
    Map,
    Node,
    Record,
    Union,
    accepts_none,
    avro_json,
    inner,
    layout,
    numbered,
    with_none,
    without_none,
)
from statemigrate.formats.struct import spark_json


def type_of(text: str) -> Node:
    """The type that a text of Spark's DDL names, without None. Raises FormatError."""
    field = Struct(f"field {text}").schema.fields
    if len(field) != 1:
        raise FormatError(
            "SM-LENS-003",
            f"{text!r} is not one type.",
            expected='a type of Spark, as in "BIGINT" or "DECIMAL(18,2)"',
            found=text,
            next_action="correct the type",
        )
    return without_none(field[0].type)


def ddl_of(node: Node) -> str:
    """A type as Spark's DDL names it, whether it may be None or not."""
    record = Record("one", (Field("f", with_none(without_none(node))),))
    return struct_from_json(spark_json(record, is_struct=True)).ddl.removeprefix("f ")


def format_of(record: Record, like: Format) -> Format:
    """The format of a record, of the kind of another format."""
    if like.kind == Struct.kind:
        return struct_from_json(spark_json(record, is_struct=True))
    names = _names(record)
    return Avro(avro_json(record if len(set(names)) == len(names) else numbered(record)))


def _names(node: Node) -> list[str]:
    own = [node.name] if hasattr(node, "name") else []
    return own + [name for each in inner(node) for name in _names(each)]


def misfit(
    made: Node, written: Node, path: str = ""
) -> tuple[str, Node | None, Node | None] | None:
    """Where a written type has no place for what is made, with both types there.

    The order of fields is free, and so is a None that is never made.
    """
    if accepts_none(made) and not accepts_none(written):
        return path, made, written
    one, other = without_none(made), without_none(written)
    match one, other:
        case Record(), Record():
            return _misfit_of_fields(one, other, path)
        case Array(), Array():
            return misfit(one.items, other.items, f"{path}[]")
        case Map(), Map() if layout(one.keys) == layout(other.keys):
            return misfit(one.values, other.values, f"{path}{{}}")
        case Union(), Union():
            same = {repr(layout(each)) for each in one.branches} <= {
                repr(layout(each)) for each in other.branches
            }
            return None if same else (path, made, written)
    return None if layout(one) == layout(other) else (path, made, written)


def _misfit_of_fields(
    one: Record, other: Record, path: str
) -> tuple[str, Node | None, Node | None] | None:
    made = {field.name: field.type for field in one.fields}
    written = {field.name: field.type for field in other.fields}
    for name in [*made, *written]:
        place = f"{path}.{name}" if path else name
        if name not in made or name not in written:
            return place, made.get(name), written.get(name)
        found = misfit(made[name], written[name], place)
        if found is not None:
            return found
    return None
