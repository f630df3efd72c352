"""The checksum of what a script's code says, however it is written.

Comments, formatting and docstrings do not count: an edit of these changes no value. All else does,
names and the order of statements too, since only its author knows what a change of them means.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from typing import Any

_DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
_READS_DOCSTRINGS = "__doc__", "getdoc"
"""What code calls docstrings by; where a script has any of it, its docstrings count."""
_END = ")"


def code_checksum(source: str) -> str:
    """SHA-256 in hex over the syntax tree of a script; the same in each release of Python.

    Raises SyntaxError for a text that is no Python.
    """
    documented = any(word in source for word in _READS_DOCSTRINGS)
    found = hashlib.sha256()
    for part in _parts(ast.parse(source), documented=documented):
        found.update(part.encode() + b"\n")
    return found.hexdigest()


def _parts(tree: ast.AST, *, documented: bool) -> Iterator[str]:
    # A list and no recursion: a sum of a thousand terms is a thousand nodes deep.
    waiting: list[Any] = [tree]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, ast.Constant):
            yield f"{type(each.value).__name__} {_shown(each.value)}"
        else:
            yield f"({type(each).__name__}"
            waiting += (_END, *reversed(list(_fields(each, documented=documented))))


def _fields(node: ast.AST, *, documented: bool) -> Iterator[str | ast.AST]:
    """The names of a node's fields, each followed by what is in it; what is empty is left out.

    Releases of Python differ in fields that are empty.
    """
    for name, value in ast.iter_fields(node):
        if value is None or value == [] or name in ("kind", "type_comment"):
            continue
        yield f".{name}"
        for each in _of(node, name, value, documented=documented):
            # A missing key of a dict, as in {**other}, is not the same as none.
            yield each if isinstance(each, ast.AST) else f"{type(each).__name__} {_shown(each)}"


def _of(node: ast.AST, name: str, value: Any, *, documented: bool) -> list[Any]:
    if not isinstance(value, list):
        return [value]
    if name == "body" and isinstance(node, _DOCUMENTED) and not documented:
        return value[1:] if _is_text(value[0]) else value
    if name == "targets" and isinstance(node, ast.Delete):
        # Formatters put parentheses around what does not fit into a line.
        return [each for target in value for each in _deleted(target)]
    if isinstance(node, ast.JoinedStr):
        return _merged(value)
    return value


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _deleted(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple) and target.elts else [target]


def _merged(parts: list[ast.expr]) -> list[ast.expr]:
    """The parts of an f-string, whose text releases of Python cut up differently."""
    found: list[ast.expr] = []
    for part in parts:
        if not isinstance(part, ast.Constant):
            found.append(part)
        elif found and isinstance(found[-1], ast.Constant):
            found[-1] = ast.Constant(str(found[-1].value) + str(part.value))
        elif part.value != "":
            found.append(part)
    return found


def _shown(value: object) -> str:
    """A constant in ASCII: what is printable is not the same in all releases of Python."""
    # Python refuses to write a large number in decimal.
    return hex(value) if type(value) is int else ascii(value)
