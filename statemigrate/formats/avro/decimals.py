"""The check of a decimal: the digits that fit, and trailing zeros made to fit."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

from statemigrate.formats.avro.leaf import Leaf, Refusal
from statemigrate.formats.schema.nodes import Decimals


def decimal_leaf(decimals: Decimals) -> Leaf:
    """Return the check for at most ``scale`` digits after the point and ``precision`` in all.

    ``Decimal("1.500")`` fits a scale of 2, since it equals ``Decimal("1.50")``.
    """
    whole = decimals.precision - decimals.scale
    return Leaf(
        f"{decimals}, a Decimal with at most {whole} digits before the point"
        f" and {decimals.scale} after it",
        _accepts(decimals),
        _convert(decimals),
    )


def _accepts(decimals: Decimals) -> Callable[[Any], bool]:
    lowest, whole = -decimals.scale, decimals.precision - decimals.scale

    def accepts(value: Any) -> bool:
        if type(value) is not Decimal or not value.is_finite():
            return False
        _, digits, exponent = value.as_tuple()
        # A finite Decimal's exponent is an int; the type allows for the letters of NaN too.
        return lowest <= exponent and len(digits) + exponent <= whole  # type: ignore[operator]

    return accepts


def _convert(decimals: Decimals) -> Callable[[Any], Decimal]:
    # Room for any value as written: what does not fit is judged by ``accepts`` afterwards.
    context = Context(prec=decimals.precision, traps=[Inexact, InvalidOperation])
    unit = Decimal(1).scaleb(-decimals.scale)

    def convert(value: Any) -> Decimal:
        if not isinstance(value, Decimal):
            raise Refusal("")
        if not value.is_finite():
            raise Refusal("which is not finite")
        try:
            return Decimal(value).quantize(unit, context=context)
        except (Inexact, InvalidOperation) as error:
            raise Refusal("which has digits more than that") from error

    return convert
