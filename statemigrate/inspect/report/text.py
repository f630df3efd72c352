"""Numbers and texts of a report as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def counted(number: int, noun: str) -> str:
    """The number with its noun, which takes an s: ``1 value``, ``2,000 values``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: float) -> str:
    """Bytes in the unit that fits, as in ``11.8 MiB``."""
    if number < 1024:
        return f"{number:,.0f} B"
    for unit in _UNITS:
        number /= 1024
        # 1023.96 would be shown as 1,024.0.
        if number < 1023.95 or unit == _UNITS[-1]:
            break
    return f"{number:,.1f}".removesuffix(".0") + f" {unit}"


def moment(seconds: float) -> str:
    """Unix seconds as everybody everywhere reads them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def duration(seconds: float) -> str:
    """Seconds in the units that fit, as in ``3 min 20 s``."""
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, smaller, length, part in (("min", "s", 60, 1), ("h", "min", 3600, 60)):
        if whole < length * (60 if unit == "min" else 24):
            return f"{whole // length} {unit} {whole % length // part} {smaller}"
    return f"{whole // 86400:,} d {whole % 86400 // 3600} h"


def rough(seconds: float) -> str:
    """A `duration` that nobody needs to the hundredth of a second."""
    return f"{seconds:.0f} s" if seconds < 59.5 else duration(seconds)
