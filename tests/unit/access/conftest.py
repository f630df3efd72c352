"""Benches in memory, on disk and in a page, for the rules of dual access."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.benches import BENCHES, MemoryBench, PageBench, RocksBench

KINDS = {"notes": "value", "lists": "list", "maps": "map"}


@pytest.fixture(params=BENCHES, ids=["in memory", "on disk", "in a page"])
def bench(request, tmp_path: Path) -> Iterator[MemoryBench | RocksBench | PageBench]:
    """One partition with a store of each kind."""
    made = request.param(tmp_path, KINDS)
    yield made
    if isinstance(made, RocksBench):
        made.close()
