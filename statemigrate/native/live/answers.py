"""Spark's answers to what is written, read when the next value is asked for.

PySpark waits for the state server's answer to every request, though that to a write only says
that it was done, and a visit of a page makes a request to set the key, one to read, one to write.
The server takes requests in order, so the answers may be read together: one wait a visit instead
of three. Its protocol is that of PySpark's ``stateful_processor_api_client`` and
``StateMessage.proto``, the same in 4.0 to 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statemigrate.errors import StorageError

_NEEDED = ("sockfile", "set_implicit_key", "_receive_proto_message", "_deserialize_from_bytes")
DONE = 0
"""The status of a request that was carried out."""


class LaterAnswers:
    """Stands between PySpark's client and its socket: writes are sent with the next question.

    Whatever PySpark reads comes after the answers that are owed, so it gets its own. The first
    refusal is raised by each read from then on, whoever catches it once.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._file = client.sockfile
        self._receive = client._receive_proto_message
        self._owed = 0
        self._refusal: StorageError | None = None
        client.sockfile = self
        client.set_implicit_key = self.deferred(client.set_implicit_key)

    @classmethod
    def of(cls, handle: Any) -> LaterAnswers | None:
        """Those of a task's handle; None where PySpark's client is not as it is known."""
        client = getattr(handle, "_statefulProcessorApiClient", None)
        return cls(client) if all(hasattr(client, name) for name in _NEEDED) else None

    @property
    def client(self) -> Any:
        """PySpark's."""
        return self._client

    def deferred(self, request: Callable[..., None]) -> Callable[..., None]:
        """A method of PySpark's that asks for one thing and is answered once, without the wait."""

        def later(*values: Any) -> None:
            self._client._receive_proto_message = self._owe
            try:
                request(*values)
            finally:
                # So that the class's own is found again.
                del self._client._receive_proto_message

        return later

    def settle(self) -> None:
        """Read the answers that are owed. Raises `StorageError` where Spark refused a request."""
        self._file.flush()
        owed, self._owed = self._owed, 0
        for _ in range(owed):
            status, message, _ = self._receive()
            if status != DONE:
                self._refusal = self._refusal or refused(status, message)
        if self._refusal is not None:
            raise self._refusal

    def write(self, data: bytes) -> int:
        """As the socket's, whose buffer is sent when an answer is wanted."""
        return int(self._file.write(data))

    def flush(self) -> None:
        """Nothing: what was written is sent before the next read."""

    def read(self, size: int) -> bytes:
        """As the socket's, behind the answers that are owed."""
        if self._owed or self._refusal is not None:
            self.settle()
        else:
            self._file.flush()
        return bytes(self._file.read(size))

    def _owe(self) -> tuple[int, str, bytes]:
        self._owed += 1
        return DONE, "", b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def refused(status: int, message: str) -> StorageError:
    """What is raised where Spark's state server did not do what it was asked."""
    return StorageError(
        "Spark refused what was asked of its state",
        expected="a key that is set, and values that are read and written",
        found=f"status {status}: {message}",
        next_action="see the executor's log for the reason; the batch is not committed and runs "
        "again with the next start",
    )


class LaterWrites:
    """One of Spark's value states, whose writes nobody waits for."""

    def __init__(self, state: Any, answers: LaterAnswers) -> None:
        self.get = state.get
        self.exists = state.exists
        self.update = answers.deferred(state.update)
        self.clear = answers.deferred(state.clear)
