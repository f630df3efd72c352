"""S3, played by moto."""

from __future__ import annotations

import urllib.request
from pathlib import Path

from systems.packages import jars, moto_python
from systems.processes import Process, answers, free_port

_SERVER = Path(__file__).with_name("s3_server.py")
_BUCKET = "statemigrate"


class S3:
    """Started with its construction, its log in ``folder``; it keeps what it has in memory.

    ``uri`` is a bucket, ``conf`` what a Spark session must be told, ``jars`` what it needs beside
    PySpark's own. One that is ``refusing`` knows nobody's credentials, and has no bucket.
    """

    def __init__(self, folder: Path, *, refusing: bool = False) -> None:
        self.jars = tuple(jars("s3a"))
        port = free_port()
        command = [str(moto_python()), str(_SERVER), "-H", "127.0.0.1", "-p", str(port)]
        # How many requests moto answers without asking who it is.
        strict = {"INITIAL_NO_AUTH_ACTION_COUNT": "0"} if refusing else {}
        self._process = Process(command, folder / "s3.log", variables=strict)
        self._process.wait_until(lambda: answers(port))
        self.endpoint = f"http://127.0.0.1:{port}"
        self.uri = f"s3a://{_BUCKET}" if refusing else self.bucket(_BUCKET)
        self.conf = {
            f"spark.hadoop.fs.s3a.{name}": value
            for name, value in {
                "endpoint": self.endpoint,
                "endpoint.region": "us-east-1",
                "path.style.access": "true",
                "connection.ssl.enabled": "false",
                "access.key": "test",
                "secret.key": "test",
                "attempts.maximum": "3",
            }.items()
        }

    def bucket(self, name: str) -> str:
        """Make a bucket; its URI."""
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")  # noqa: S310
        with urllib.request.urlopen(request, timeout=30):  # noqa: S310 - this machine's own
            return f"s3a://{name}"

    def stop(self) -> None:
        self._process.kill()
