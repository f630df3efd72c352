"""Whether two Python functions compute the same, as far as their code tells.

A plan has the name of a function of the user's, and two functions of one name may compute other
things. Their code is compared: what the source says, defaults, and what they take from around them.
The names of modules do not count, as the old code and the new one are of two. Nor do comments,
docstrings, annotations and the names of local variables.

Source is the same for every release of Python, and bytecode is not. Where no source is at hand that
compiles to the function, its bytecode is taken, and the digest names the release of Python.
"""

from __future__ import annotations

import ast
import json
import linecache
import re
import sys
import sysconfig
from abc import ABC
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from functools import lru_cache, partial
from hashlib import sha256
from itertools import islice
from logging import Logger
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, Generic, NamedTuple
from uuid import UUID

_MOST = 10_000
"""So many parts are looked at; of a function that is made of more, as of a library, it is asked."""
_PLAIN = (type(None), type(...), bool, int, float, complex, str, bytes)


_BYTECODE = "bytecode"
"""The part that says of a function that what follows is its bytecode."""
_RELEASE = f"py{sys.version_info[0]}.{sys.version_info[1]}:"


_DIGEST = re.compile(r"py(\d+\.\d+):[0-9a-f]{32}")


def python_releases(texts: Iterable[str]) -> set[str]:
    """The releases of Python whose bytecode is in any of these texts with digests."""
    return {release for text in texts for release in _DIGEST.findall(text)}


def without_bytecode(text: str) -> str:
    """A text with digests, those of bytecode left out."""
    return _DIGEST.sub("bytecode", text)


class _UnknownError(Exception):
    """Something that does not show what it computes."""


def digest_of_command(command: bytes) -> str:
    """`digest_of` of a function as Spark has it; empty where that cannot be read.

    Only for what this process has given to Spark itself: reading it runs code.
    """
    found = _object_of(command)
    return "" if found is None else digest_of(found)


def digest_of_udf(expression: Any) -> str:
    """`digest_of` the function of a ``PythonUDF`` of Catalyst's."""
    return digest_of_command(_command(expression))


def object_of_udf(expression: Any) -> Any:
    """A copy of the function of a ``PythonUDF`` of Catalyst's; None where it cannot be read.

    Only for what this process has given to Spark itself: reading it runs code.
    """
    return _object_of(_command(expression))


def _command(expression: Any) -> bytes:
    from pyspark import SparkContext

    byte = SparkContext._jvm.scala.reflect.ClassTag.Byte()  # type: ignore[union-attr]
    return bytes(expression.func().command().toArray(byte))


def _object_of(command: bytes) -> Any:
    from pyspark.serializers import CloudPickleSerializer

    try:
        found = CloudPickleSerializer().loads(command)  # type: ignore[no-untyped-call]
    except Exception:  # what reading a user's objects raises is theirs to choose
        return None
    return found[0] if isinstance(found, tuple) and found else found


def digest_of(function: Any) -> str:
    """The same for functions with the same code; empty where the code does not say it all.

    It begins with the release of Python where the source of a part is not at hand, as in
    ``py3.11:``: only digests of one release can be compared then.
    """
    try:
        parts = list(islice(_parts(function, ()), _MOST + 1))
    except (_UnknownError, RecursionError):
        return ""
    if len(parts) > _MOST:
        return ""
    digest = sha256(json.dumps(parts).encode()).hexdigest()[:32]
    return f"{_RELEASE}{digest}" if _BYTECODE in parts else digest


def _parts(value: Any, within: tuple[Any, ...]) -> Iterator[str]:
    """What a value is made of, as texts. Raises `_UnknownError`."""
    if type(value) in _PLAIN:
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, Logger):
        yield "logger"
    elif any(value is each for each in within):
        yield f"again {len(within)}"
    elif isinstance(value, FunctionType):
        yield from _function(value, (*within, value))
    elif isinstance(value, CodeType):
        yield from _code(value, (*within, value))
    elif isinstance(value, ModuleType):
        yield f"module {value.__name__}"
    elif isinstance(value, type | BuiltinFunctionType) and _is_of_python(value.__module__):
        yield f"built in {value.__qualname__}"
    else:
        yield from _several(value, (*within, value))


