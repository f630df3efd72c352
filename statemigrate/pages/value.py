"""The state variable that has the page of the key that Spark has set: read once, written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statemigrate.errors import StorageError
from statemigrate.families import Span
from statemigrate.pages.page import OpenSection, Page
from statemigrate.pages.record import SCHEMA, large_of, variable_of
from statemigrate.processor import struct_of

_NEEDED = (
    "_send_proto_message",
    "_receive_proto_message",
    "_serialize_to_bytes",
    "_deserialize_from_bytes",
)
"""Of PySpark's client of the state server, the same in 4.0 to 4.3."""
_DONE = 0
"""The status of a request that was carried out."""
_BYTES = b"bytearray\nX"
"""Before the length of a binary value, in what Java writes of a row."""
_LENGTH = 4


class PageValue:
    """A page's bytes in Spark's state, through the public value state."""

    def __init__(self, handle: Any, operator: str = "") -> None:
        self._state = handle.getValueState(variable_of(operator), struct_of(SCHEMA))

    def get(self) -> bytes | None:
        """The page; None where there is none."""
        stored = self._state.get()
        return None if stored is None else bytes(stored[0])

    def put(self, page: bytes | None) -> None:
        """Write the page, or with None remove it."""
        if page is None:
            self._state.clear()
        else:
            self._state.update((page,))


class PromptPageValue(PageValue):
    """The same without PySpark's reading of the type in every row that it gets.

    It asks as PySpark's ``ValueStateClient`` does, and through the same client, which stays as it
    is; the request is made once.
    """

    def __init__(self, handle: Any, client: Any, operator: str = "") -> None:
        from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

        super().__init__(handle, operator)
        self._answers = _Answers(client)
        call = messages.ValueStateCall(stateName=variable_of(operator), get=messages.Get())
        self._request = _request(valueStateCall=call)

    def get(self) -> bytes | None:
        """See `PageValue.get`. Raises `StorageError` where Spark refuses."""
        return self._answers.value(self._request)


def page_value(handle: Any, operator: str = "") -> PageValue:
    """The page's variable of a task's handle; the plain one where PySpark's client is another."""
    client = _known_client(handle)
    if client is None:
        return PageValue(handle, operator)
    return PromptPageValue(handle, client, operator)


def _known_client(handle: Any) -> Any:
    """PySpark's client of the state server; None where it is another than it was."""
    client = getattr(handle, "_statefulProcessorApiClient", None)
    return client if all(hasattr(client, name) for name in _NEEDED) else None


class _Answers:
    """What the state server answers to requests for one binary value."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._rows = _Rows(client)

    def value(self, request: bytes) -> bytes | None:
        """The value, None where there is none. Raises `StorageError` where Spark refuses."""
        self._client._send_proto_message(request)
        status, refusal, row = self._client._receive_proto_message()
        if status != _DONE:
            raise _refused(status, refusal)
        return self._rows.value(row) if row else None


def _request(**call: Any) -> bytes:
    """The bytes of a request for a state variable."""
    from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

    asked = messages.StateVariableRequest(**call)
    return bytes(messages.StateRequest(stateVariableRequest=asked).SerializeToString())


class _Rows:
    """Rows of one binary value, as Java pickles them: the same bytes around each value.

    PySpark reads the first, and each that is not around its value as that one was.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._before = self._after = b""

    def value(self, row: bytes) -> bytes:
        """The value in a row."""
        if self._before and row.startswith(self._before):
            value, after = self._parted(row)
            if after == self._after:
                # Java writes bytes as the text that has them as its characters.
                return value.decode().encode("latin-1")
        return self._learned(row)

    def _parted(self, row: bytes) -> tuple[bytes, bytes]:
        start = len(self._before) + _LENGTH
        end = start + int.from_bytes(row[len(self._before) : start], "little")
        return row[start:end], row[end:]

    def _learned(self, row: bytes) -> bytes:
        value = bytes(self._client._deserialize_from_bytes(row)[0])
        before, mark, _ = row.partition(_BYTES)
        self._before = before + mark if mark else b""
        text, self._after = self._parted(row)
        if text != value.decode("latin-1").encode():
            self._before = b""
        return value


