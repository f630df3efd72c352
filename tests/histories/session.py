"""The Spark session of histories, that is there again after one of them has killed its process."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

_SOON = 5  # seconds
_SPARING = {
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class Session:
    """A local session; `renew` after its Java process was ended from outside."""

    def __init__(self, warehouse: Path, spark: Any = None) -> None:
        self._warehouse = warehouse
        self.spark = spark or self._started()

    @property
    def process(self) -> int:
        """The id of the Java process."""
        return int(self.spark._jvm.java.lang.ProcessHandle.current().pid())

    def is_killed(self) -> bool:
        """Whether the Java process has ended, or does so within seconds."""
        from pyspark import SparkContext

        gateway: Any = SparkContext._gateway
        try:
            gateway.proc.wait(_SOON)
        except subprocess.TimeoutExpired:
            return False
        return True

    def renew(self) -> None:
        """Forget the session whose process is gone, and start another."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        gateway: Any = SparkContext._gateway
        gateway.shutdown_callback_server()
        gateway.close()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None  # type: ignore[attr-defined]
        self.spark = self._started()

    def close(self) -> None:
        """Stop it."""
        self.spark.stop()

    def _started(self) -> Any:
        from pipelines import local_session

        confs = [f"--conf {name}={value}" for name, value in _SPARING.items()]
        os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*confs, "pyspark-shell"])
        return local_session(self._warehouse)
