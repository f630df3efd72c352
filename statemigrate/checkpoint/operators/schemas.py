"""The schema of a stateful operator's rows, as Spark notes it beside them.

The file ``_metadata/schema`` of partition 0 begins with its version, ``v1`` or ``v2``. Then come
the schemas of key and value as JSON: in version 1 each is one text, in version 2 a number of texts
that are to be put together, since a text is written with its length in two bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from statemigrate.errors import CheckpointError
from statemigrate.files import parse_json


def value_fields(data: bytes, path: str) -> list[dict[str, Any]]:
    """The fields of the value's schema, as Spark writes them in JSON.

    Raises `CheckpointError` for a file that is not understood.
    """
    try:
        texts = _texts(data)
        if next(texts) == "v1":
            next(texts)
            value = next(texts)
        else:
            value = _schemas(data)[1]
        fields = parse_json(value)["fields"]
        return [{"name": str(each["name"]), "type": each["type"]} for each in fields]
    except (ValueError, KeyError, IndexError, TypeError, StopIteration) as error:
        raise CheckpointError(
            f"{path} does not say what the state's rows are",
            expected="a schema file of version v1 or v2",
            found=f"{data[:40]!r}",
            next_action="restore the file from a copy of the checkpoint; Spark reads it too",
            path=path,
        ) from error


def _schemas(data: bytes) -> list[str]:
    version, at = _text(data, 0)
    if version != "v2":
        raise ValueError(version)
    found = []
    while at < len(data):
        count, at = int.from_bytes(data[at : at + 4]), at + 4
        parts = []
        for _ in range(min(count, len(data))):
            part, at = _text(data, at)
            parts.append(part)
        found.append("".join(parts))
    return found


def _texts(data: bytes) -> Iterator[str]:
    at = 0
    while at < len(data):
        text, at = _text(data, at)
        yield text


def _text(data: bytes, at: int) -> tuple[str, int]:
    """Java's ``writeUTF``: two bytes of length, then text."""
    length = int.from_bytes(data[at : at + 2])
    end = at + 2 + length
    if at + 2 > len(data) or end > len(data):
        raise ValueError("the file ends too early")
    return data[at + 2 : end].decode(), end
