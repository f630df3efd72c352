"""A Kafka broker that is its own controller."""

from __future__ import annotations

import subprocess
from pathlib import Path

from systems.packages import jars, java
from systems.processes import Process, free_port

_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.dirs={folder}
"""
_NODE = "c3RhdGVtaWdyYXRlMDAwMA"  # 16 bytes, as Kafka writes an id


class Kafka:
    """Started with its construction, in ``folder``; ``uri`` is what a client calls the server."""

    def __init__(self, folder: Path) -> None:
        self.conf: dict[str, str] = {}
        self.jars = tuple(jars("connector"))
        self._folder = folder
        port = free_port()
        self.uri = f"127.0.0.1:{port}"
        settings = _SETTINGS.format(broker=port, controller=free_port(), folder=folder / "kafka")
        self._settings = folder / "kafka.properties"
        self._settings.write_text(settings, encoding="utf-8")
        formatting = ["kafka.tools.StorageTool", "format", "-t", _NODE, "-c", str(self._settings)]
        subprocess.run(_command(*formatting), check=True, capture_output=True, timeout=120)
        self.start()

    def start(self) -> None:
        """Start the broker, on its port and what it has written; returns when it answers."""
        command = _command("kafka.Kafka", str(self._settings))
        self._process = Process(command, self._folder / "kafka.log")
        self._process.wait_until(self._answers)

    def stop(self) -> None:
        """End it, as a machine that fails does."""
        self._process.kill()

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            AdminClient({"bootstrap.servers": self.uri, "log_level": 0}).list_topics(timeout=1)
        except KafkaException:
            return False
        return True


def _command(*arguments: str) -> list[str]:
    path = ":".join(map(str, jars("broker")))
    # Its own logging says all it does at the level "info".
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [java(), "-Xmx512m", "-XX:TieredStopAtLevel=1", quiet, "-cp", path, *arguments]
