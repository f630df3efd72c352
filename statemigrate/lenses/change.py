"""A declared change of a format: both functions, in both forms, and their properties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from statemigrate.errors import ScriptError
from statemigrate.formats import Format, Value
from statemigrate.formats.schema import Node, Record, field_paths, type_name
from statemigrate.lenses.columns import TableFunction, by_value
from statemigrate.lenses.complement import Remainder, carry
from statemigrate.lenses.differences import copied
from statemigrate.lenses.expressions import Column, Expression, Shape, input_shape, ordered
from statemigrate.lenses.fields import LensChain
from statemigrate.lenses.lens import format_of, misfit
from statemigrate.lenses.python_code import function_of, is_total, refusals


@dataclass(frozen=True)
class Change:
    """A chain of lenses between two formats.

    ``up`` and ``down`` are what a value becomes; ``down`` is None if a lens has no way back.
    """

    chain: LensChain
    old: Format
    new: Format
    up: Expression
    down: Expression | None

    @classmethod
    def of(cls, chain: LensChain, old: Format, new: Format | None = None) -> Change:
        """The change that lenses are for a format; ``new`` is derived, or checked if it is given.

        Raises ScriptError where a lens does not fit, and where ``new`` is another format.
        """
        before = input_shape(old.schema)
        made = chain.forward(before).closed()
        new = format_of(_record(made.type), old) if new is None else new
        _check(made.type, new.schema, "`new` is not what the lenses make of `old`")
        back = chain.back(before)
        down = None
        if back is not None:
            found = back.forward(input_shape(new.schema)).closed()
            # A way back may give None where old values had none: the format refuses it then.
            down = _arranged(found, old.schema)
        return cls(chain, old, new, _arranged(made, new.schema), down)

    @cached_property
    def upgrade(self) -> Callable[[Value], Value]:
        """The way up of one value."""
        return function_of(self.up, "upgrade")

    @cached_property
    def downgrade(self) -> Callable[[Value], Value] | None:
        """The way back of one value."""
        return None if self.down is None else function_of(self.down, "downgrade")

    def get(self, value: Value, left: Remainder | None = None) -> tuple[Value, Remainder | None]:
        """The way up of one value, and what the way back would not bring.

        ``left`` is what the value has left behind when it came down. Of lenses without a way back
        nothing is left behind.
        """
        exact = self.down is None or self.leaves_nothing
        return carry(value, self._up_from, self._down_from, left, exact=exact)

    def put(self, value: Value, left: Remainder | None = None) -> tuple[Value, Remainder | None]:
        """The way back of one value with what it has left behind, and what it leaves behind now."""
        return carry(value, self._down_from, self._up_from, left)

    def _up_from(self, value: Value) -> Value:
        if self.upgrade_fits:
            return self.upgrade(value)
        return self.new.conform(self.upgrade(copied(value)))

    def _down_from(self, value: Value) -> Value:
        if self.downgrade is None:
            raise TypeError("these lenses have no way back")
        if self.downgrade_fits:
            return self.downgrade(value)
        return self.old.conform(self.downgrade(copied(value)))

    @property
    def upgrade_table(self) -> TableFunction:
        """The way up of a table of entries."""
        return TableFunction(self.up, self.new.schema)

    @property
    def downgrade_table(self) -> TableFunction | None:
        """The way back of a table of entries."""
        return None if self.down is None else TableFunction(self.down, self.old.schema)

    def in_columns(self, way: Way) -> TableFunction | None:
        """A way of a table of entries; None where a function has to be called for each value."""
        function = self.upgrade_table if way == "upgrade" else self.downgrade_table
        return None if function is None or by_value(function.expression) else function

    def fits(self, way: Way) -> bool:
        """Whether a way changes no value, and fails or makes one that its format holds as it is."""
        return self.upgrade_fits if way == "upgrade" else self.downgrade_fits

    def leading(self, way: Way) -> tuple[LensChain, Record]:
        """The lenses of a way, and the record that it leads to; a way back is there."""
        if way == "upgrade":
            return self.chain, self.new.schema
        back = self.chain.back(input_shape(self.old.schema))
        assert back is not None, "no path goes down where there is no way back"  # noqa: S101
        return back, self.old.schema

    @property
    def drops(self) -> tuple[str, ...]:
        """The fields of either format that one of the two ways loses, as the script's ``drops``."""
        known = field_paths(self.old.schema, self.new.schema)
        names = dict.fromkeys(self.chain.dropped(input_shape(self.old.schema)))
        return tuple(name for name in names if name in known)

    @property
    def words(self) -> tuple[str, ...]:
        """What each lens does, as in "renames name to title"."""
        return tuple(each.words for each in self.chain.lenses)

    @property
    def losses(self) -> tuple[str, ...]:
        """What does not come back as it was; none where a way back restores every value."""
        return self.chain.losses(input_shape(self.old.schema))

    @cached_property
    def comes_back(self) -> bool:
        """Whether each value that goes up comes back as it was."""
        return self.down is not None and not self.losses

    @cached_property
    def leaves_nothing(self) -> bool:
        """Whether it is certain that the way up leaves nothing out: a script's function may."""
        return self.comes_back and not self.by_value

    @property
    def comes_forth(self) -> bool:
        """Whether each new value that goes back comes up again as it was."""
        back = self.chain.back(input_shape(self.old.schema))
        if back is None:
            return False
        shape = input_shape(self.new.schema)
        return not (back.losses(shape) or back.dropped(shape))

    @property
    def by_value(self) -> tuple[str, ...]:
        """The functions that a table calls for each value, since they have no columnar form."""
        return tuple(by_value(self.up))

    @cached_property
    def upgrade_fits(self) -> bool:
        """Whether the way up changes no value and fails or makes one that ``new`` holds as it is.

        A function of the script may do anything.
        """
        return not self.by_value

    @cached_property
    def downgrade_fits(self) -> bool:
        """The same for the way back, which may give None where ``old`` has none."""
        if self.down is None or any(by_value(self.down)):
            return False
        back, _ = self.leading("downgrade")
        made = back.forward(input_shape(self.new.schema)).closed()
        return misfit(made.type, self.old.schema) is None

    @property
    def is_total(self) -> bool:
        """Whether every value has a way up."""
        return is_total(self.up)


