"""Numbers and texts of a report as people read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from statemigrate.errors import without_credentials

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

# Control characters, what turns the direction of the text around it, tags that nobody sees, and
# what XML does not allow.
_CLASS = (
    r"\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    r"\ufffe\uffff\U000e0000-\U000e007f"
)
_UNSEEN = re.compile(rf"[\x00-\x1f{_CLASS}]")
_UNSEEN_IN_LINES = re.compile(rf"[\x00-\x08\x0b-\x1f{_CLASS}]")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: object) -> str:
    r"""The text on one line, with an escape such as ``\x1b`` for each character nobody sees.

    Keys and values come from state: what is not seen could steer a terminal, break XML, or show
    the characters around it in another order.
    """
    return _UNSEEN.sub(_escape, without_credentials(str(text)))


def printable(text: str) -> str:
    """The text in its lines, everything else as `visible` shows it."""
    return _UNSEEN_IN_LINES.sub(_escape, without_credentials(text))


def printable_json(text: str) -> str:
    """A JSON text that says the same, with JSON's own escape for each character nobody sees."""
    return _UNSEEN_IN_LINES.sub(_json_escape, without_credentials(text))


def visible_lines(text: str) -> list[str]:
    """The lines of a text, each `visible`."""
    return [visible(line) for line in text.replace("\r\n", "\n").split("\n")]


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


def _escape(match: re.Match[str]) -> str:
    found = match.group()
    code = ord(found)
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return _SHORT.get(found) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def _json_escape(match: re.Match[str]) -> str:
    # Beyond the first plane JSON has two halves.
    halves = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{int.from_bytes(halves[i : i + 2], 'big'):04x}" for i in range(0, len(halves), 2)
    )
