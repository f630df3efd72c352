"""Runs queries in a process with a PySpark of its own, of another line.

`OtherSpark` is the tests' side. The other side needs PySpark, pandas and pyarrow alone: it keeps
one session, runs a query for each line on its standard input, and answers with what that gave.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

_TESTS = Path(__file__).parents[1]
_FOLDERS = ("compat", "rewriting")


class OtherSpark:
    """A process of the Python ``command``, which has PySpark; ``folder`` is for its own files."""

    def __init__(self, command: Path, folder: Path) -> None:
        environment = {**os.environ, "PYSPARK_PYTHON": str(command), "PYTHONHASHSEED": "0"}
        environment["PYTHONPATH"] = os.pathsep.join(str(_TESTS / each) for each in _FOLDERS)
        # The Java of the tests has the classes of their own PySpark at hand.
        environment.pop("JAVA_HOME", None)
        environment["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1"
        self._errors = (folder / "errors").open("w+")
        self._process = subprocess.Popen(
            [str(command), "-m", "other_spark", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            text=True,
        )

    def run(self, feeds, code, checkpoint, mode, conf) -> dict[int, Counter]:
        """Run ``code`` ("module:function") on all that is fed; return the rows of each batch."""
        order = {
            "feeds": [str(each.folder) for each in feeds],
            "code": code,
            "checkpoint": str(checkpoint),
            "mode": mode,
            "conf": conf,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self._said()
        answer = json.loads(line)
        assert "given" in answer, answer["error"]
        return {int(batch): Counter(rows) for batch, rows in answer["given"].items()}

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        self._errors.close()

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-3000:]


def _serve(folder: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    # What Spark prints goes to the errors: the answers alone go to the standard output.
    os.dup2(2, 1)
    spark = _session(folder)
    for line in sys.stdin:
        try:
            answer = {"given": _given(spark, json.loads(line))}
        except Exception as error:
            answer = {"error": str(error)[:6000]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    spark.stop()


def _session(folder: str):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _given(spark, order):
    from fed_queries import Feed, run

    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for name, value in order["conf"].items():
        session.conf.set(name, value)
    module, function = order["code"].split(":")
    code = getattr(importlib.import_module(module), function)
    feeds = [Feed(Path(each)) for each in order["feeds"]]
    return run(session, feeds, code, order["checkpoint"], order["mode"])


if __name__ == "__main__":
    _serve(sys.argv[1])
