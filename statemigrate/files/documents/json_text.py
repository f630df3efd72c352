"""JSON that somebody else may have written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn

from statemigrate.escapes import is_text

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
