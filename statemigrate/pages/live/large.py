"""Where the large values of a page lie: in a map of Spark's state, beside the page."""

from __future__ import annotations

from typing import Any

from statemigrate.pages.record import large_of
from statemigrate.processor.variables.handle import struct_of


class LargeValues:
    """`Outside` of the page that is visited: Spark has a map of its own for each."""

    def __init__(self, handle: Any, operator: str = "") -> None:
        key, value = struct_of("family STRING, key BINARY"), struct_of("value BINARY")
        self._map = handle.getMapState(large_of(operator), key, value)

    def get(self, family: str, key: bytes) -> bytes | None:
        """See `Outside.get`."""
        found = self._map.getValue((family, key))
        return None if found is None else bytes(found[0])

    def put(self, family: str, key: bytes, value: bytes) -> None:
        """See `Outside.put`."""
        self._map.updateValue((family, key), (value,))

    def delete(self, family: str, key: bytes) -> None:
        """See `Outside.delete`."""
        self._map.removeKey((family, key))