def _refused(status: int, message: str) -> StorageError:
    return StorageError(
        "SM-PAGES-010",
        "Spark refused to read a page of its state",
        expected="the page, or that there is none",
        found=f"status {status}: {message}",
        next_action="see the executor's log for the reason; the batch is not committed and runs "
        "again with the next start",
    )


# Where the large values and leaves of a page are: in a map of Spark's state, next to the page.


_LARGE_KEY, _LARGE_VALUE = "family STRING, key BINARY", "value BINARY"


class LargeValues:
    """`Outside` of the page that is visited: Spark has a map of its own for each."""

    def __init__(self, handle: Any, operator: str = "") -> None:
        key, value = struct_of(_LARGE_KEY), struct_of(_LARGE_VALUE)
        self._map = handle.getMapState(large_of(operator), key, value)

    def get(self, family: str, key: bytes) -> bytes | None:
        """See `Outside.get`."""
        found = self._map.getValue((family, key))
        return None if found is None else bytes(found[0])

    def put(self, family: str, key: bytes, value: bytes) -> None:
        """See `Outside.put`."""
        self._map.updateValue((family, key), (value,))

    def delete(self, family: str, key: bytes) -> None:
        """See `Outside.delete`."""
        self._map.removeKey((family, key))


class PromptLargeValues(LargeValues):
    """The same without PySpark's reading of the type in every row; see `PromptPageValue`."""

    def __init__(self, handle: Any, client: Any, operator: str = "") -> None:
        super().__init__(handle, operator)
        self._client = client
        self._name = large_of(operator)
        self._key = struct_of(_LARGE_KEY)
        self._answers = _Answers(client)

    def get(self, family: str, key: bytes) -> bytes | None:
        """See `Outside.get`. Raises `StorageError` where Spark refuses."""
        from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

        user_key = self._client._serialize_to_bytes(self._key, (family, key))
        asked = messages.GetValue(userKey=user_key)
        call = messages.MapStateCall(stateName=self._name, getValue=asked)
        return self._answers.value(_request(mapStateCall=call))


def large_values(handle: Any, operator: str = "") -> LargeValues:
    """The large values of a task's handle; see `page_value`."""
    client = _known_client(handle)
    if client is None:
        return LargeValues(handle, operator)
    return PromptLargeValues(handle, client, operator)


# The entries of a page that did not migrate, marked in the page itself.
#
# A mark is written in the batch that tried the entry, with the deployment that did: so that it is
# reported once, and its neighbours' visits do not try it again. Every start tries it again.


MARKS = "@quarantine"
"""The section's name, which no store can have."""
MARKS_FORMAT = b"quarantine".ljust(16, b"\x00")
"""In place of the fingerprint of a format."""
_END_OF_NAME = b"\x00"


class PageQuarantine:
    """The marks in the page that was turned to last; new ones have the name of ``deployment``."""

    def __init__(self, deployment: str) -> None:
        self._deployment = deployment.encode()
        self._page: Page | None = None

    def turn(self, page: Page) -> None:
        """Go on with another page."""
        self._page = page

    @property
    def has_marks(self) -> bool:
        """Whether any entry of the page is marked."""
        return self._page is not None and self._page.contains_family(MARKS)

    def is_marked(self, family: str, key: bytes) -> bool:
        """Whether this deployment has tried the entry already."""
        return self.has_marks and self._opened().get(_mark(family, key)) == self._deployment

    def mark(self, family: str, key: bytes) -> None:
        """Note that the entry was tried and does not migrate."""
        self._opened().put(_mark(family, key), self._deployment)

    def keep(self, is_left: Callable[[str, bytes], bool]) -> None:
        """Remove the marks of all but those entries for which ``is_left`` is true."""
        if not self.has_marks:
            return
        section = self._opened()
        for mark, _ in section.scan(Span()):
            family, _, key = mark.partition(_END_OF_NAME)
            if not is_left(family.decode(), key):
                section.delete(mark)

    def _opened(self) -> OpenSection:
        assert self._page is not None, "no page was turned to"  # noqa: S101
        return self._page.section(MARKS, MARKS_FORMAT)


def _mark(family: str, key: bytes) -> bytes:
    return family.encode() + _END_OF_NAME + key
