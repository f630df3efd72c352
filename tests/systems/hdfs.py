"""HDFS: a namenode and a datanode in one Java process, asked from here through py4j."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, ClassVar

from py4j.java_gateway import GatewayParameters, JavaGateway

from systems.packages import PYSPARK_JARS, jars, java


class Hdfs:
    """Started with its construction, in ``folder``.

    ``uri`` is the file system, ``conf`` what a Spark session must be told, ``jars`` what it needs
    beside PySpark's own.
    """

    conf: ClassVar = {
        "spark.hadoop.dfs.replication": "1",
        # One datanode that dies has no other to take its place.
        "spark.hadoop.dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
    }
    jars: ClassVar[tuple[Path, ...]] = ()

    def __init__(self, folder: Path) -> None:
        path = ":".join([*map(str, jars("hdfs")), f"{PYSPARK_JARS}/*"])
        command = [java(), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", path]
        command += ["py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"]
        with (folder / "hdfs.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        try:
            self._gateway = _connected(self._process)
            self._cluster = self._started(folder)
        except BaseException:
            self.stop()
            raise
        self.uri = f"hdfs://127.0.0.1:{self._cluster.getNameNodePort()}"

    def restart_namenode(self) -> None:
        """End the namenode and start it again on its port; returns when it answers."""
        self.stop_namenode()
        self.start_namenode()

    def stop_namenode(self) -> None:
        self._cluster.shutdownNameNode(0)

    def start_namenode(self) -> None:
        """Start the namenode again on its port; returns when it answers."""
        self._cluster.restartNameNode(0)

    def stop(self) -> None:
        """End it: the process ends when nobody holds its input."""
        if hasattr(self, "_gateway"):
            self._gateway.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=30)

    def _started(self, folder: Path) -> Any:
        jvm = self._gateway.jvm
        conf = jvm.org.apache.hadoop.hdfs.HdfsConfiguration()
        conf.set("hdfs.minidfs.basedir", str(folder / "hdfs"))
        builder = jvm.org.apache.hadoop.hdfs.MiniDFSCluster.Builder(conf)
        cluster = builder.numDataNodes(1).format(True).build()
        cluster.waitActive()
        return cluster


def _connected(process: subprocess.Popen[bytes]) -> JavaGateway:
    assert process.stdout is not None
    port, token = process.stdout.readline(), process.stdout.readline()
    if not token:
        raise RuntimeError(f"{process.args!r} ended, see its log")
    parameters = GatewayParameters(port=int(port), auth_token=token.decode().strip())
    return JavaGateway(gateway_parameters=parameters)