def _several(value: Any, within: tuple[Any, ...]) -> Iterator[str]:
    """What several values together are made of."""
    if isinstance(value, set | frozenset):
        yield f"set {sorted(json.dumps(list(_parts(each, within))) for each in value)}"
        return
    if isinstance(value, type):
        yield "class"
        inner = list(_of_class(value))
    else:
        of_kind = next((each for kind, each in _KINDS if isinstance(value, kind)), None)
        inner = list(_of_object(value) if of_kind is None else of_kind(value))
        yield f"{type(value).__name__ if of_kind else 'object'} {len(inner)}"
    for each in inner:
        yield from _parts(each, within)


def _pairs(value: Any) -> list[Any]:
    return [each for pair in value.items() for each in pair]


_KINDS: Sequence[tuple[Any, Callable[[Any], Iterable[Any]]]] = (
    (partial, lambda value: (value.func, value.args, value.keywords)),
    (staticmethod | classmethod, lambda value: (value.__func__,)),
    (MethodType, lambda value: (value.__func__, value.__self__)),
    (property, lambda value: (value.fget, value.fset, value.fdel)),
    (type(lru_cache(len)), lambda value: (value.__wrapped__,)),
    (re.Pattern, lambda value: (value.pattern, value.flags)),
    (date | time | timedelta | tzinfo | Decimal | UUID | range, lambda value: (repr(value),)),
    (defaultdict, lambda value: (value.default_factory, *_pairs(value))),
    (MappingProxyType, _pairs),
    (Enum, lambda value: (value.name, value.value, type(value))),
)
"""What values of a kind are made of. Others are of a class, and have attributes."""
_CONTAINERS: Sequence[tuple[type, Callable[[Any], Iterable[Any]]]] = (
    (dict, _pairs),
    (list, list),
    (tuple, list),
    (set, sorted),
    *((each, lambda value, kind=each: (kind(value),)) for each in (str, bytes, int, float)),
)
_SHOWN_BASES = (object, *(each for each, _ in _CONTAINERS), BaseException, Exception, Generic, ABC)
"""Classes of Python's own whose instances have nothing but what is looked at here."""


def _of_object(value: Any) -> Iterator[Any]:
    """The class of a value, and all that the value has. Raises `_UnknownError` for what hides."""
    kind = type(value)
    if kind in (dict, list, tuple):
        yield from _pairs(value) if kind is dict else value
        return
    bases = (each for each in kind.__mro__ if each not in _SHOWN_BASES)
    if _is_of_python(kind.__module__) or not all(map(_is_written_in_python, bases)):
        raise _UnknownError
    yield kind
    yield from _pairs(dict(sorted(getattr(value, "__dict__", {}).items())))
    for each in kind.__mro__:
        slots = vars(each).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            yield name
            yield getattr(value, name, None)
    for base, contents in _CONTAINERS:
        if isinstance(value, base):
            yield from contents(value)


_IN_HEAP = 1 << 9
"""The flag of classes that a ``class`` statement makes. Those of compiled modules lack it."""


def _is_written_in_python(kind: type) -> bool:
    return bool(kind.__flags__ & _IN_HEAP)


_UNMEANT = frozenset(
    {
        *("__module__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__qualname__"),
        *("__slots__", "__firstlineno__", "__static_attributes__", "__abstractmethods__"),
        *("__annotate__", "__annotate_func__", "__annotations_cache__", "__orig_bases__"),
        *("__parameters__", "__match_args__", "__dataclass_params__", "__dataclass_fields__"),
        *("_abc_impl", "_fields", "_field_defaults"),
    }
)
"""Attributes of a class that say where it is written, or follow from others."""


