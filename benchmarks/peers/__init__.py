"""The embedded engine beside other stream processors' state, each by an interpreter of its own."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.dry_runs import checkpoint, stored_values
from benchmarks.lenses import ORDERS, order_script
from benchmarks.measuring import Result, codec_in_python
from benchmarks.peers.counting import counting, keeping_records, keeping_tables
from benchmarks.peers.whole import handed_on_query, sql_query, tables_query, whole_batches
from benchmarks.records import KINDS, Load, keys_of

_PYTHON = Path(".venv-peers/bin/python")
_PEER = Path(__file__).with_name("quix.py")
Round = dict[str, float]


def measure(keys: int = 200_000, records: int = 1_000_000, rounds: int = 5) -> list[Result]:
    """A partition's loop, whole batches, a stopped backfill: against Quix Streams in a process."""
    if not _PYTHON.exists():
        sys.exit(f"{_PYTHON} is not there: `make peers` makes it")
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
        with tempfile.TemporaryDirectory(prefix="statemigrate-peers-") as folder:
            # The first batch writes every key for the first time.
            ours += counting(Path(folder), keys, 2)[1:]
        theirs += _quix("counting", keys, 2)[1:]
    compared = "keys/s of a partition, rows in and out, durable, against Quix get and put"
    return _results("embedded, one partition's loop", compared, 1.0, ours, theirs, keys)


def records(keys: int = 20_000, rounds: int = 5) -> list[Result]:
    """A partition's loop over records of 3, 20 and 40 fields, and nothing else."""
    if not _PYTHON.exists():
        sys.exit(f"{_PYTHON} is not there: `make peers` makes it")
    return _records(keys, rounds)


def _records(keys: int, rounds: int) -> list[Result]:
    by_key: dict[str, list[Round]] = {kind.name: [] for kind in KINDS}
    in_python: dict[str, list[Round]] = {kind.name: [] for kind in KINDS}
    by_table: dict[str, list[Round]] = {kind.name: [] for kind in KINDS}
    theirs: dict[str, list[Round]] = {kind.name: [] for kind in KINDS}
    for _ in range(rounds):
        for kind in KINDS:
            for kept, found in (
                (keeping_records, by_key),
                (keeping_records, in_python),
                (keeping_tables, by_table),
            ):
                codec = codec_in_python() if found is in_python else nullcontext()
                with codec, tempfile.TemporaryDirectory(prefix="statemigrate-peers-") as folder:
                    found[kind.name] += kept(Path(folder), keys, 2, kind)[1:]
        # The second of two batches for each kind: the first writes every key for the first time.
        for kind, each in zip(KINDS, _quix("records", keys, 2)[1::2], strict=True):
            theirs[kind.name].append(each)
    compared = "keys/s of a partition, rows in and out, durable, against Quix get and set"
    return [
        result
        for name, ours, limits in (
            ("one partition's loop", by_key, (1.5, 1.2, 1.0)),
            ("one partition's loop, codec in Python", in_python, (0.7, 0.3, 0.15)),
            ("one partition's batch processor", by_table, (4.0, 4.0, 4.0)),
        )
        for kind, limit in zip(KINDS, limits, strict=True)
        for result in _results(
            f"embedded, {name}, {kind.name}",
            compared,
            limit,
            ours[kind.name],
            theirs[kind.name],
            keys,
        )
    ]


def loads(keys: int = 20_000, rounds: int = 5) -> list[Result]:
    """The same where a tenth of the keys have rows, and where one key has half of them."""
    if not _PYTHON.exists():
        sys.exit(f"{_PYTHON} is not there: `make peers` makes it")
    sparse = _loaded("sparse", "a tenth of the keys", keys, rounds)
    return sparse + _loaded("hot", "half of the rows for one key", keys, rounds)


def _loaded(load: Load, words: str, keys: int, rounds: int) -> list[Result]:
    """Key by key and by tables, against the peer, which gets and sets the state for each row."""
    sides = {"loop": keeping_records, "batch processor": keeping_tables}
    ours: dict[tuple[str, int], list[Round]] = {}
    theirs: dict[int, list[Round]] = {}
    for _ in range(rounds):
        for kind in KINDS:
            for name, processing in sides.items():
                with tempfile.TemporaryDirectory(prefix="statemigrate-peers-") as folder:
                    found = processing(Path(folder), keys, 2, kind, load)[1:]
                ours.setdefault((name, kind.fields), []).extend(found)
        # The second of two batches for each kind: the first writes every key for the first time.
        for kind, each in zip(KINDS, _quix("records", keys, 2, load)[1::2], strict=True):
            theirs.setdefault(kind.fields, []).append(each)
    rows = len(list(keys_of(load, keys)))
    compared = f"rows/s of a partition, {words}, rows in and out, durable, against Quix get and set"
    return [
        result
        for name, limits in (("loop", (1.5, 1.2, 1.0)), ("batch processor", (4.0, 4.0, 4.0)))
        for kind, limit in zip(KINDS, limits, strict=True)
        for result in _results(
            f"embedded, one partition's {name}, {words}, {kind.name}",
            compared,
            limit,
            ours[name, kind.fields],
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
    if not _PYTHON.exists():
        sys.exit(f"{_PYTHON} is not there: `make peers` makes it")
    by_hand: list[Round] = []
    by_lens: list[Round] = []
    theirs: list[Round] = []
    with tempfile.TemporaryDirectory(prefix="statemigrate-peers-") as compiled:
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
    with tempfile.TemporaryDirectory(prefix="statemigrate-peers-") as compiled:
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


def _quix(what: str, number: int, rounds: int, load: Load = "dense") -> list[Round]:
    command = [str(_PYTHON), "-W", "ignore", str(_PEER), what, str(number), str(rounds)]
    return _figures([*command, load] if load != "dense" else command)


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
