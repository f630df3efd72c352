"""Whether two Python functions compute the same, as far as their code tells.

A plan has the name of a function of the user's, and two functions of one name may compute other
things. Their code is compared: instructions, constants, defaults, and what they take from around
them. The names of modules do not count, as the old code and the new one are of two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from itertools import islice
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

_MOST = 10_000
"""So many parts are looked at; of a function that is made of more, as of a library, it is asked."""
_PLAIN = (type(None), type(...), bool, int, float, complex, str, bytes)


class _UnknownError(Exception):
    """Something of which nothing tells what it computes."""


def digest_of_command(command: bytes) -> str:
    """`digest_of` of a function as Spark has it; empty where that cannot be read.

    Only for what this process has given to Spark itself: reading it runs code.
    """
    from pyspark.serializers import CloudPickleSerializer

    try:
        found = CloudPickleSerializer().loads(command)  # type: ignore[no-untyped-call]
    except Exception:  # what reading a user's objects raises is theirs to choose
        return ""
    return digest_of(found[0] if isinstance(found, tuple) and found else found)


def digest_of_udf(expression: Any) -> str:
    """`digest_of` the function of a ``PythonUDF`` of Catalyst's."""
    from pyspark import SparkContext

    byte = SparkContext._jvm.scala.reflect.ClassTag.Byte()  # type: ignore[union-attr]
    return digest_of_command(bytes(expression.func().command().toArray(byte)))


def digest_of(function: Any) -> str:
    """The same for functions with the same code; empty where the code does not say it all."""
    try:
        parts = list(islice(_parts(function, ()), _MOST + 1))
    except (_UnknownError, RecursionError):
        return ""
    if len(parts) > _MOST:
        return ""
    return sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _parts(value: Any, within: tuple[Any, ...]) -> Iterator[str]:
    """What a value is made of, as texts. Raises `_UnknownError`."""
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
    elif any(value is each for each in within):
        yield f"again {len(within)}"
    elif isinstance(value, FunctionType):
        yield from _function(value, (*within, value))
    elif isinstance(value, CodeType):
        yield from _code(value, (*within, value))
    elif isinstance(value, ModuleType):
        yield f"module {value.__name__}"
    elif isinstance(value, type | BuiltinFunctionType) and value.__module__ in _BUILT_IN:
        yield f"built in {value.__qualname__}"
    else:
        yield from _several(value, (*within, value))


def _several(value: Any, within: tuple[Any, ...]) -> Iterator[str]:
    """What several values together are made of."""
    if isinstance(value, set | frozenset):
        yield f"set {sorted(json.dumps(list(_parts(each, within))) for each in value)}"
        return
    if isinstance(value, partial):
        inner: list[Any] = [value.func, value.args, value.keywords]
    elif type(value) is dict:
        inner = [each for pair in value.items() for each in pair]
    elif type(value) in (list, tuple):
        inner = list(value)
    else:
        raise _UnknownError
    yield f"{type(value).__name__} {len(inner)}"
    for each in inner:
        yield from _parts(each, within)


_BUILT_IN = frozenset(
    {*("builtins", "math", "datetime", "decimal", "_decimal", "json", "re", "time", "uuid")}
)
"""Modules of Python's own, of which the names say what is computed."""


def _function(function: FunctionType, within: tuple[Any, ...]) -> Iterator[str]:
    if function.__module__ in _BUILT_IN:
        yield f"built in {function.__qualname__}"
        return
    yield "function"
    yield from _code(function.__code__, within)
    yield from _parts((function.__defaults__, function.__kwdefaults__), within)
    for cell in function.__closure__ or ():
        try:
            yield from _parts(cell.cell_contents, within)
        except ValueError as error:
            raise _UnknownError from error
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield f"global {name}"
            yield from _parts(function.__globals__[name], within)


def _code(code: CodeType, within: tuple[Any, ...]) -> Iterator[str]:
    yield f"code {code.co_code.hex()} {code.co_names} {code.co_argcount} {code.co_kwonlyargcount}"
    yield from _parts(code.co_consts, within)


def _names(code: CodeType) -> set[str]:
    """All names that code and the functions within it take from around them, and attributes."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return {*code.co_names}.union(*map(_names, inner))
