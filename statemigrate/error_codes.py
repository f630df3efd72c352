"""What each error code means, what causes it and what cures it.

`error_codes.toml` next to this module is the only registry. It is read when a code is looked up,
never when an error is raised, so that workers pay nothing for it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

CODE = re.compile(r"\bSM-[A-Z]+-[0-9]{3}\b")
"""A code of this package, in any text."""


@dataclass(frozen=True)
class ErrorCode:
    """One condition: ``title`` is a line, ``cause`` and ``cure`` are a few sentences each."""

    code: str
    title: str
    cause: str
    cure: str

    @property
    def topic(self) -> str:
        """What the code is about, as in ``STATE`` of ``SM-STATE-001``."""
        return self.code.split("-")[1]


@cache
def error_codes() -> Mapping[str, ErrorCode]:
    """Every code with its entry, grouped by topic."""
    text = (files(__package__) / "error_codes.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)
    return MappingProxyType({code: ErrorCode(code, **entry) for code, entry in entries.items()})
