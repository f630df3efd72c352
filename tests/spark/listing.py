"""A processor that puts, appends and replaces the elements of a list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle


class Listing(StatefulProcessor):
    """Five elements a key, put and appended in every way there is."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.elements = handle.getListState("elements", "text STRING, n BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        name = key[0]
        self.elements.put([(f"{name} one", 1), (f"{name}, two", 2)])
        self.elements.appendValue((None, 3))
        self.elements.appendList([(f"{name} four", 4), ("", None)])
        yield pd.DataFrame({"key": [name]})

    def close(self) -> None:
        pass


def elements_of(name: str) -> list[dict[str, Any]]:
    """What the list of a key holds."""
    found = [(f"{name} one", 1), (f"{name}, two", 2), (None, 3), (f"{name} four", 4), ("", None)]
    return [{"text": text, "n": n} for text, n in found]
