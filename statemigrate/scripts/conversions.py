"""How a single value of one type becomes one of another type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from statemigrate.formats.schema import (
    Decimals,
    Enum,
    Fixed,
    Node,
    Primitive,
    Union,
    fits_all_values,
    fits_integers,
    kind_of,
    layout,
)
from statemigrate.scripts.source import Doc, call


@dataclass(frozen=True)
class Conversion:
    """``apply`` makes the source of the new value out of that of the old one.

    ``guess`` says that other ways would be as right, ``fits`` that every old value has a new one.
    """

    apply: Callable[[Doc], Doc]
    guess: bool = False
    fits: bool = True


def conversion(old: Node, new: Node) -> Conversion | None:
    """Return the best way between two types without None, neither a container, if there is one.

    Unions of several types have a way only to what they share.
    """
    if layout(old) == layout(new):
        return _UNCHANGED
    if isinstance(old, Union) or isinstance(new, Union):
        return _between_unions(old, new)
    kinds = kind_of(old), kind_of(new)
    if kinds[0] == kinds[1] != "":
        return _resized(old, new)
    make = _BETWEEN.get(kinds)
    return None if make is None else make(old, new)


def _as_is(value: Doc) -> Doc:
    return value


_UNCHANGED = Conversion(_as_is)


def _between_unions(old: Node, new: Node) -> Conversion | None:
    before, after = _layouts(old), _layouts(new)
    shared = [each for each in before if each in after]
    return Conversion(_as_is, fits=len(shared) == len(before)) if shared else None


def _layouts(node: Node) -> list[object]:
    return [layout(each) for each in (node.branches if isinstance(node, Union) else (node,))]


def _resized(old: Node, new: Node) -> Conversion | None:
    if isinstance(old, Fixed) and isinstance(new, Fixed) and kind_of(old) == "bytes":
        return None
    return Conversion(_as_is, fits=fits_all_values(new, old))


def _from_integer(old: Node, new: Node) -> Conversion:
    exact = fits_integers(new, old)
    if kind_of(new) == "float":
        # A format takes an int for a float, but only one that stays the same number.
        return _UNCHANGED if exact else Conversion(partial(call, "float"), guess=True)
    return Conversion(partial(call, "Decimal"), guess=True, fits=exact)


def _rounded(_: Node, new: Node) -> Conversion:
    decimals = new.decimals if isinstance(new, Primitive | Fixed) else None
    assert isinstance(decimals, Decimals)  # noqa: S101  # the table says so
    places = f'".{decimals.scale}f"'
    return Conversion(
        lambda value: call("Decimal", call("format", value, places)), guess=True, fits=False
    )


def _to_text(_: Node, new: Node) -> Conversion:
    return Conversion(partial(call, "str"), guess=True, fits=_is_any_text(new))


def _decoded(_: Node, new: Node) -> Conversion:
    return Conversion(
        lambda value: call("str", value, '"utf-8"', '"replace"'), guess=True, fits=_is_any_text(new)
    )


def _encoded(_: Node, new: Node) -> Conversion:
    return Conversion(
        lambda value: (value, ".encode()"), guess=True, fits=not isinstance(new, Fixed)
    )


def _is_any_text(node: Node) -> bool:
    return not isinstance(node, Enum) and not (isinstance(node, Primitive) and node.narrow)


def _by(function: str, *rest: str, fits: bool = True) -> Callable[[Node, Node], Conversion]:
    found = Conversion(lambda value: call(function, value, *rest), guess=True, fits=fits)
    return lambda _old, _new: found


def _method(text: str, fits: bool = True) -> Callable[[Node, Node], Conversion]:
    found = Conversion(lambda value: (value, text), guess=True, fits=fits)
    return lambda _old, _new: found


def _at_midnight(zone: str) -> Callable[[Node, Node], Conversion]:
    return _by("datetime.combine", "time()", *([zone] if zone else []))


_BETWEEN: dict[tuple[str, str], Callable[[Node, Node], Conversion]] = {
    ("integer", "float"): _from_integer,
    ("integer", "decimal"): _from_integer,
    ("integer", "boolean"): _by("bool"),
    ("float", "integer"): _by("int", fits=False),
    ("float", "decimal"): _rounded,
    ("float", "boolean"): _by("bool"),
    ("decimal", "integer"): _by("int", fits=False),
    ("decimal", "float"): _by("float", fits=False),
    ("boolean", "integer"): _by("int"),
    ("boolean", "float"): _by("float"),
    ("text", "integer"): _by("int", fits=False),
    ("text", "float"): _by("float", fits=False),
    ("text", "decimal"): _by("Decimal", fits=False),
    ("text", "date"): _by("date.fromisoformat", fits=False),
    ("text", "time"): _by("time.fromisoformat", fits=False),
    ("text", "instant"): _by("datetime.fromisoformat", fits=False),
    ("text", "local"): _by("datetime.fromisoformat", fits=False),
    ("text", "bytes"): _encoded,
    ("bytes", "text"): _decoded,
    ("date", "local"): _at_midnight(""),
    ("date", "instant"): _at_midnight("UTC"),
    ("instant", "date"): _method(".date()"),
    ("local", "date"): _method(".date()"),
    ("instant", "local"): _method(".replace(tzinfo=None)", fits=False),
    ("local", "instant"): _method(".replace(tzinfo=UTC)", fits=False),
} | {
    (kind, "text"): _to_text
    for kind in ("integer", "float", "decimal", "boolean", "date", "time", "instant", "local")
}
