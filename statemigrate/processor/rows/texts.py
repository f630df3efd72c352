"""Numbers as the texts that Spark makes of them for a STRING column."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7


def text_of(value: Any) -> Any:
    """The text of a boolean or a number, as Java writes it; everything else as it is.

    Of other values Java has texts too, but none that a value could be read back from.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _of_float(value)
    return str(value) if isinstance(value, int | Decimal) else value


def _of_float(number: float) -> str:
    if number != number or number in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN
        return str(number).replace("inf", "Infinity").replace("nan", "NaN")
    sign = "-" if str(number).startswith("-") else ""
    _, digits, exponent = Decimal(repr(abs(number))).normalize().as_tuple()
    text = "".join(map(str, digits))
    whole = len(text) + int(exponent)
    if number == 0 or _PLAIN_FROM <= abs(number) < _PLAIN_TO:
        return sign + _plain(text, whole)
    return f"{sign}{text[0]}.{text[1:] or '0'}E{whole - 1}"


def _plain(digits: str, whole: int) -> str:
    if whole <= 0:
        return f"0.{'0' * -whole}{digits}"
    return f"{digits[:whole].ljust(whole, '0')}.{digits[whole:] or '0'}"
