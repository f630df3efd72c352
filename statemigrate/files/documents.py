"""JSON documents in a checkpoint: names, sizes, checksums and shapes, all with bounds.

What a JSON document must look like before anything is made of it.

A shape is written as the document is: ``str`` for a text, ``int`` for a number that counts, a
dictionary of the fields that must be there, a list of one shape for a list of such. Further fields
are let pass, for a later release's.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar

from statemigrate.errors import CorruptFileError, FormatError
from statemigrate.quoting import is_text


@dataclass(frozen=True)
class Maybe:
    """Null, or ``shape``; a field of it may be missing if ``missing``."""

    shape: Any
    missing: bool = False


@dataclass(frozen=True)
class Table:
    """An object with any names, its values of one ``shape``."""

    shape: Any


@dataclass(frozen=True)
class OneOf:
    """One of these texts."""

    texts: tuple[str, ...]


OBJECT = Table(object)
"""An object with anything in it."""
VERSION = range(-1, 2**63)
"""A number of a batch or version, or -1 for none."""


def check_shape(document: Any, shape: Any, place: str = "the document") -> None:  # noqa: PLR0911  # one a kind
    """Raise ValueError, which says where, unless ``document`` has ``shape``."""
    match shape:
        case dict():
            _require(isinstance(document, dict), "an object", document, place)
            return _check_fields(document, shape, place)
        case list():
            _require(isinstance(document, list), "a list", document, place)
            return _check_each(enumerate(document), shape[0], f"{place}[{{}}]".format)
        case Table():
            _require(isinstance(document, dict), "an object", document, place)
            return _check_each(document.items(), shape.shape, f"{place}.{{}}".format)
        case Maybe():
            return None if document is None else check_shape(document, shape.shape, place)
        case OneOf():
            known = isinstance(document, str) and document in shape.texts
            return _require(known, f"one of {', '.join(shape.texts)}", document, place)
        case range():
            return _require(
                type(document) is int and document in shape, "a number", document, place
            )
    if shape is int:
        return _require(type(document) is int and 0 <= document < 2**63, "a count", document, place)
    return _require(isinstance(document, shape), f"a {shape.__name__}", document, place)


def _check_fields(document: dict[str, Any], shape: dict[str, Any], place: str) -> None:
    for name, inner in shape.items():
        if name in document:
            check_shape(document[name], inner, f"{place}.{name}")
        elif not (isinstance(inner, Maybe) and inner.missing):
            raise ValueError(f"{place} has no {name}")


def _check_each(parts: Any, shape: Any, place: Callable[[Any], str]) -> None:
    for name, part in parts:
        # Where nothing can be wrong no place is put together.
        if shape is not object:
            check_shape(part, shape, place(name))


def _require(holds: bool, expected: str, found: Any, place: str) -> None:
    if not holds:
        text = repr(found)
        raise ValueError(
            f"{place} is {text if len(text) <= 60 else text[:57] + '...'}, not {expected}"
        )


# JSON that somebody else may have written.


DEEPEST = 200
"""Levels of lists and objects that a document may have; Spark's and ours have some ten."""


def parse_json(text: str | bytes, *, not_finite: bool = False) -> Any:
    """The value of a JSON text. Raises ValueError, whatever is wrong with it.

    Python's own parser raises `RecursionError` for a deep text, and takes ``NaN``, which is no
    JSON, and ``1e999``, which no number holds. Only with ``not_finite`` are they taken. It takes
    half a character too, which has no UTF-8 form. What passes here can be walked by a function that
    calls itself, and every text of it can be written.
    """
    constant: Callable[[str], Any] = float if not_finite else _not_json
    number: Callable[[str], Any] = float if not_finite else _finite
    try:
        document = json.loads(text, parse_constant=constant, parse_float=number)
    except RecursionError as error:
        raise ValueError(f"nested deeper than {DEEPEST} levels") from error
    _check_depth(document)
    return document


def _check_depth(document: Any) -> None:
    level = [document]
    for _ in range(DEEPEST):
        level = [inner for each in level for inner in _inner(each)]
        if not level:
            return
    raise ValueError(f"nested deeper than {DEEPEST} levels")


def _inner(document: Any) -> Any:
    if isinstance(document, dict):
        for name in document:
            _check_text(name)
        return document.values()
    if isinstance(document, str):
        _check_text(document)
    return document if isinstance(document, list) else ()


def _check_text(text: str) -> None:
    if not is_text(text):
        raise ValueError(f"half a character in {text!a:.80}")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _not_json(text)


def _not_json(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


# Names of files that are numbers.


_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")


def whole_number(name: str) -> int | None:
    """The number that ``name`` is, as Spark writes batches and versions; None for anything else.

    ``str.isdigit`` holds for superscripts, which ``int`` refuses, and for other scripts' digits,
    under which a second file could pass for the same batch.
    """
    return int(name) if _NUMBER.fullmatch(name) else None


# JSON documents that carry the checksum of what they say.


RESTORE_COPY = (
    "restore the checkpoint directory from a copy that holds the intact file; "
    "do not delete anything from it"
)
Made = TypeVar("Made")


def sealed(document: dict[str, Any]) -> bytes:
    """A JSON document together with the checksum of its content."""
    body = _canonical(document)
    return f'{{"sha256":"{document_checksum(document)}","body":{body}}}\n'.encode()


def document_checksum(document: Mapping[str, Any]) -> str:
    """The SHA-256 of what a document says, whatever the order and spaces of its text."""
    return hashlib.sha256(_canonical(document).encode()).hexdigest()


def _canonical(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def unsealed(data: bytes, place: str) -> dict[str, Any]:
    """What `sealed` was given; raises `CorruptFileError`, which names ``place``, if altered."""
    try:
        envelope = parse_json(data)
        check_shape(envelope, {"body": OBJECT, "sha256": str})
    except ValueError as error:
        raise _altered(place, "a JSON document with its checksum", str(error)) from error
    body: dict[str, Any] = envelope["body"]
    expected = envelope["sha256"]
    found = document_checksum(body)
    if found != expected:
        raise _altered(place, f"SHA-256 {expected}", found)
    return body


def understood(place: str, what: str, make: Callable[[], Made]) -> Made:
    """What ``make`` makes of the document at ``place``; `CorruptFileError` where it is not one."""
    try:
        return make()
    except (ValueError, FormatError) as error:
        raise _altered(place, f"{what} with all its parts", str(error)) from error


def _altered(place: str, expected: str, found: str) -> CorruptFileError:
    return CorruptFileError(
        "SM-CHECKPOINT-024",
        f"{place} is not what was written",
        expected=expected,
        found=found,
        next_action=RESTORE_COPY,
        path=place,
    )


# Files outside of a checkpoint that appear whole, or not at all.


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """A new file that takes the place of ``path`` at the end of the block, unless that fails.

    It is written under a name that nobody can foresee. ``private`` is for what shows state: only
    its owner can read it. Otherwise a file keeps the rights it had.
    """
    if _is_stream(path):
        with path.open("wb") as stream:
            yield stream
        return
    descriptor, name = _unfinished(path)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(descriptor)
        if not private:
            Path(name).chmod(_rights(path))
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _is_stream(path: Path) -> bool:
    # As /dev/stdout is, next to which no file can be made.
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        return False
    return stat.S_ISCHR(kind) or stat.S_ISFIFO(kind)


def _unfinished(path: Path) -> tuple[int, str]:
    try:
        return tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error


def _rights(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
