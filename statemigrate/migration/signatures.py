"""What a script's functions can be called with."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether it can be called with ``count`` arguments by place; True where Python cannot tell."""
    try:
        signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def takes_key(function: Callable[..., Any]) -> bool:
    """Whether a transform takes the key beside the value.

    It does if it must have two arguments, or if its second parameter is called ``key``.
    """
    if not takes(function, 1):
        return takes(function, 2)
    try:
        parameters = signature(function).parameters.values()
    except ValueError:
        return False
    return [each.name for each in parameters if each.kind in _BY_PLACE][1:2] == ["key"]