class _Pair(NamedTuple):
    """Shows what Python makes of the fields of a tuple with names."""

    first: int


_DESCRIPTORS = (MemberDescriptorType, GetSetDescriptorType, type(_Pair.first))
"""What stands in a class for a field that each instance has."""


def _of_class(kind: type) -> Iterator[Any]:
    """The bases of a class, the names of its fields, and all that it defines."""
    yield from kind.__bases__
    if issubclass(kind, Enum):
        yield [(name, each.value) for name, each in kind.__members__.items()]
        yield [each for each in vars(kind).values() if isinstance(each, FunctionType)]
        return
    yield list(vars(kind).get("__annotations__", ()))
    for name, each in sorted(vars(kind).get("__dataclass_fields__", {}).items()):
        yield from (name, None if each.default_factory is MISSING else each.default_factory)
    for name, each in sorted(vars(kind).items()):
        if isinstance(each, _DESCRIPTORS):
            yield name
        elif name not in _UNMEANT and not (name.startswith("_") and _is_made(each)):
            yield from (name, each)


def _is_made(attribute: Any) -> bool:
    """Whether Python itself makes an attribute, from the fields of a class."""
    found = getattr(attribute, "__func__", attribute)
    code = getattr(found, "__code__", None)
    return code is not None and code.co_filename.startswith(("<string", "namedtuple_"))


_STANDARD = Path(sysconfig.get_path("stdlib"))


@lru_cache(maxsize=256)
def _is_of_python(module: str | None) -> bool:
    """Whether a module is one of Python's own, whose names show what is computed."""
    if module is None or module.partition(".")[0] not in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or _is_within(Path(file), _STANDARD)


@lru_cache(maxsize=256)
def _is_installed(module: str) -> bool:
    """Whether a module is of Python's own, or of a package that is installed."""
    file = getattr(sys.modules.get(module), "__file__", None)
    places = (_STANDARD, *(Path(sysconfig.get_path(each)) for each in ("purelib", "platlib")))
    return file is None or any(_is_within(Path(file), each) for each in places)


def _is_within(file: Path, folder: Path) -> bool:
    return file.is_relative_to(folder) or file.resolve().is_relative_to(folder.resolve())


def _function(function: FunctionType, within: tuple[Any, ...]) -> Iterator[str]:
    module = str(function.__module__)
    if _is_of_python(module) or module.startswith("statemigrate."):
        yield f"built in {function.__qualname__}"
        return
    source = source_of(function)
    if source is None:
        yield _BYTECODE
        yield from _code(function.__code__, within)
    else:
        yield f"source {source}"
    yield from _parts((function.__defaults__, function.__kwdefaults__), within)
    for cell in function.__closure__ or ():
        try:
            yield from _parts(cell.cell_contents, within)
        except ValueError as error:
            raise _UnknownError from error
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            found = function.__globals__[name]
            yield f"global {name}"
            yield from _parts(found, within)
            if isinstance(found, ModuleType) and not _is_installed(found.__name__):
                yield from _of_module(found, function.__code__, within)


def _of_module(module: ModuleType, code: CodeType, within: tuple[Any, ...]) -> Iterator[str]:
    """What code may take out of a module of the user's, by the names in the code."""
    for name in sorted(_names(code) & vars(module).keys()):
        yield f"attribute {name}"
        yield from _parts(getattr(module, name), within)


def _code(code: CodeType, within: tuple[Any, ...]) -> Iterator[str]:
    yield f"code {code.co_code.hex()} {code.co_names} {code.co_argcount} {code.co_kwonlyargcount}"
    yield from _parts(code.co_consts, within)


