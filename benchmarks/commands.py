"""Commands as they are typed, each in a process of its own, by the clock: a state and ten times it.

The state is an aggregation that Spark keeps in RocksDB, three functions under each key, and for the
backfill a stopped query of the embedded engine. Nothing is warm but the disk: the start of Python,
and of Java where a command needs it, counts.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.dry_runs import checkpoint, write_scripts
from benchmarks.large_state import grow
from benchmarks.measuring import Result, run_command, seconds
from benchmarks.state_tables import make_checkpoint

_SMALL = 20_000
_REWRITTEN = 12.0
"""Seconds that a rewrite of 1,000,000 rows may take."""
_STORE = "aggregation-0"
_SCRIPT = f'''"""One column more."""
from statemigrate.formats import Struct
from statemigrate.lenses import add, lens

revision = "000000000001"
down_revision = None
branch_labels = ("{_STORE}",)
store = "{_STORE}"
old = Struct("count BIGINT, sum BIGINT, max BIGINT")
new = Struct("count BIGINT, sum BIGINT, max BIGINT, least BIGINT")
change = lens(add("least", "BIGINT"))
'''
_COMMANDS = {
    "status": ("status", "{old}"),
    "plan": ("plan", "{old}"),
    "dry-run": ("dry-run", _STORE, "{old}"),
    "fork": ("fork", "{old}", "{new}-fork"),
    "rewrite --apply": ("rewrite", "{old}", "{new}", "--apply"),
    "rewrite --verify": ("rewrite", "{old}", "{new}", "--verify"),
}
"""In this order: what is verified was rewritten before."""
_EXITS = {"plan": 1}
"""Not 0, since the state has to be rewritten."""


def measure(rows: int = 1_000_000, times: int = 10) -> list[Result]:
    """Seconds of each command for some rows, against those for fewer of them."""
    with tempfile.TemporaryDirectory(prefix="statemigrate-commands-") as name:
        folder = Path(name)
        small, _ = make_checkpoint(folder, _SMALL, "3 aggregates")
        write_scripts(folder / "migrations", _SCRIPT)
        taken = {each: _of_aggregation(folder, small, each) for each in (rows, rows * times)}
    few, many = taken[rows], taken[rows * times]
    few["backfill"], many["backfill"] = (_of_backfill(each) for each in (rows, rows * times))
    compared = f"seconds for {rows * times:,} rows against those for {rows:,}"
    found = [
        Result(
            f"command: {name}",
            compared,
            many[name] / few[name],
            "at most",
            times,
            {"seconds": [few[name], many[name]]},
        )
        for name in few
    ]
    return [*found, _against(few["rewrite --apply"], rows)]


def _against(taken: float, rows: int) -> Result:
    allowed = _REWRITTEN * rows / 1_000_000
    compared = f"seconds for {rows:,} rows against {allowed:g}"
    return Result("command: rewrite --apply", compared, taken / allowed, "at most", 1, {})


def _of_aggregation(folder: Path, small: Path, rows: int) -> dict[str, float]:
    old, new = folder / f"{rows}-rows", folder / f"{rows}-new"
    grow(small, old, rows)
    return {
        name: _timed(folder, name, rows, [each.format(old=old, new=new) for each in typed])
        for name, typed in _COMMANDS.items()
    }


def _of_backfill(rows: int) -> float:
    with checkpoint(rows) as folder:
        return _timed(folder, "backfill", rows, ["backfill", "checkpoint"])


def _timed(folder: Path, name: str, rows: int, typed: Sequence[str]) -> float:
    """Seconds of a command; they are printed at once, as all of them take long."""
    taken = seconds(lambda: run_command(folder, *typed, expected=_EXITS.get(name, 0)))
    print(f"{name}, {rows:,} rows: {taken:.1f} s", file=sys.stderr, flush=True)
    return taken
