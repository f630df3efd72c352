"""The embedded engine beside other stream processors' state, each by an interpreter of its own."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.dry_runs import checkpoint, stored_values
from benchmarks.lenses import ORDERS, order_script
from benchmarks.measuring import Result, codec_in_python
from benchmarks.peers.counting import counting, keeping_records, keeping_tables
from benchmarks.peers.whole import handed_on_query, sql_query, tables_query, whole_batches
from benchmarks.records import KINDS, Load, keys_of

_PYTHON = Path(".venv-peers/bin/python")
_FOLDER = "statemigrate-peers-"
_PEER = Path(__file__).with_name("quix.py")
Round = dict[str, float]


def measure(keys: int = 200_000, records: int = 1_000_000, rounds: int = 5) -> list[Result]:
    """A partition's loop, whole batches, a stopped backfill: against Quix Streams in a process."""
    _require_peer()
    return [
        *_loop(keys, rounds),
        *_records(keys // 5, rounds),
        *_whole(keys, rounds),
        *_backfill(records, rounds),
    ]


def _loop(keys: int, rounds: int) -> list[Result]:
    ours: list[Round] = []
    theirs: list[Round] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
            # The first batch writes every key for the first time.
            ours += counting(Path(folder), keys, 2)[1:]
        theirs += _quix("counting", keys, 2)[1:]
    compared = "keys/s of a partition, rows in and out, durable, against Quix get and put"
    return _results("embedded, one partition's loop", compared, 1.0, ours, theirs, keys)


@dataclass(frozen=True)
class _Side:
    """A way to keep records, and what is wanted of it for each kind of record."""

    name: str
    keeping: Callable[..., list[Round]]
    wanted: tuple[float, float, float]
    codec: Callable[[], AbstractContextManager[None]] = nullcontext


_LOOP = _Side("one partition's loop", keeping_records, (1.5, 1.2, 1.0))
_IN_PYTHON = _Side(
    "one partition's loop, codec in Python", keeping_records, (0.7, 0.3, 0.15), codec_in_python
)
_TABLES = _Side("one partition's batch processor", keeping_tables, (4.0, 4.0, 4.0))


def records(keys: int = 20_000, rounds: int = 5) -> list[Result]:
    """A partition's loop over records of 3, 20 and 40 fields, and nothing else."""
    _require_peer()
    return _records(keys, rounds)


def _records(keys: int, rounds: int) -> list[Result]:
    return _kept("dense", "", (_LOOP, _IN_PYTHON, _TABLES), keys, rounds)


def loads(keys: int = 20_000, rounds: int = 5) -> list[Result]:
    """The same where a tenth of the keys have rows, and where one key has half of them."""
    _require_peer()
    sparse = _kept("sparse", ", a tenth of the keys", (_LOOP, _TABLES), keys, rounds)
    return sparse + _kept("hot", ", half of the rows for one key", (_LOOP, _TABLES), keys, rounds)


def _kept(load: Load, words: str, sides: Sequence[_Side], keys: int, rounds: int) -> list[Result]:
    """Records of each kind on each side, against the peer, which gets and sets for each row."""
    ours: dict[tuple[str, int], list[Round]] = defaultdict(list)
    theirs: dict[int, list[Round]] = defaultdict(list)
    for _ in range(rounds):
        # The second of two batches for each kind: the first writes every key for the first time.
        for kind in KINDS:
            for side in sides:
                with side.codec(), tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
                    found = side.keeping(Path(folder), keys, 2, kind, load)[1:]
                ours[side.name, kind.fields] += found
        for kind, each in zip(KINDS, _quix("records", keys, 2, load)[1::2], strict=True):
            theirs[kind.fields].append(each)
    rows = len(list(keys_of(load, keys)))
    of_what = "rows/s" if words else "keys/s"
    compared = (
        f"{of_what} of a partition{words}, rows in and out, durable, against Quix get and set"
    )
    return [
        result
        for side in sides
        for kind, limit in zip(KINDS, side.wanted, strict=True)
        for result in _results(
            f"embedded, {side.name}{words}, {kind.name}",
            compared,
            limit,
            ours[side.name, kind.fields],
            theirs[kind.fields],
            rows,
        )
    ]


def batches(keys: int = 200_000, rounds: int = 10) -> list[Result]:
    """Whole batches of a batch processor, against Spark SQL's aggregation and key by key."""
    by_table = whole_batches(keys, rounds, tables_query)
    sql = whole_batches(keys, rounds, sql_query)
    by_key = whole_batches(keys, rounds)
    where = "keys/s on two cores, sink included, against"
    return [
        *_results("batch processor", f"{where} Spark SQL's aggregation", 1.3, by_table, sql, keys),
        *_results("batch processor", f"{where} key by key", 1.0, by_table, by_key, keys),
    ]


def small_batches(keys: int = 100_000, rows: int = 1_000, rounds: int = 10) -> list[Result]:
    """Batches of few rows, key by key and of a batch processor, against Spark SQL's aggregation."""
    sql = whole_batches(keys, rounds, sql_query, rows)
    by_key = whole_batches(keys, rounds, rows=rows)
    by_table = whole_batches(keys, rounds, tables_query, rows)
    compared = (
        f"batches/s on two cores, {rows:,} rows of {keys:,} keys, sink included, against Spark "
        "SQL's aggregation"
    )
    return [
        *_results("small batches, key by key", compared, 1.0, by_key, sql, rows),
        *_results("small batches, batch processor", compared, 1.0, by_table, sql, rows),
    ]


def orjson_microseconds(records: int, rounds: int) -> list[dict[str, float]]:
    """What JSON takes of a processor for a record of each kind; nothing without the peers."""
    return _quix("codec", records, rounds) if _PYTHON.exists() else []


def _whole(keys: int, rounds: int) -> list[Result]:
    # A partition stores a snapshot every ten batches.
    ours = whole_batches(keys, 2 * rounds)
    alone = whole_batches(keys, rounds, handed_on_query)
    theirs = [each for _ in range(rounds) for each in _quix("counting", keys, 2)[1:]]
    in_two = [each for _ in range(rounds) for each in _quix_in_two("counting", keys, 2)[1:]]
    compared = "keys/s on two cores, durable, sink included, against Quix get and put"
    floor = "the same Spark batch, its rows handed on by Python, no state, against the same"
    return [
        *_results("embedded, whole batches", compared, 1.5, ours, theirs, keys),
        *_results("embedded, whole batches", f"{compared}, two processes", 0.7, ours, in_two, keys),
        *_results("Spark alone, whole batches", floor, 1.5, alone, theirs, keys),
    ]


def backfills(orders: int = 200_000, rounds: int = 5) -> list[Result]:
    """A stopped backfill of one partition's orders of 20 fields, by hand and by lenses."""
    _require_peer()
    by_hand: list[Round] = []
    by_lens: list[Round] = []
    theirs: list[Round] = []
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as compiled:
        for _ in range(rounds):
            for found, script in ((by_hand, order_script("hand")), (by_lens, order_script("lens"))):
                with stored_values(orders, ORDERS, KINDS[1].value, script, 1) as folder:
                    found.extend(_stopped(folder, compiled))
            theirs += _quix("migrating-orders", orders, 1)
    compared = "records/s of one partition, durable, against Quix by hand, eager"
    what = "stopped backfill, 20 fields"
    return [
        *_results(f"{what}, by hand", compared, 1.0, by_hand, theirs, orders),
        *_results(f"{what}, a lens", compared, 5.0, by_lens, theirs, orders),
    ]


def _stopped(folder: Path, compiled: str) -> list[Round]:
    command = [sys.executable, "-m", "benchmarks.peers.stopped", str(folder)]
    return _figures(command, PYTHONPYCACHEPREFIX=compiled)


def _backfill(records: int, rounds: int) -> list[Result]:
    ours: list[Round] = []
    theirs: list[Round] = []
    in_two: list[Round] = []
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as compiled:
        for _ in range(rounds):
            with checkpoint(records) as folder:
                ours += _stopped(folder, compiled)
            theirs += _quix("migrating", records, 1)
            in_two += _quix_in_two("migrating", records, 1)
    compared = "records/s on two cores, durable, against Quix by hand, eager"
    return [
        *_results("stopped backfill", f"{compared}, one process", 1.5, ours, theirs, records),
        *_results("stopped backfill", f"{compared}, two processes", 0.75, ours, in_two, records),
    ]


def _results(
    name: str,
    compared: str,
    limit: float,
    ours: list[Round],
    theirs: list[Round],
    number: int,
) -> list[Result]:
    """By the clock, and by processor time, in which each second of each processor counts once."""
    figures: dict[str, Any] = {"number": number, "ours": ours, "theirs": theirs}
    return [
        Result(
            title,
            compared.replace("on two cores", "of a processor") if kind == "processor" else compared,
            _median(theirs, kind) / _median(ours, kind),
            "at least",
            limit,
            figures,
        )
        for title, kind in ((name, "seconds"), (f"{name}, processor time", "processor"))
    ]


def _median(rounds: list[Round], kind: str) -> float:
    return statistics.median(each[kind] for each in rounds)


def _require_peer() -> None:
    if not _PYTHON.exists():
        sys.exit(f"{_PYTHON} is not there: `make peers` makes it")


def _quix(what: str, number: int, rounds: int, *more: str) -> list[Round]:
    command = [str(_PYTHON), "-W", "ignore", str(_PEER), what, str(number), str(rounds)]
    return _figures([*command, *more])


def _quix_in_two(what: str, number: int, rounds: int) -> list[Round]:
    """Two processes at once, each with a partition of its own that has half of all."""
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: _quix(what, number // 2, rounds), range(2))
    return [
        {
            "seconds": max(first["seconds"], second["seconds"]),
            "processor": first["processor"] + second["processor"],
        }
        for first, second in zip(one, other, strict=True)
    ]


def _figures(command: list[str], **variables: str) -> list[Round]:
    # What is installed is compiled; a checkout may not be, where the environment forbids it.
    kept = {name: each for name, each in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env={**kept, "PYTHONPATH": ".", **variables},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
