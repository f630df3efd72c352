"""Let Spark start in half of the time for the tests: ``quick_spark.py FOLDER``.

The tests start Java some hundred times, and for the first ten seconds it does little but read
Spark's classes and optimise code that is then hardly used. ``FOLDER/bin/java`` calls the Java that
is installed with the classes as one mapped file (class data sharing, https://openjdk.org/jeps/350)
and with its first compiler alone.

Java starts Python for each query, which finds PySpark in an archive of sources and compiles them
every time, for a second. Here the compiled form is put beside them. What is run is the same.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark

from statemigrate.cli.session import local_session
from statemigrate.files.hadoop_jvm import find_java

_PATIENCE = 300  # seconds


def main(folder: Path) -> None:
    """Compile PySpark, run a query whose Java notes the classes it used, write the command."""
    archive = folder.absolute() / "spark-classes.jsa"
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True, exist_ok=True)
    command.unlink(missing_ok=True)
    archive.unlink(missing_ok=True)
    for sources in Path(pyspark.__file__).parent.glob("python/lib/*.zip"):
        _compile(sources)
    _record(archive)
    java = find_java()
    if java is None or not archive.exists():
        sys.exit(f"Java did not write {archive}; the tests take longer without it")
    # Where the file does not fit, with another Spark say, Java goes without it; silently like this.
    options = [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    options += ["-XX:TieredStopAtLevel=1"]
    quick = shlex.join([str(Path(java).resolve()), *options])
    command.write_text(f'#!/bin/sh\nexec {quick} "$@"\n', encoding="utf-8")
    command.chmod(0o755)


def _compile(sources: Path) -> None:
    part = sources.with_suffix(".part")
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(sources) as kept:
            if any(name.endswith(".pyc") for name in kept.namelist()):
                return
            kept.extractall(folder)
        compileall.compile_dir(
            folder,
            quiet=2,
            legacy=True,
            stripdir=folder,
            prependdir=str(sources),
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
        shutil.copyfile(sources, part)
        with zipfile.ZipFile(part, "a", zipfile.ZIP_DEFLATED) as added:
            for compiled in sorted(Path(folder).rglob("*.pyc")):
                added.write(compiled, compiled.relative_to(folder))
    part.replace(sources)


def _record(archive: Path) -> None:
    options = f"-XX:ArchiveClassesAtExit={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--conf 'spark.driver.defaultJavaOptions={options}' pyspark-shell"
    )
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with local_session() as session:
        java: subprocess.Popen[bytes] = session.sparkContext._gateway.proc
        with tempfile.TemporaryDirectory() as temporary:
            _work(session, Path(temporary))
    # It ends, and writes, when nobody can ask it anything more.
    java.communicate(timeout=_PATIENCE)


def _work(session: Any, folder: Path) -> None:
    """What the tests do, on three rows."""
    (folder / "input").mkdir()
    (folder / "input" / "a.json").write_text('{"key": "a"}\n{"key": "b"}\n{"key": "a"}\n')
    for name, query in _queries(session, folder / "input").items():
        _run(query, folder / name)
    _read(session, folder / "rows")


def _queries(session: Any, folder: Path) -> dict[str, Any]:
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "n BIGINT")
            self.seen = handle.getListState("seen", "n BIGINT")
            self.by_size = handle.getMapState("by_size", "size INT", "n BIGINT")

        def handleInputRows(self, key: Any, rows: Any, _timers: Any) -> Iterator[Any]:
            number = len(list(rows)) + (self.count.get() or (0,))[0]
            self.count.update((number,))
            self.seen.appendValue((number,))
            self.by_size.updateValue((1,), (number,))
            yield Row(key=key[0], n=number)

        def close(self) -> None:
            pass

    def keep(_key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        state.update((sum(map(len, frames)),))
        yield from ()

    stream = session.readStream.schema("key STRING").json(str(folder))
    grouped = stream.groupBy("key")
    return {
        "rows": grouped.transformWithState(Count(), "key STRING, n BIGINT", "Update", "None"),
        "envelopes": grouped.applyInPandasWithState(
            keep, "key STRING", "n BIGINT", "update", "NoTimeout"
        ),
    }


def _run(query: Any, checkpoint: Path) -> None:
    writer = query.writeStream.outputMode("update").foreachBatch(lambda frame, _: frame.collect())
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()


def _read(session: Any, checkpoint: Path) -> None:
    session.read.format("state-metadata").load(str(checkpoint)).collect()
    state = session.read.format("statestore").option("stateVarName", "count")
    values = state.load(str(checkpoint)).selectExpr("key.key", "value.n")
    values.groupBy("key").count().collect()
    values.mapInArrow(lambda batches: batches, values.schema).toPandas()
    values.write.parquet(str(checkpoint.parent / "parquet"))
    session.read.parquet(str(checkpoint.parent / "parquet")).limit(2).collect()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
