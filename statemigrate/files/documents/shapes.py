"""What a JSON document must look like before anything is made of it.

A shape is written as the document is: ``str`` for a text, ``int`` for a number that counts, a
dictionary of the fields that must be there, a list of one shape for a list of such. Further fields
are let pass, for a later release's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
            f"{place} is {text if len(text) <= 60 else text[:57] + '...'}, no {expected}"
        )
