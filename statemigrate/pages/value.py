"""The state variable that has the page of the key that Spark has set: read once, written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statemigrate.errors import StorageError
from statemigrate.families import Span
from statemigrate.pages.page import Page, Section
from statemigrate.pages.record import SCHEMA, large_of, variable_of
from statemigrate.processor import struct_of

_NEEDED = ("_send_proto_message", "_receive_proto_message", "_deserialize_from_bytes")
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
        super().__init__(handle, operator)
        self._client = client
        self._request = _get_request(variable_of(operator))
        self._rows = _Rows(client)

    def get(self) -> bytes | None:
        """See `PageValue.get`. Raises `StorageError` where Spark refuses."""
        self._client._send_proto_message(self._request)
        status, message, row = self._client._receive_proto_message()
        if status != _DONE:
            raise _refused(status, message)
        return self._rows.page(row) if row else None


def page_value(handle: Any, operator: str = "") -> PageValue:
    """The page's variable of a task's handle; the plain one where PySpark's client is another."""
    client = getattr(handle, "_statefulProcessorApiClient", None)
    is_known = all(hasattr(client, name) for name in _NEEDED)
    if is_known:
        return PromptPageValue(handle, client, operator)
    return PageValue(handle, operator)


def _get_request(variable: str) -> bytes:
    from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

    call = messages.ValueStateCall(stateName=variable, get=messages.Get())
    asked = messages.StateVariableRequest(valueStateCall=call)
    return bytes(messages.StateRequest(stateVariableRequest=asked).SerializeToString())


class _Rows:
    """Rows of one binary value, as Java pickles them: the same bytes around each page.

    PySpark reads the first, and each that is not around its page as that one was.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._before = self._after = b""

    def page(self, row: bytes) -> bytes:
        """The page in a row."""
        if self._before and row.startswith(self._before):
            page, after = self._parted(row)
            if after == self._after:
                # Java writes bytes as the text that has them as its characters.
                return page.decode().encode("latin-1")
        return self._learned(row)

    def _parted(self, row: bytes) -> tuple[bytes, bytes]:
        start = len(self._before) + _LENGTH
        end = start + int.from_bytes(row[len(self._before) : start], "little")
        return row[start:end], row[end:]

    def _learned(self, row: bytes) -> bytes:
        page = bytes(self._client._deserialize_from_bytes(row)[0])
        before, mark, _ = row.partition(_BYTES)
        self._before = before + mark if mark else b""
        text, self._after = self._parted(row)
        if text != page.decode("latin-1").encode():
            self._before = b""
        return page


def _refused(status: int, message: str) -> StorageError:
    return StorageError(
        "SM-PAGES-010",
        "Spark refused to read a page of its state",
        expected="the page, or that there is none",
        found=f"status {status}: {message}",
        next_action="see the executor's log for the reason; the batch is not committed and runs "
        "again with the next start",
    )


# Where the large values of a page are: in a map of Spark's state, next to the page.


class LargeValues:
    """`Outside` of the page that is visited: Spark has a map of its own for each."""

    def __init__(self, handle: Any, operator: str = "") -> None:
        key, value = struct_of("family STRING, key BINARY"), struct_of("value BINARY")
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

    def _opened(self) -> Section:
        assert self._page is not None, "no page was turned to"  # noqa: S101
        return self._page.section(MARKS, MARKS_FORMAT)


def _mark(family: str, key: bytes) -> bytes:
    return family.encode() + _END_OF_NAME + key