Way = Literal["upgrade", "downgrade"]


def composed(ways: Sequence[tuple[Change, Way]]) -> Callable[[Value], Value] | None:
    """Several ways as one function, whose cost does not grow with their number.

    None where one after the other is not the same: what is between two of them has to fit the
    format there, or to fail. So a function of the script may only be in the last, and a value that
    a lens does not take has to reach the end.
    """
    made = _composed(ways)
    return None if made is None else function_of(made.value, ways[-1][1])


def composed_table(ways: Sequence[tuple[Change, Way]]) -> TableFunction | None:
    """The same of tables."""
    made = _composed(ways)
    return None if made is None else TableFunction(made.value, _record(made.type))


def _composed(ways: Sequence[tuple[Change, Way]]) -> Column | None:
    first, way = ways[0]
    shape = input_shape((first.old if way == "upgrade" else first.new).schema)
    made = shape.closed()
    refusing: set[object] = set()
    for change, way in ways:
        chain, record = change.leading(way)
        made = chain.forward(shape).closed()
        is_last = change is ways[-1][0]
        if not is_last and (by_value(made.value) or misfit(made.type, record) is not None):
            return None
        made = ordered(made, record)
        refusing |= refusals(made.value)
        shape = Shape.of(Column(made.value, record))
    return Column(made.value, record) if refusing <= refusals(made.value) else None


def _arranged(made: Column, record: Record) -> Expression:
    return ordered(made, record).value


def _record(node: Node) -> Record:
    assert isinstance(node, Record), "the whole value is a struct, and no lens makes it None"  # noqa: S101
    return node


def _check(made: Node, written: Node, problem: str) -> None:
    found = misfit(made, written)
    if found is None:
        return
    path, one, other = found
    raise ScriptError(
        "SM-LENS-007",
        f"{problem}: `{path}` differs.",
        expected=f"{path}: {_described(one)}",
        found=f"{path}: {_described(other)}",
        next_action="correct `new`, add a lens, or remove `new`: it is derived then",
        field=path,
    )


def _described(node: Any) -> str:
    return "no such field" if node is None else type_name(node)
