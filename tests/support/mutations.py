"""JSON documents with one thing or a few wrong, and bytes with a few changed."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

DEEP: Any = None
for _ in range(150):
    DEEP = [DEEP]
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    10**400,
    1.5,
    "",
    "²",
    "../../etc/passwd",
    "/etc/passwd",
    "a\0b",
    "\x1b[2J",
    "\u202e",
    "x" * 5_000,
    [],
    {},
    [None],
    {"": None},
    DEEP,
]
RAW = [
    b"",
    b"null",
    b"[]",
    b"3",
    b'"text"',
    b"{",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"1" * 10_000,
    b"\xff\xfe",
    b"NaN",
]


@st.composite
def mutated(draw: st.DrawFn, document: Any) -> Any:
    """``document`` with up to three parts replaced, removed or doubled."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(changed))
        if not places:
            break
        holder, name = draw(st.sampled_from(places))
        action = draw(st.sampled_from(["replace", "remove", "double", "rename"]))
        if action == "remove":
            del holder[name]
        elif action == "double" and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[name]))
        elif action == "rename" and isinstance(holder, dict):
            holder[draw(st.sampled_from(["", "other", "²", "x" * 300]))] = holder.pop(name)
        else:
            holder[name] = copy.deepcopy(draw(st.sampled_from(VALUES)))
    return changed


@st.composite
def altered(draw: st.DrawFn, data: bytes) -> bytes:
    """``data`` with up to four places overwritten, cut or lengthened; or something else."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(RAW) | st.binary(max_size=200))
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed)))
        length = draw(st.integers(0, 6))
        changed[at : at + length] = draw(st.binary(max_size=6))
    return bytes(changed)


def documents(document: Any) -> st.SearchStrategy[bytes]:
    """A document's text, with something wrong in what it says or in its bytes."""
    text = json.dumps(document).encode()
    return mutated(document).map(lambda each: json.dumps(each).encode()) | altered(text)


def _places(document: Any) -> Any:
    if isinstance(document, dict):
        pairs: Any = document.items()
    else:
        pairs = enumerate(document) if isinstance(document, list) else ()
    for name, inner in pairs:
        yield document, name
        if len(json.dumps(inner, default=str)) < 20_000:
            yield from _places(inner)
