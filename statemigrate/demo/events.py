"""The events: persons, auctions and bids, after the Nexmark benchmark's auction house.

Money is in cents. Half of the bids go to hot auctions, every hundredth of the recently opened ones,
the others to any auction; a few name an auction that opens a moment later, as in Nexmark.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from statemigrate.demo.demo_size import DemoOptions

SCHEMA = (
    "event BIGINT, kind STRING, entity STRING, name STRING, city STRING, category STRING, "
    "seller BIGINT, bidder BIGINT, price BIGINT"
)
"""The columns of the stream. ``entity`` is the key: ``person-<id>`` or ``auction-<id>``."""

OPENING = 0.5  # persons and auctions appear in this first part of the time
HOT_SHARE = 0.5
HOT_EVERY = 100
HOT_RECENT = 20
LEAD = 10  # a bid may be this many auctions ahead of the last one opened

_NAMES = ("Ada", "Ben", "Chloe", "Deepak", "Elif", "Femi", "Grete", "Hiro", "Ines", "Jonas")
_CITIES = ("Ankara", "Bergen", "Cusco", "Dakar", "Essen", "Fez", "Genoa", "Hanoi")
_CATEGORIES = ("books", "clocks", "coins", "lamps", "maps", "records", "stamps", "tools")


def make_events(options: DemoOptions) -> pa.Table:
    """All events in the order they happen, every person and auction with a row of its own."""
    random = np.random.default_rng(options.seed)
    opened = np.sort(random.uniform(0, OPENING, options.auctions))
    times = [
        random.uniform(0, OPENING, options.persons),
        opened,
        np.sort(random.uniform(0, 1, options.bids)),
    ]
    parts = [
        _persons(random, options),
        _auctions(random, options),
        _bids(random, options, opened, times[-1]),
    ]
    order = np.argsort(np.concatenate(times), kind="stable")
    events = pa.concat_tables(parts, promote_options="default").take(pa.array(order))
    numbers = pa.array(np.arange(options.events))
    return events.add_column(0, "event", numbers).select(_column_names())


def write_files(events: pa.Table, directory: Path, count: int) -> list[Path]:
    """Write the events as ``count`` Parquet files of equal size, in their order."""
    directory.mkdir(parents=True, exist_ok=True)
    bounds = np.linspace(0, events.num_rows, count + 1).astype(int).tolist()
    paths = []
    for number, (start, end) in enumerate(pairwise(bounds)):
        path = directory / f"{number:04d}.parquet"
        pq.write_table(events.slice(start, end - start), path)
        paths.append(path)
    return paths


def _persons(random: np.random.Generator, options: DemoOptions) -> pa.Table:
    ids = np.arange(options.persons)
    return pa.table(
        {
            "kind": _repeated("person", options.persons),
            "entity": _numbered("person", ids),
            "name": _chosen(random, _NAMES, options.persons),
            "city": _chosen(random, _CITIES, options.persons),
        }
    )


def _auctions(random: np.random.Generator, options: DemoOptions) -> pa.Table:
    ids = np.arange(options.auctions)
    return pa.table(
        {
            "kind": _repeated("auction", options.auctions),
            "entity": _numbered("auction", ids),
            "name": _numbered("lot", random.permutation(ids)),
            "category": _chosen(random, _CATEGORIES, options.auctions),
            "seller": pa.array(random.integers(0, options.persons, options.auctions)),
        }
    )


def _bids(random: np.random.Generator, options: DemoOptions, opened: Any, times: Any) -> pa.Table:
    count = options.bids
    known = np.clip(np.searchsorted(opened, times) + LEAD, 1, options.auctions)
    recent = (known - 1) // HOT_EVERY - random.integers(0, HOT_RECENT, count)
    hot = np.maximum(recent, 0) * HOT_EVERY
    cold = (random.random(count) * known).astype(np.int64)
    auction = np.where(random.random(count) < HOT_SHARE, hot, cold)
    return pa.table(
        {
            "kind": _repeated("bid", count),
            "entity": _numbered("auction", auction),
            "bidder": pa.array(random.integers(0, options.persons, count)),
            "price": pa.array(random.lognormal(8, 1, count).astype(np.int64) + 1),
        }
    )


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(text, count)


def _numbered(prefix: str, numbers: Any) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pc.cast(pa.array(numbers), pa.string()), "-")


def _chosen(random: np.random.Generator, words: Sequence[str], count: int) -> pa.Array:
    return pa.array(words).take(pa.array(random.integers(0, len(words), count)))


def _column_names() -> list[str]:
    return [column.split()[0] for column in SCHEMA.split(", ")]
