"""What a transform imports while it runs."""

from __future__ import annotations

import dis
from types import CodeType, FunctionType


def imported_inside(function: FunctionType) -> set[str]:
    """The modules that a function imports each time it runs, as it names them."""
    codes, found = [function.__code__], set()
    while codes:
        code = codes.pop()
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
        # With a try around it an import may be meant to fail.
        if not code.co_exceptiontable:
            instructions = dis.get_instructions(code)
            found |= {each.argval for each in instructions if each.opname == "IMPORT_NAME"}
    return found
