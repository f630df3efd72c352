"""What the two codecs of a format make of the same values and bytes: compiled, and in Python."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

# Missing, it fails these tests: `make test` installs it.
import statemigrate_codec

from statemigrate.errors import StatemigrateError
from statemigrate.formats import Format
from tests.support.struct_values import exact

_LOADED = "statemigrate.formats.avro.extension.loaded"


def in_python() -> AbstractContextManager[Any]:
    """Where a format first writes and reads in here, it does so in Python from then on."""
    return patch(_LOADED, return_value=None)


def in_compiled_code() -> AbstractContextManager[Any]:
    """The same by the package, whatever the environment says."""
    return patch(_LOADED, return_value=statemigrate_codec)


def outcome(action: Callable[[], Any]) -> Any:
    """What an action gives, type by type, or the error it is refused with."""
    try:
        return exact(action())
    except StatemigrateError as error:
        return error.code, str(error)
    except Exception as error:
        return type(error), str(error)


class Twins:
    """A format twice: one writes and reads in compiled code, one in Python."""

    def __init__(self, make: Callable[[], Format]) -> None:
        with in_compiled_code():
            self.compiled = _begun(make())
        with in_python():
            self.pure = _begun(make())

    def write_alike(self, value: Any) -> Any:
        """Hold that both give the same bytes and conformed value, or error, of one and of many."""
        found = [_written(each, value) for each in (self.compiled, self.pure)]
        assert found[0] == found[1], value
        return found[0]

    def read_alike(self, data: bytes) -> Any:
        """Hold that both give the same value, or error, of one and of many."""
        found = [_read(each, data) for each in (self.compiled, self.pure)]
        assert found[0] == found[1], data
        return found[0]


def _begun(format_: Format) -> Format:
    outcome(lambda: format_.encode({"no": "such value"}))
    outcome(lambda: format_.decode(b"\xff"))
    return format_


def _written(format_: Format, value: Any) -> Any:
    one = outcome(lambda: format_.encode(value))
    many = outcome(lambda: format_.encode_many([value, value])[1])
    return one, many, outcome(lambda: list(format_.encode_conformed(value)))


def _read(format_: Format, data: bytes) -> Any:
    one = outcome(lambda: format_.decode(data))
    return one, outcome(lambda: format_.decode_many([data, data])[1])
