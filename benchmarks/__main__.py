"""Run every benchmark: ``python -m benchmarks [--quick] [--json FILE] [NAME ...]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import (
    backfilling,
    cluster,
    codecs,
    commands,
    commits,
    dry_runs,
    dual_access,
    engines,
    lenses,
    native,
    pacing,
    page_visits,
    pages,
    peers,
    previews,
    rewrites,
    sharing,
    shuffling,
    sizes,
    starts,
    state_rows,
    state_tables,
)
from benchmarks.measuring import HEAD, Result, as_json, table_rows

_FULL = {
    "engines": engines.measure,
    "dual_access": dual_access.measure,
    "backfill": backfilling.measure,
    "commit": commits.measure,
    "codec": codecs.measure,
    "native": native.measure,
    "pages": pages.measure,
    "page_visits": page_visits.measure,
    "starts": starts.measure,
    "pace": pacing.measure,
    "dry_run": dry_runs.measure,
    "state_rows": state_rows.measure,
    "state_tables": state_tables.measure,
    "rewrites": rewrites.measure,
    "lenses": lenses.measure,
    "share": sharing.measure,
    "sizes": sizes.measure,
    "previews": previews.measure,
    "batches": peers.batches,
    "small_batches": peers.small_batches,
    "cluster": cluster.measure,
    "shuffling": shuffling.measure,
}
# What needs an environment of its own, or many gigabytes, is measured when it is named.
_NAMED = {
    "peers": peers.measure,
    "records": peers.records,
    "loads": peers.loads,
    "backfills": peers.backfills,
    "commands": commands.measure,
}
_QUICK = {
    "engines": lambda: engines.measure(20_000, 4),
    "dual_access": lambda: dual_access.measure(10_000, 3),
    "backfill": lambda: backfilling.measure(100_000, 1),
    "codec": lambda: codecs.measure(200, 2),
    "commit": lambda: commits.measure(200_000, 20_000, 5),
    "native": lambda: native.measure(1_000, 2),
    "pages": lambda: pages.measure(tuple(pages.smaller(each, 20) for each in pages.LOADS), 2),
    "page_visits": lambda: page_visits.measure(2_000, 1),
    "starts": lambda: starts.measure(20_000, 2),
    "pace": lambda: pacing.measure(
        {"native": pacing.Load(20_000, 200), "paged": pacing.Load(50_000, 50, 1_000)}, 18
    ),
    "dry_run": lambda: dry_runs.measure(40_000, 1, 2_000),
    "state_rows": lambda: state_rows.measure(100_000, 2),
    "state_tables": lambda: state_tables.measure(50_000, 1),
    "rewrites": lambda: rewrites.measure(50_000, 1, 2_000, 300_000),
    "lenses": lambda: lenses.measure(1_000, 1, 20_000),
    "share": lambda: sharing.measure(1_000_000, 1_000, 1),
    "sizes": lambda: sizes.measure(100_000, 1),
    "previews": lambda: previews.measure(3, 200, 2),
    "batches": lambda: peers.batches(20_000, 2),
    "small_batches": lambda: peers.small_batches(5_000, 100, 2),
    "cluster": lambda: cluster.measure(5_000, 20, 2),
    "shuffling": lambda: shuffling.measure(2_000, 1),
}
_NAMED_QUICK = {
    "peers": lambda: peers.measure(20_000, 50_000, 1),
    "records": lambda: peers.records(2_000, 1),
    "loads": lambda: peers.loads(2_000, 1),
    "backfills": lambda: peers.backfills(5_000, 1),
    "commands": lambda: commands.measure(40_000, 2),
}


def main() -> int:
    """Print each row of the table as it is measured; exit 1 if a ratio is outside its limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*_FULL, *_NAMED]))
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run at all?")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    arguments = parser.parse_args()
    chosen = _QUICK if arguments.quick else _FULL
    results: list[Result] = []
    known = {**chosen, **(_NAMED_QUICK if arguments.quick else _NAMED)}
    print(HEAD, flush=True)
    for name in arguments.names or chosen:
        print(f"measuring {name} ...", file=sys.stderr)
        measured = known[name]()
        print(table_rows(measured), flush=True)
        results += measured
    if arguments.json:
        arguments.json.write_text(as_json(results) + "\n")
    return 0 if all(result.holds for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
