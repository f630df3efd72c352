"""Dry runs: records a second on both engines, and memory."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.backfilling import bare_loop, peak_of_this_process
from benchmarks.engines import session
from benchmarks.measuring import Result, median_ratio, seconds
from benchmarks.states import NEW, OLD, OLD_FAMILY, filled, old_item, place
from statemigrate import dry_run
from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest
from statemigrate.embedded.partition import PartitionPaths
from statemigrate.embedded.versions import publish_manifest
from statemigrate.formats import Value

_PARTITIONS = 4
_WANTED = 100_000
_KEY = {
    "type": "struct",
    "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
}
_SCRIPT = f'''"""Units and cents apart."""
from statemigrate.formats import Avro

revision = "000000000001"
down_revision = None
branch_labels = ("items",)
store = "items"
old = Avro({OLD.avro_schema!r})
new = Avro({NEW.avro_schema!r})


def upgrade(value):
    units, cents = divmod(value["amount"], 100)
    price = {{"units": units, "cents": cents}}
    return {{"title": value["name"], "price": price, "tags": value["tags"]}}


def downgrade(value):
    price = value["price"]
    amount = price["units"] * 100 + price["cents"]
    return {{"name": value["title"], "amount": amount, "tags": value["tags"]}}
'''


def measure(records: int = 1_000_000, rounds: int = 3, keys: int = 200_000) -> list[Result]:
    """Embedded speed against what was asked for, memory, and the native state reader's speed."""
    return [_speed(records, rounds), _memory(records), _native(keys, rounds)]


@contextmanager
def checkpoint(records: int) -> Iterator[Path]:
    """A stopped embedded query's checkpoint of items and, next to it, their script."""
    with stored_values(records, OLD_FAMILY, old_item, _SCRIPT, _PARTITIONS) as folder:
        yield folder


@contextmanager
def stored_values(
    count: int,
    family: StoredFamily,
    value: Callable[[int], Value],
    script: str,
    partitions: int,
) -> Iterator[Path]:
    """A stopped embedded query's checkpoint with so many values and, next to it, a script."""
    with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
        layout = Layout.of(Path(folder) / "checkpoint")
        states = []
        for number in range(partitions):
            at = PartitionPaths(number, layout.partition(number), Path(folder) / "copy")
            states.append(filled(at, family, count // partitions, value))
            shutil.rmtree(at.working)
        stores = {family.name: StoredStore("value", (family,))}
        publish_manifest(layout, Manifest(0, _KEY, tuple(states), stores, {}))
        (layout.checkpoint / "commits").mkdir()
        (layout.checkpoint / "commits" / "0").touch()
        write_scripts(Path(folder) / "migrations", script)
        yield Path(folder)


def write_scripts(directory: Path, text: str) -> None:
    """Make a folder of scripts, with a script of this ``text`` if there is any."""
    from statemigrate.scripts import ScriptFolder

    created = ScriptFolder.create(directory)
    if text:
        (created.versions / "change.py").write_text(text)


def _speed(records: int, rounds: int) -> Result:
    spark = session()
    try:
        with checkpoint(records) as folder, place() as at:
            state = filled(at, OLD_FAMILY, records)
            _run(folder, spark)
            tried = [_run(folder, spark) for _ in range(rounds)]
            bare = [records / bare_loop(at, state, records) for _ in range(rounds)]
    finally:
        spark.stop()
    rate, loop = statistics.median(tried), statistics.median(bare)
    wanted = min(_WANTED, 1.5 * loop)
    figures = {"records_per_second": [round(each) for each in tried], "bare_loop": round(loop)}
    compared = f"records/s against {wanted:,.0f}"
    return Result("dry run, embedded", compared, rate / wanted, "at least", 1.0, figures)


def _run(folder: Path, spark: Any) -> float:
    report = dry_run("items", folder / "checkpoint", migrations=folder / "migrations", spark=spark)
    assert (report.failed, report.differing) == (0, 0)
    return report.rate


def _native(keys: int, rounds: int) -> Result:
    from benchmarks.native import native_checkpoint

    spark = session()
    try:
        with native_checkpoint(spark, keys) as folder:
            reader = _Reader(spark, folder, keys)
            reader.tried(), reader.to_python(), reader.within_java()
            triples = [
                (reader.tried(), reader.to_python(), reader.within_java()) for _ in range(rounds)
            ]
    finally:
        spark.stop()
    ours, python, java = map(list, zip(*triples, strict=True))
    figures = {
        "keys": keys,
        "dry_run_seconds": ours,
        "reader_to_python_seconds": python,
        "reader_within_java_seconds": java,
        "against_reader_within_java": median_ratio(ours, java),
    }
    compared = f"seconds for {keys:,} keys against Spark's state reader handing its rows to Python"
    return Result("dry run, native", compared, median_ratio(ours, python), "at most", 2.0, figures)


class _Reader:
    """Seconds to read a native checkpoint's one state variable in different ways."""

    def __init__(self, spark: Any, folder: Path, keys: int) -> None:
        self._spark, self._folder, self._keys = spark, folder, keys
        reader = spark.read.format("statestore").option("stateVarName", "totals")
        self._rows = reader.load(str(folder / "checkpoint"))

    def tried(self) -> float:
        """A dry run of everything, from finding out what there is to the report."""

        def run() -> None:
            path, migrations = self._folder / "checkpoint", self._folder / "migrations"
            report = dry_run("totals", path, migrations=migrations, spark=self._spark)
            assert (report.tried, report.failed) == (self._keys, 0)

        return seconds(run)

    def to_python(self) -> float:
        """Nothing but a Row for each value, in the same tasks."""
        return seconds(lambda: self._rows.rdd.foreachPartition(_read_on))

    def within_java(self) -> float:
        """Nothing but reading: no row leaves Java."""
        return seconds(lambda: self._rows.write.format("noop").mode("overwrite").save())


def _read_on(rows: Iterator[Any]) -> None:
    for _ in rows:
        pass


def _memory(records: int) -> Result:
    small, large = _peak(records // 10), _peak(records)
    figures = {"small_bytes": small, "large_bytes": large, "records": records}
    compared = f"peak memory of a task, {records:,} records against {records // 10:,}"
    return Result("dry run, memory", compared, large / small, "at most", 1.2, figures)


def _peak(records: int) -> int:
    with checkpoint(records) as folder:
        command = [sys.executable, "-m", "benchmarks.dry_runs", str(folder)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(json.loads(done.stdout)["peak"])


def _try_in_this_process(folder: Path) -> None:
    """What the tasks of a dry run do, one partition after the other."""
    from statemigrate.inspect.trial import added
    from statemigrate.inspect.trial_path import Trying, courses
    from statemigrate.scripts import ScriptFolder
    from statemigrate.state.embedded import EmbeddedState
    from statemigrate.state.project import Project
    from statemigrate.state.protocol import Ticks, planned

    state = EmbeddedState(str(folder / "checkpoint"))
    lineages = ScriptFolder(folder / "migrations").lineages()
    plan = planned(state, "items", lineages, Project())
    to_try = courses(plan)
    partitions = state.partitions(plan, [each.family for each in to_try])
    for number in range(_PARTITIONS):
        found = added(
            partitions.work(number, Trying.of(to_try), {}, Ticks(folder / "ticks")).items()
        )
        assert (found["items"].tried > 0, found["items"].failed) == (True, 0)
    state.close()
    print(json.dumps({"peak": peak_of_this_process()}))


if __name__ == "__main__":
    _try_in_this_process(Path(sys.argv[1]))
