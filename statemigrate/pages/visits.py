"""The processor that Spark runs: called for a page, it calls the user's for each key of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from statemigrate.pages.deployed import PagedDeployment
from statemigrate.pages.families import FINGERPRINT
from statemigrate.pages.handle import PagedHandle
from statemigrate.pages.page.layout import Place
from statemigrate.pages.page.page import Page
from statemigrate.pages.rows import Packing, Unpacking
from statemigrate.pages.stores import PageStores
from statemigrate.processor.garbage import few_collections
from statemigrate.processor.keys import KeyCodec
from statemigrate.processor.variables import GroupingKey, dual_variable

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

VARIABLE = "statemigrate_pages"
"""The state variable that has the pages, as ``page``."""
SCHEMA = "page BINARY"
OUTPUT = "rows BINARY"
_ROWS_A_PACKAGE = 10_000


class PagedProcessor(StatefulProcessor):
    """Serves all of a page's touched keys in one visit: the page is read and written once."""

    def __init__(self, processor: Any, deployment: PagedDeployment) -> None:
        self._processor = processor
        self._deployment = deployment

    def init(self, handle: Any) -> None:
        """Make the user's variables, over whichever page is visited."""
        deployment = self._deployment
        deployment.seen.compare_in_task()
        self._state = handle.getValueState(VARIABLE, SCHEMA)
        keys = KeyCodec(deployment.key)
        self._encode = keys.encode
        self._fingerprint = key_fingerprint(deployment.key)
        self._stores = PageStores(deployment.plans, deployment.settings, keys)
        self._unpacking = Unpacking(deployment.key_columns)
        self._packing = Packing(deployment.output)
        self._key = GroupingKey()
        mine = PagedHandle(
            lambda declared: dual_variable(declared, self._stores.open(declared), self._key)
        )
        mine.key = self._key
        self._processor.init(mine)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Call the user's method for each key; then migrate, and write the page if it changed."""
        with few_collections():
            stored = self._state.get()
            place = Place(self._deployment.pages, key[0], self._fingerprint)
            page = Page(place, None if stored is None else bytes(stored[0]))
            self._stores.turn(page)
            output: list[Any] = []
            for rows_of_key in self._unpacking.by_key(rows):
                self._call(rows_of_key, timerValues, output)
                if len(output) >= _ROWS_A_PACKAGE:
                    yield Row(rows=self._packing.packed(output))
                    output = []
            self._stores.migrate()
            self._write(page)
            if output:
                yield Row(rows=self._packing.packed(output))

    def close(self) -> None:
        """Call the user's method, and tell what was migrated."""
        self._processor.close()
        if self._deployment.counts is not None:
            counts = [access.counts for access in self._stores.accesses]
            touched, moved = (
                sum(each) for each in ([c.touched for c in counts], [c.backfilled for c in counts])
            )
            self._deployment.counts.add(touched, moved, self._stores.quarantined)

    def _call(self, rows: list[Any], times: Any, output: list[Any]) -> None:
        key = tuple([rows[0][at] for at in self._deployment.key_columns])
        self._key.data = self._encode(key)
        output.extend(self._processor.handleInputRows(key, iter(rows), times))

    def _write(self, page: Page) -> None:
        if not page.is_changed:
            return
        data = page.written()
        if data is None:
            self._state.clear()
        else:
            self._state.update((data,))


def key_fingerprint(key: StructType) -> bytes:
    """What a page keeps of the key's columns: names and types, whatever may be null."""
    columns = [[field.name, field.dataType.jsonValue()] for field in key.fields]
    document = json.dumps(columns, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(document.encode()).digest()[:FINGERPRINT]
