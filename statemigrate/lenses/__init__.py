"""Lenses: declared changes of a format, each with its way back.

A script imports them from here: ``from statemigrate.lenses import cast, lens, rename``.
"""

from statemigrate.lenses.change import Change, composed, composed_table
from statemigrate.lenses.columns import TableFunction
from statemigrate.lenses.complement import Complement, Remainder, ScriptRemainder, carry
from statemigrate.lenses.differences import content_hash, copied
from statemigrate.lenses.expressions import input_shape
from statemigrate.lenses.fields import (
    LensChain,
    add,
    drop,
    each,
    entries,
    lens,
    move,
    rename,
    unwrap,
    wrap,
)
from statemigrate.lenses.lens import Lens, ddl_of, format_of
from statemigrate.lenses.operations import decimals_of
from statemigrate.lenses.values import cast, default, function, join, map_values, scale, split

__all__ = [
    "Change",
    "Complement",
    "Lens",
    "LensChain",
    "Remainder",
    "ScriptRemainder",
    "TableFunction",
    "add",
    "carry",
    "cast",
    "composed",
    "composed_table",
    "content_hash",
    "copied",
    "ddl_of",
    "decimals_of",
    "default",
    "drop",
    "each",
    "entries",
    "format_of",
    "function",
    "input_shape",
    "join",
    "lens",
    "map_values",
    "move",
    "rename",
    "scale",
    "split",
    "unwrap",
    "wrap",
]
