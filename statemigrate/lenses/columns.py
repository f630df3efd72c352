"""An expression on Arrow columns: many values at once, with the same result as one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from statemigrate.formats import plain_array, plain_values
from statemigrate.formats.avro import arrow_type
from statemigrate.formats.schema import Record
from statemigrate.lenses.expressions import (
    Apply,
    Build,
    Constant,
    Elements,
    Expression,
    Filled,
    Get,
    Input,
    Joined,
    TextPart,
    Unless,
)
from statemigrate.lenses.python_code import inner


def by_value(expression: Expression) -> list[str]:
    """What of an expression has no columnar form, by the name of the function."""
    found = [name for each in inner(expression) for name in by_value(each)]
    if isinstance(expression, Elements):
        found += by_value(expression.body)
    if isinstance(expression, Apply):
        function = getattr(expression.operation, "function", None)
        found += [getattr(function, "__name__", "a function")] if function else []
    return found


@dataclass(frozen=True)
class TableFunction:
    """The ``upgrade_table`` or ``downgrade_table`` that an expression is."""

    expression: Expression
    type: Record

    def __call__(self, table: Any) -> Any:
        """The table with new values. Raises ValueError for a value that a lens does not take."""
        import pyarrow as pa

        place = table.schema.get_field_index("value")
        chunks = [_Columns(each).array(self.expression) for each in table.column(place).chunks]
        column = pa.chunked_array(chunks, None if chunks else arrow_type(self.type))
        return table.set_column(place, "value", column)


@dataclass
class _Columns:
    """The arrays of expressions over one array of values; each is made once."""

    value: Any
    made: dict[Expression, Any] = field(default_factory=dict)

    def array(self, expression: Expression) -> Any:
        if expression not in self.made:
            self.made[expression] = self._array(expression)
        return self.made[expression]

    def _array(self, expression: Expression) -> Any:  # noqa: PLR0911  # one a kind
        import pyarrow as pa
        import pyarrow.compute as pc

        match expression:
            case Input():
                return self.value
            case Get(base=base, name=name):
                struct = self.array(base)
                return pc.struct_field(struct, [struct.type.get_field_index(name)])
            case Constant(value=value, type=kind):
                if value is None:
                    # A scalar would load pandas, which takes half a second.
                    return pa.nulls(len(self.value), arrow_type(kind))
                single = plain_array([value], arrow_type(kind))
                return pa.repeat(single[0], len(self.value))
            case Build(fields=fields, null_of=null_of):
                return self._struct(dict(fields), null_of)
            case Unless(null_of=null_of, value=value):
                array = self.array(value)
                return pc.if_else(self._null(null_of), pa.nulls(1, array.type)[0], array)
            case Apply(operation=operation, value=value):
                return _applied(operation, self.array(value))
            case Filled(value=value, filling=filling):
                array = self.array(value)
                single = plain_array([filling.value], array.type)
                return pc.if_else(pc.is_null(array), single[0], array)
            case TextPart(value=value, separator=separator, count=count, index=index):
                return _part(self.array(value), separator, count, index)
            case Joined(values=values, separator=separator):
                return _joined([self.array(each) for each in values], separator)
            case Elements():
                return self._elements(expression)
        raise AssertionError(expression)

    def _null(self, null_of: tuple[Expression, ...]) -> Any:
        import pyarrow.compute as pc

        first, *rest = (pc.is_null(self.array(each)) for each in null_of)
        for each in rest:
            first = pc.and_(first, each)
        return first

    def _struct(self, fields: dict[str, Expression], null_of: tuple[Expression, ...]) -> Any:
        import pyarrow as pa

        arrays = [self.array(each) for each in fields.values()]
        if not arrays:
            kind = pa.struct([])
            nulls = self._null(null_of).to_pylist() if null_of else [False] * len(self.value)
            return pa.array([None if each else {} for each in nulls], kind)
        mask = self._null(null_of) if null_of else None
        return pa.StructArray.from_arrays(arrays, list(fields), mask=mask)

    def _elements(self, expression: Elements) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        array = self.array(expression.value)
        within = array.items if expression.of_map else array.values
        made = _Columns(within).array(expression.body)
        offsets = pc.add(array.offsets, 0)
        mask = pc.is_null(array) if array.null_count else None
        if expression.of_map:
            return pa.MapArray.from_arrays(offsets, array.keys, made, mask=mask)
        return pa.ListArray.from_arrays(offsets, made, mask=mask)


def _applied(operation: Any, array: Any) -> Any:
    import pyarrow as pa

    try:
        found = operation.column(array)
    except pa.ArrowInvalid:
        # Arrow doubts a value: the form for one value decides, and names it.
        found = None
    if found is not None:
        return found
    made = [None if each is None else operation(each) for each in plain_values(array)]
    return plain_array(made, arrow_type(operation.type))


def _part(array: Any, separator: str, count: int, index: int) -> Any:
    import pyarrow.compute as pc

    parts = pc.split_pattern(array, separator, max_splits=count - 1)
    has = pc.fill_null(pc.greater(pc.list_value_length(parts), index), False)
    padded = pc.list_slice(parts, index, index + 1, return_fixed_size_list=True)
    return pc.if_else(has, pc.list_element(padded, 0), None).cast(array.type)


def _joined(arrays: list[Any], separator: str) -> Any:
    import pyarrow.compute as pc

    made, *rest = arrays
    for each in rest:
        both = pc.binary_join_element_wise(made, each, separator)
        made = pc.if_else(pc.is_null(each), made, pc.if_else(pc.is_null(made), each, both))
    return made
