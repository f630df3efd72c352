"""Proves that a generated script is what it was meant to be, before anything imports it.

What stands in a script comes from checkpoints too: names of fields, types, defaults. The proof does
not rest on how the text was written. It reads the text as Python would, and takes nothing for
granted but the project's own template.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn

from statemigrate.errors import FormatError, ScriptError
from statemigrate.formats import Avro, Format, Struct
from statemigrate.scripts.source import assignment

Formats = Mapping[str, Format | None]
WINDOW_AROUND = "window_around"
"""The function of this package that the functions of a script may call."""
PLACEHOLDER = "pass"
"""Stands for a format or for functions where a template is rendered without any."""

_KINDS = (
    *(ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.Raise),
    *(ast.Dict, ast.List, ast.Tuple, ast.ListComp, ast.DictComp, ast.comprehension),
    *(ast.Call, ast.keyword, ast.Name, ast.Attribute, ast.Subscript, ast.Constant),
    *(ast.IfExp, ast.Compare, ast.Is, ast.BoolOp, ast.Or, ast.UnaryOp, ast.USub),
    *(ast.BinOp, ast.Add, ast.Mod, ast.Slice),
    *(ast.Load, ast.Store),
)
"""What functions that take values from one format to another are made of."""
_NAMES = {
    *("Value", "UTC", "date", "datetime", "time", "timedelta", "Decimal", "NotImplementedError"),
    *("bool", "bytes", "float", "format", "int", "list", "str"),
    *("Any", "len", "max", "min", WINDOW_AROUND),
}
_ATTRIBUTES = {
    *("combine", "date", "encode", "fromhex", "fromisoformat", "get", "items", "replace"),
    *("lower", "lstrip", "rstrip", "strip", "upper"),
}


def prove_functions(source: str, lenses: Iterable[str] = ()) -> None:
    """Raise `ScriptError` unless a text is nothing but functions over values, and ``drops``.

    With ``lenses``, the names of those that it may call, it is one ``change`` made of them.

    They call what makes a value out of another, and each other; no module and nothing private.
    """
    tree = _parsed(source.encode("utf-8", "surrogatepass"))
    known = {*_NAMES, *_defined(tree), *lenses}
    for node in ast.walk(tree):
        if not isinstance(node, _KINDS):
            _refuse(f"{type(node).__name__} in a generated function")
        if isinstance(node, ast.Name) and node.id not in known:
            _refuse(f"the name {node.id!r}, which no generated function has")
        if isinstance(node, ast.Attribute) and node.attr not in _ATTRIBUTES:
            _refuse(f"the attribute {node.attr!r}, which no generated function uses")
    for statement in tree.body:
        is_change = bool(lenses) and _is_change(statement)
        if not (isinstance(statement, ast.FunctionDef) or _is_drops(statement) or is_change):
            _refuse(f"{type(statement).__name__} outside the generated functions")


def prove_script(data: bytes, plain: str, formats: Formats, parts: Iterable[str]) -> None:
    """Raise `ScriptError` unless a script is its template, the formats, and generated ``parts``.

    ``data`` is the file's content. ``plain`` is the same template rendered with `PLACEHOLDER` for
    each format and part: what else stands in the script has the same statements, which differ in
    texts and numbers at most. The formats are literals equal to ``formats``.
    """
    prove_formats(data, formats)
    expected = Counter(ast.dump(each) for part in parts for each in _parsed(part.encode()).body)
    rest = []
    for statement in _statements(_parsed(data)):
        written = ast.dump(statement)
        if expected[written]:
            expected[written] -= 1
        elif _assigned(statement) not in formats:
            rest.append(_outline(statement))
    wanted = [
        _outline(each)
        for each in _statements(_parsed(plain.encode()))
        if not isinstance(each, ast.Pass)
    ]
    if rest != wanted:
        _refuse("statements that neither the template has nor the generated functions")


def prove_formats(data: bytes, formats: Formats) -> None:
    """Raise `ScriptError` unless each format stands in a script once, as a literal equal to it."""
    tree = _parsed(data)
    assigned = [name for each in tree.body if (name := _assigned(each)) in formats]
    for name, format_ in formats.items():
        if assigned.count(name) != 1:
            _refuse(f"{assigned.count(name)} assignments to `{name}`")
        statement = next(each for each in tree.body if _assigned(each) == name)
        if format_ is None:
            is_same = ast.dump(statement) == ast.dump(ast.parse(assignment(name, None)).body[0])
        else:
            is_same = _literal(statement) == format_
        if not is_same:
            _refuse(f"`{name}`, which is not the literal of the format that it should be")


def _statements(tree: ast.Module) -> list[ast.stmt]:
    """Those of a script but its docstring, which is text."""
    return tree.body[ast.get_docstring(tree, clean=False) is not None :]


def _outline(statement: ast.stmt) -> str:
    """A statement without its texts and numbers, which do nothing by themselves."""
    copied = copy.deepcopy(statement)
    for node in ast.walk(copied):
        if isinstance(node, ast.Constant):
            node.value = None
            node.kind = None
    return ast.dump(copied)


def _assigned(statement: ast.stmt) -> str | None:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return None


def _literal(statement: ast.stmt) -> Format | None:
    """The format that a statement assigns by a literal alone."""
    match statement:
        case ast.Assign(
            value=ast.Call(
                func=ast.Name(id="Struct" | "Avro" as kind),
                args=[ast.Constant(value=str(text))],
                keywords=[],
            )
        ):
            try:
                return Struct(text) if kind == "Struct" else Avro(text)
            except FormatError:
                return None
    return None


def _is_drops(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id="drops")], value=ast.Tuple(elts=names)):
            return all(isinstance(each, ast.Constant) for each in names)
    return False


def _is_change(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id="change")], value=ast.Call(func=ast.Name(id="lens"))):
            return True
    return False


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name


def _parsed(data: bytes) -> ast.Module:
    try:
        return ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return _refuse(f"what is no Python: {error}", error)


def _refuse(found: str, cause: Exception | None = None) -> NoReturn:
    raise ScriptError(
        "SM-SCRIPT-010",
        "No script was written: its text is not what it was meant to be.",
        expected="the template, with each format as a literal, and the generated functions",
        found=found,
        next_action="look at the names in the checkpoint and at script.py.mako: nothing was "
        "imported; where both are in order, this is a fault of statemigrate, please report it",
    ) from cause
