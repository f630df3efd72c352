"""Texts of expressions that compute the same in other words, brought to one of them.

Spark itself takes ``1 = a`` for ``a = 1`` where it looks for equal expressions, and leaves both as
they are in a plan.
"""

from __future__ import annotations

import re

_EITHER_WAY = frozenset(
    {
        *("And", "Or", "Add", "Multiply", "EqualTo", "EqualNullSafe"),
        *("BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    }
)
"""Expressions of two parts that are the same in either order."""
_STEPS = frozenset({"HashAggregate", "ObjectHashAggregate", "SortAggregate"})
"""Steps that name what they group by and compute, in any order."""
_TURNED = {"LessThan": "GreaterThan", "LessThanOrEqual": "GreaterThanOrEqual"}
"""Expressions that are another one if their two parts change places."""
_VALUE = r"""(?:None|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"): [a-z]+(?:\([0-9,]+\))?"""
_VALUES = re.compile(rf"((?:, {_VALUE})+)(?=, value=0\))")
_PARTS = re.compile(r"""(?<![^(\s=])(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?=: )|[(),]|[^(),]""")
_OWN_FIELD = re.compile(r"(?:left|right|try|[a-z]+OnError|spark\.sql\.[A-Za-z.]+)=")
_NAME = re.compile(r"[A-Za-z]+$")


def in_one_order(text: str) -> str:
    """The text with what may have any order in one: values of ``IN (...)``, and parts of ``=``."""
    return _with_parts_in_order(
        _VALUES.sub(lambda found: ", ".join(["", *sorted(re.findall(_VALUE, found[0]))]), text)
    )


def _with_parts_in_order(text: str) -> str:
    """A text that is not written as expressions are, as by names of columns, is as given."""
    before: list[tuple[str, list[str]]] = []
    parts: list[str] = []
    current = ""
    for token in (found[0] for found in _PARTS.finditer(text)):
        if token == "(":  # noqa: S105 - a part of a text
            before.append((current, parts))
            current, parts = "", []
        elif token == ",":  # noqa: S105
            parts.append(current)
            current = ""
        elif token == ")":  # noqa: S105
            if not before:
                return text
            name, above = before.pop()
            current = _expression(name, [*parts, current])
            parts = above
        else:
            current += token
    return text if before else ",".join([*parts, current])


def _expression(called: str, parts: list[str]) -> str:
    name = _NAME.search(called)
    if name is not None and name[0] in _STEPS:
        return f"{called}({', '.join(sorted(each.strip() for each in parts))})"
    bare = [each.strip() for each in parts]
    if name is None or len(bare) < 2 or not all(map(_OWN_FIELD.match, bare[2:])):
        return f"{called}({','.join(parts)})"
    if name[0] in _TURNED:
        called = called[: name.start()] + _TURNED[name[0]]
        bare[:2] = bare[1::-1]
    elif name[0] in _EITHER_WAY:
        bare[:2] = sorted(bare[:2])
    else:
        return f"{called}({','.join(parts)})"
    return f"{called}({', '.join(bare)})"