def _names(code: CodeType) -> set[str]:
    """All names that code and the functions within it take from around them, and attributes."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return {*code.co_names}.union(*map(_names, inner))


# The source of a function, proven by compiling it.


_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def source_of(function: FunctionType) -> str | None:
    """What the source of a function says; None where none is at hand.

    A file may have changed since Python read it, so the text must compile to the function's own
    code. Two lambdas in one line have none, as nothing tells them apart.
    """
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    if not text:
        return None
    scopes, codes = _compiled(text)
    found = [each for each in scopes if (_first_line(each), _name(each)) == _place(code)]
    if len(found) != 1 or code not in codes:
        return None
    return _Saying(found[0], code.co_freevars).text()


def _place(code: CodeType) -> tuple[int, str]:
    return code.co_firstlineno, code.co_name


@lru_cache(maxsize=32)
def _compiled(text: str) -> tuple[list[_Scope], list[CodeType]]:
    """The functions in a module's text, and the code that it compiles to."""
    try:
        tree = ast.parse(text)
        module = compile(text, "<source>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return [], []
    return [each for each in ast.walk(tree) if isinstance(each, _Scope)], list(_codes(module))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _first_line(scope: _Scope) -> int:
    decorators = [] if isinstance(scope, ast.Lambda) else scope.decorator_list
    return min([scope.lineno, *(each.lineno for each in decorators)])


def _name(scope: _Scope) -> str:
    return "<lambda>" if isinstance(scope, ast.Lambda) else scope.name


_OMITTED = frozenset(
    {"ctx", "kind", "type_comment", "annotation", "returns", "type_params", "type_ignores"}
)
"""Fields of nodes that say nothing of what is computed."""


class _Saying:
    """A function's syntax tree as text, with numbers for the names that it binds itself."""

    def __init__(self, scope: _Scope, free: Sequence[str]) -> None:
        """``free`` are the names from a function around it, in the order of their values."""
        self._scope = scope
        self._named = {name: f"free {place}" for place, name in enumerate(free)}
        outer = (each for each in ast.walk(scope) if isinstance(each, ast.Global))
        self._outer = {name for each in outer for name in each.names}
        for each in ast.walk(scope):
            if each is not scope:
                self._bind(each)

    def text(self) -> str:
        """The parameters and the body; defaults are values, and compared as such."""
        scope = self._scope
        parameters = scope.args
        names = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]
        names += [each for each in (parameters.vararg, parameters.kwarg) if each is not None]
        shape = [len(parameters.posonlyargs), len(parameters.args), len(parameters.kwonlyargs)]
        shape += [parameters.vararg is not None, parameters.kwarg is not None]
        is_async = isinstance(scope, ast.AsyncFunctionDef)
        # A lambda and a function that returns at once are the same.
        body = [ast.Return(scope.body)] if isinstance(scope, ast.Lambda) else _without_words(scope)
        parts = [
            is_async,
            shape,
            list(map(self._described, names)),
            list(map(self._described, body)),
        ]
        return json.dumps(parts)

    def _bind(self, node: ast.AST) -> None:
        name: str | None = None
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            name = node.id
        elif isinstance(node, ast.ExceptHandler | ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name
        if name is not None and name not in self._outer:
            self._named.setdefault(name, f"local {len(self._named)}")

    def _described(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._described(each) for each in node]
        if not isinstance(node, ast.AST):
            return self._named.get(node, node) if isinstance(node, str) else repr(node)
        if isinstance(node, ast.Constant):
            return ["Constant", type(node.value).__name__, repr(node.value)]
        if isinstance(node, ast.keyword | ast.Attribute):
            # Names of others' parameters and attributes.
            own = "arg" if isinstance(node, ast.keyword) else "attr"
            return [type(node).__name__, getattr(node, own), self._described(node.value)]
        fields: Mapping[str, Any] = dict(ast.iter_fields(node))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            fields = {**fields, "body": _without_words(node)}
        contents = [
            [name, self._described(each)]
            for name, each in fields.items()
            # Releases differ in whether a field of nothing is there.
            if name not in _OMITTED and each is not None and each != []
        ]
        return [type(node).__name__, *contents]


def _without_words(scope: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """The body without a docstring."""
    first = scope.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return scope.body[1:] if isinstance(first.value.value, str) else scope.body
    return scope.body
