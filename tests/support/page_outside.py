"""What lies outside of a page, in a dictionary."""

from __future__ import annotations


class OutsideValues:
    """See `statemigrate.pages.columns.Outside`; ``values`` are by family and key."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, bytes], bytes] = {}

    def get(self, family: str, key: bytes) -> bytes | None:
        return self.values.get((family, key))

    def put(self, family: str, key: bytes, value: bytes) -> None:
        self.values[family, key] = value

    def delete(self, family: str, key: bytes) -> None:
        del self.values[family, key]
