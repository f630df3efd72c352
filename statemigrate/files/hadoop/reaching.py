"""Whether a file system can be reached, known within ten seconds.

Connectors try again for minutes. One of their own is made here for a first question, told to give
up soon; and whatever it does, it is waited for no longer. The one that Spark uses is not touched.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit

from statemigrate.errors import StorageError, without_credentials
from statemigrate.files.hadoop.failures import JAVA_ERRORS, chain, thrown_by
from statemigrate.files.hadoop.jvm import Java
from statemigrate.files.hadoop.unreachable import no_answer, unreachable

PATIENCE = 9.0
"""Seconds for an answer."""
_SOON = {
    "ipc.client.connect.timeout": "3000",
    "ipc.client.connect.max.retries": "1",
    "ipc.client.connect.retry.interval": "500",
    "ipc.client.connect.max.retries.on.timeouts": "1",
    "dfs.client.retry.max.attempts": "1",
    "dfs.client.failover.max.attempts": "4",
    "dfs.client.failover.sleep.max.millis": "500",
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.retry.interval": "200ms",
    "fs.s3a.retry.throttle.limit": "2",
    "fs.s3a.connection.establish.timeout": "3s",
    "fs.s3a.connection.timeout": "5s",
    "fs.s3a.connection.request.timeout": "5s",
    "fs.azure.io.retry.max.retries": "1",
    "fs.azure.io.retry.max.backoff.interval": "500",
    "fs.azure.oauth.token.fetch.retry.max.retries": "1",
    "fs.gs.http.max.retry": "1",
    "fs.gs.http.connect-timeout": "3000",
    "fs.gs.http.read-timeout": "5000",
}
_reached: set[tuple[str, str]] = set()


def reach(java: Java, location: str) -> None:
    """Raise `StorageError` unless the file system of ``location`` answers, once a process."""
    place = urlsplit(location)
    if (place.scheme, place.netloc) not in _reached:
        _ask(java, location)
        _reached.add((place.scheme, place.netloc))


def _ask(java: Java, location: str) -> None:
    thrown: SimpleQueue[Any] = SimpleQueue()
    work = _question(java, location, thrown.put)
    threading.Thread(target=work, name="statemigrate-reaching", daemon=True).start()
    try:
        found = thrown.get(timeout=PATIENCE)
    except Empty:
        raise no_answer(java, without_credentials(location), PATIENCE) from None
    if found is not None:
        raise found


def _question(java: Java, location: str, answer: Callable[[Any], None]) -> Callable[[], None]:
    def ask() -> None:
        try:
            conf = java.hadoop.conf.Configuration(java.configuration)
            for name, value in _SOON.items():
                conf.set(name, value)
            path = java.hadoop.fs.Path(location)
            system = java.hadoop.fs.FileSystem.newInstance(path.toUri(), conf)
            try:
                system.getFileStatus(path)
            finally:
                system.close()
        except JAVA_ERRORS as error:
            names = chain(thrown_by(error))
            is_empty = names[0][0] == "java.io.FileNotFoundException"
            answer(None if is_empty else unreachable(java, location, names))
        except Exception as error:
            answer(
                StorageError(
                    "SM-STORAGE-011", f"asking {location} failed", found=str(error), path=location
                )
            )
        else:
            answer(None)

    return ask
