"""Java's ``DataOutput.writeUTF``: two bytes of length, then text in a UTF-8 of its own.

There NUL has two bytes, and a character beyond the first 65,536 is written as its two surrogates.
Longer text is written by Spark as a count and that many such texts (``SchemaHelper.scala``).
"""

from __future__ import annotations

LONGEST = 65_535
"""Bytes of one text; characters of a part of a longer one, as Spark cuts it."""
_WIDEST = 3
"""Bytes of a UTF-16 unit."""


class JavaReader:
    """Reads what Java's ``DataOutputStream`` wrote, from the front.

    Methods raise ValueError where the data end too early, or are no such text.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def place(self) -> int:
        """How many bytes were read."""
        return self._at

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return self._at == len(self._data)

    def integer(self, size: int = 4) -> int:
        """A number with a sign, in ``size`` bytes."""
        return int.from_bytes(self._take(size), signed=True)

    def text(self) -> str:
        """What ``writeUTF`` wrote."""
        units = self._take(int.from_bytes(self._take(2))).replace(b"\xc0\x80", b"\0")
        paired = units.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass")
        return paired.decode("utf-16-le")

    def parts(self) -> str:
        """A text written as a count and its parts."""
        count = self.integer()
        if not 0 <= count <= len(self._data):
            raise ValueError(f"a text of {count} parts")
        return "".join(self.text() for _ in range(count))

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise ValueError("the file ends too early")
        found = self._data[self._at : end]
        self._at = end
        return found


def java_text(text: str) -> bytes:
    """``text`` as ``writeUTF`` has it. Raises ValueError for one of more than 65,535 bytes."""
    units = text.encode("utf-16-le", "surrogatepass")
    characters = (units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in _pairs(units))
    if text.isascii() and "\0" not in text:
        data = text.encode()
    else:
        data = "".join(characters).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    if len(data) > LONGEST:
        raise ValueError(f"a text of {len(data):,} bytes")
    return len(data).to_bytes(2) + data


def java_parts(text: str) -> bytes:
    """``text`` as a count and parts that `java_text` can hold, cut where Spark cuts plain text."""
    size = LONGEST if text.isascii() else LONGEST // (2 * _WIDEST)
    parts = [text[at : at + size] for at in range(0, max(1, len(text)), size)]
    return len(parts).to_bytes(4) + b"".join(map(java_text, parts))


def _pairs(units: bytes) -> range:
    return range(0, len(units), 2)
