"""Spark's state server for a value state and a map, in a thread, for PySpark's own client."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
from pyspark.sql.types import StructType

KEY = StructType().add("page", "integer")
_HEAD = (
    b"\x80\x02cpyspark.sql.types\n_create_row_inbound_converter\nq\x00cpyspark.sql.types\n"
    b'_parse_datatype_json_string\nXZ\x00\x00\x00{"type":"struct","fields":[{"name":"page","type":'
    b'"binary","nullable":true,"metadata":{}}]}q\x01\x85Rq\x02\x85R(cbuiltins\nbytes\n'
    b"c__builtin__\nbytearray\nX"
)
_TAIL = b"q\x03X\x07\x00\x00\x00latin-1q\x04\x86Rq\x05\x85Rq\x06tRq\x07."


def java_row(page: bytes) -> bytes:
    """A row of one binary value as Spark 4.3 pickles it."""
    text = page.decode("latin-1").encode()
    return _HEAD + struct.pack("<i", len(text)) + text + _TAIL


def other_row(page: bytes) -> bytes:
    """The same as it might be pickled one day."""
    return pickle.dumps(Row(page=bytearray(page)))


@dataclass
class StateServer:
    """What was asked, and the state by key; ``refuses`` names a request that it does not do.

    ``writes_row`` makes the bytes of a row of the page.
    """

    refuses: str = ""
    writes_row: Any = java_row
    asked: list[str] = field(default_factory=list)
    pages: dict[bytes, bytes] = field(default_factory=dict)
    large: dict[tuple[bytes, Any], bytes] = field(default_factory=dict)
    _key: bytes = b""

    def serve(self, connection: socket.socket) -> None:
        """Answer until the client hangs up, which it may do without waiting."""
        with suppress(ConnectionError):
            self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        data = b""
        while received := connection.recv(1 << 20):
            data += received
            while len(data) >= 8 and len(data) >= 8 + (size := int.from_bytes(data[4:8], "big")):
                connection.sendall(self._answer(data[8 : 8 + size]))
                data = data[8 + size :]

    def _answer(self, request: bytes) -> bytes:
        message = messages.StateRequest.FromString(request)
        name, value = self._done(message)
        self.asked.append(name)
        refused = name == self.refuses
        answer = messages.StateResponse(
            statusCode=1 if refused else 0,
            errorMessage="the store is closed" if refused else "",
            value=b"" if refused else value,
        ).SerializeToString()
        return len(answer).to_bytes(4, "big") + answer

    def _done(self, message: Any) -> tuple[str, bytes]:
        if message.HasField("implicitGroupingKeyRequest"):
            self._key = message.implicitGroupingKeyRequest.setImplicitKey.key
            return "key", b""
        if message.HasField("statefulProcessorCall"):
            return "variable", b""
        if message.stateVariableRequest.HasField("mapStateCall"):
            return self._done_of_map(message.stateVariableRequest.mapStateCall)
        call = message.stateVariableRequest.valueStateCall
        if call.HasField("get"):
            page = self.pages.get(self._key)
            return "get", b"" if page is None else self.writes_row(page)
        if call.HasField("clear"):
            self.pages.pop(self._key, None)
            return "clear", b""
        (self.pages[self._key],) = pickle.loads(call.valueStateUpdate.value)  # noqa: S301  the client's
        return "update", b""

    def _done_of_map(self, call: Any) -> tuple[str, bytes]:
        name = call.WhichOneof("method")
        asked = getattr(call, name)
        key = self._key, pickle.loads(asked.userKey)  # noqa: S301  the client's
        if name == "getValue":
            value = self.large.get(key)
            return name, b"" if value is None else self.writes_row(value)
        if name == "removeKey":
            self.large.pop(key, None)
        else:
            (self.large[key],) = pickle.loads(asked.value)  # noqa: S301  the client's
        return name, b""


@contextmanager
def client_of(server: StateServer) -> Iterator[StatefulProcessorApiClient]:
    """PySpark's client of a server, which serves while the block runs."""
    with TemporaryDirectory(prefix="state") as folder, socket.socket(socket.AF_UNIX) as listening:
        path = os.fspath(Path(folder, "socket"))
        listening.bind(path)
        listening.listen()
        client = StatefulProcessorApiClient(path, KEY)
        connection, _ = listening.accept()
        with connection:
            thread = threading.Thread(target=server.serve, args=(connection,))
            thread.start()
            try:
                yield client
            finally:
                with suppress(BrokenPipeError):
                    client.sockfile.close()
                client._client_socket.close()
                thread.join()
