"""Which single types read which, by Avro's rules and with Spark's narrower types."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

from statemigrate.formats.schema.fingerprint import layout
from statemigrate.formats.schema.nodes import INTEGER_RANGES, Enum, Node, Primitive, type_name
from statemigrate.formats.schema.verdict import Verdict

_READERS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_LENGTH = re.compile(r"\((\d+)\)")


class Outcome(NamedTuple):
    """A verdict and what to know about it."""

    verdict: Verdict
    note: str = ""


def avro_reads(old: str, new: str) -> bool:
    """Say whether a reader of the primitive type ``new`` takes values of ``old``."""
    return old == new or new in _READERS.get(old, ())


def no_place(old: Node) -> Outcome:
    """Return the outcome for values that the new type has no branch for."""
    found = "None" if old == Primitive("null") else "the old type"
    return Outcome(Verdict.TRANSFORM, f"{found} has no place in the new type")


def promote(old: Node, new: Node) -> Outcome:
    """Say whether ``new`` reads values of ``old``, neither of them a union or a container."""
    if layout(old) == layout(new):
        return Outcome(Verdict.IDENTICAL)
    match old, new:
        case Enum(), Enum():
            return _enums(old, new)
        case Primitive(), Primitive():
            return _primitives(old, new)
    if old == Primitive("null"):
        return no_place(old)
    return Outcome(Verdict.TRANSFORM, "Avro has no rule from the old type to the new one")


def _enums(old: Enum, new: Enum) -> Outcome:
    gone = [symbol for symbol in old.symbols if symbol not in new.symbols]
    if not gone:
        return Outcome(Verdict.READABLE, "no old symbol is missing")
    if new.default is not None:
        return Outcome(Verdict.READABLE, f"{', '.join(gone)} will be read as {new.default}")
    return Outcome(Verdict.TRANSFORM, f"no symbol for {', '.join(gone)}")


def _primitives(old: Primitive, new: Primitive) -> Outcome:
    if old.type == "null":
        return no_place(old)
    if old.decimals or new.decimals or old.logical != new.logical:
        return Outcome(Verdict.TRANSFORM, "the same number would mean something else")
    if not avro_reads(old.type, new.type):
        return Outcome(Verdict.TRANSFORM, "Avro has no rule from the old type to the new one")
    # A type that is not narrow holds at least what Avro reads into it.
    if new.narrow and _capacity(old) > _capacity(new):
        return Outcome(Verdict.TRANSFORM, f"{type_name(new)} does not hold every old value")
    return Outcome(Verdict.READABLE, _caution(old, new))


def _capacity(node: Primitive) -> int:
    """Return how much the type holds: the highest number, or the most characters or decimals."""
    if node.type in INTEGER_RANGES and not node.logical:
        return INTEGER_RANGES[node.narrow or node.type][1]
    return _length(node)


def _length(node: Primitive) -> int:
    length = _LENGTH.search(node.narrow or "")
    return int(length[1]) if length else sys.maxsize


def _caution(old: Primitive, new: Primitive) -> str:
    if old.type in ("int", "long") and new.type in ("float", "double"):
        digits = 24 if new.type == "float" else 53
        return (
            f"numbers beyond 2**{digits} lose digits" if old.type == "long" or digits < 31 else ""
        )
    if (old.type, new.type) == ("bytes", "string"):
        return "bytes that are not UTF-8 cannot be read"
    return ""
