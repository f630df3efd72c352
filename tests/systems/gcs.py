"""Google Cloud Storage, played by gcp-storage-emulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from systems.packages import moto_python
from systems.processes import Process, answers, free_port

_BUCKET = "statemigrate"


class Gcs:
    """Started with its construction, its log in ``folder``; it keeps what it has in memory.

    ``uri`` is a bucket, and ``variables`` what a process needs to reach it.
    """

    def __init__(self, folder: Path) -> None:
        port = free_port()
        command = [str(moto_python().with_name("gcp-storage-emulator")), "start", "--in-memory"]
        command += ["--host=127.0.0.1", f"--port={port}", f"--default-bucket={_BUCKET}"]
        self._process = Process(command, folder / "gcs.log")
        self._process.wait_until(lambda: answers(port))
        self._address = f"127.0.0.1:{port}"
        self.uri = f"gs://anonymous@{_BUCKET}"
        self.variables = {"CLOUD_STORAGE_EMULATOR_ENDPOINT": f"http://{self._address}"}

    def copy(self, source: Path, name: str) -> None:
        """Put the files below ``source`` below ``name``, and no object that stands for a folder."""
        from pyarrow import fs

        store: Any = fs.GcsFileSystem(
            anonymous=True, endpoint_override=self._address, scheme="http"
        )
        for file in source.rglob("*"):
            if file.is_file():
                path = f"{_BUCKET}/{name}/{file.relative_to(source)}"
                with store.open_output_stream(path) as target:
                    target.write(file.read_bytes())

    def stop(self) -> None:
        self._process.kill()
