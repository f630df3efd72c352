"""One root, and for every error its data and the next action.

An error is raised with what was expected, what was found and what to do next; the message shows all
of it, one line each, and the same parts stay readable as attributes for programs. Each error has a
code that never changes.

`error_codes.toml` next to this module is the only registry of what each code means, with its cause
and its cure. It is read when a code is looked up, never when an error is raised, so that workers
pay nothing for it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Self

from statemigrate.typed_json import typed, untyped

NO_VALUES = "STATEMIGRATE_NO_VALUES"
"""The environment variable that keeps keys and values of state out of errors and reports."""
HIDDEN = "(not shown)"
"""Stands in for a key or a value."""

# A key and its secret, which may hold a slash where nobody has escaped it; a name and a password.
_SECRETS = re.compile(r"(\bs3[an]?://)[^\s\"':/@]+:[^\s\"']*@|(://)[^\s\"':/?#@]*:[^\s\"'/?#@]*@")
_QUERY = re.compile(r"(://[^\s\"'?]*\?)[^\s\"'?]*=[^\s\"']*")


def without_credentials(text: str) -> str:
    """``text``, in whose URIs ``***`` stands for a password or key and for the query."""
    if "://" not in text:
        return text
    text = _SECRETS.sub(lambda match: f"{match[1] or match[2]}***@", text)
    return _QUERY.sub(r"\1***", text)


SHOWN = ("", "0", "false", "no")
"""What `NO_VALUES` is where it hides nothing."""
IN_TEXTS = "texts"
"""What `NO_VALUES` is where only rows show values, and no text that may quote one."""


def values_hidden() -> bool:
    """Whether keys and values of state are left out of errors, reports and all other texts."""
    return os.environ.get(NO_VALUES, "").lower() not in SHOWN


def rows_hidden() -> bool:
    """Whether rows of state are not shown either, in which columns can be masked."""
    return values_hidden() and os.environ.get(NO_VALUES, "").lower() != IN_TEXTS


def shown(value: object) -> str:
    """A key or value of state as an error shows it."""
    return HIDDEN if values_hidden() else repr(value)


class StatemigrateError(Exception):
    """The root of all errors that this package raises on purpose.

    Its texts show no credentials: those in a URI are replaced.

    ``code`` names the condition, as in ``SM-STATE-001``; the text shows it after the summary.
    ``summary`` is one line; ``expected``, ``found`` and ``next_action`` complete the message if
    they apply. Every further keyword is data of the error, in ``data``.
    """

    def __init__(
        self,
        code: str,
        summary: str,
        *,
        expected: object = None,
        found: object = None,
        next_action: str | None = None,
        **data: Any,
    ) -> None:
        self.code = code
        self.summary = without_credentials(summary)
        super().__init__(self.summary)
        self.expected = _clean(expected)
        self.found = _clean(found)
        self.next_action = None if next_action is None else without_credentials(next_action)
        self.data = data

    @property
    def headline(self) -> str:
        """The summary and the code, in one line."""
        return f"{self.summary} [{self.code}]"

    def __str__(self) -> str:
        parts = (("expected", self.expected), ("found", self.found), ("next", self.next_action))
        lines = [f"  {name}: {part}" for name, part in parts if part is not None]
        return "\n".join([self.headline, *lines])

    def but(self, **changes: Any) -> Self:
        """The same error with other parts, or with more data, from the same cause.

        ``summary``, ``expected``, ``found`` and ``next_action`` are parts; the rest is data.
        """
        made = type(self)(self.code, **{**self._parts(), **self.data, **changes})
        made.__cause__ = self.__cause__
        return made

    def to_json(self) -> dict[str, Any]:
        """The error as JSON, with the types of its data; `from_json` reads it.

        ``expected`` and ``found`` become texts, and the cause is omitted.
        """
        parts = {name: _text(part) for name, part in self._parts().items()}
        return {"type": type(self).__name__, "code": self.code, **parts, "data": typed(self.data)}

    @staticmethod
    def from_json(document: dict[str, Any]) -> StatemigrateError:
        """The error from a document of `to_json`, of the same class.

        If this module does not have the class, it is a plain `StatemigrateError`.
        """
        kind = globals().get(document["type"])
        if not (isinstance(kind, type) and issubclass(kind, StatemigrateError)):
            kind = StatemigrateError
        parts = {name: document[name] for name in _PARTS}
        return kind(document["code"], **parts, **untyped(document["data"]))

    def _parts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _PARTS}

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.code, self.summary, self.expected, self.found, self.next_action, self.data)
        return _rebuild, (type(self), *parts)


_PARTS = ("summary", "expected", "found", "next_action")


def _text(part: object) -> str | None:
    return None if part is None else str(part)


def _clean(part: object) -> object:
    return without_credentials(part) if isinstance(part, str) else part


def _rebuild(
    kind: type[StatemigrateError],
    code: str,
    summary: str,
    expected: object,
    found: object,
    next_action: str | None,
    data: dict[str, Any],
) -> StatemigrateError:
    return kind(code, summary, expected=expected, found=found, next_action=next_action, **data)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about a misspelt name: the known one that is like it, or nothing."""
    from difflib import get_close_matches

    for close in get_close_matches(name, list(known), n=1):
        return f"; did you mean {close}?"
    return ""


class FormatError(StatemigrateError):
    """A format that cannot be understood: malformed schema, unsupported type."""


class ValueMismatchError(StatemigrateError):
    """A value that does not fit its format. Data: ``field``, the dotted path of the field."""


class ScriptError(StatemigrateError):
    """A migration script that cannot be loaded, or lacks a part. Data: ``path``."""


class LineageError(StatemigrateError):
    """Scripts that do not form one chain: two heads, a missing parent, a broken old/new pair."""


class TransformError(StatemigrateError):
    """A transform raised an exception, or returned a value that does not fit (rule 12).

    Data: ``store``, ``source`` and ``target`` revisions, and the ``key``, once the caller has added
    it with `at`. The cause is chained.
    """

    def at(self, key: object) -> Self:
        """The same error of the value under ``key``."""
        store, colon, problem = self.summary.partition(":")
        return self.but(summary=f"{store}, key {shown(key)}{colon}{problem}", key=key)


class StartupError(StatemigrateError):
    """The start-up check (rule 10) found that code, scripts and checkpoint disagree.

    Data: ``store`` if it concerns one. Nothing was written.
    """


def require_word(name: str, given: object, words: Sequence[str]) -> None:
    """Raise `StartupError` where ``given`` is none of the words that the parameter takes."""
    if given not in words:
        raise StartupError(
            "SM-START-035",
            f"{name} is {given!r}, which it cannot be",
            expected=" or ".join(f'"{each}"' for each in words),
            found=repr(given),
            next_action=f"correct {name}",
            parameter=name,
        )


class ProcessorError(StatemigrateError):
    """A processor keeps something in its attributes from one key to the next. Data: ``attributes``.

    The batch wrote nothing.
    """


class CodeError(StatemigrateError):
    """Code that cannot be imported, or is of another kind than requested. Data: ``reference``."""


class RewriteError(StatemigrateError):
    """A rewrite or fork cannot be made as requested. Nothing was published.

    If the new directory is in use, the data has ``contents``: ``checkpoint`` for a complete one,
    ``unfinished`` for the rest of an ended fork, and ``other``.
    """


class CheckpointError(StatemigrateError):
    """The durable state cannot be read or written correctly. Data: ``path``."""


class CorruptFileError(CheckpointError):
    """A durable file is truncated, altered or missing."""


class ForeignFileError(CheckpointError):
    """Below a checkpoint there is a link, or something else that no query has written."""


class PageError(CheckpointError):
    """A page of state is damaged, of a newer format, of another place, or grows too large."""


class StorageError(CheckpointError):
    """A file system or object store cannot be reached, or refused or failed an operation."""


class CheckpointInUseError(CheckpointError):
    """Another query or command uses the checkpoint or its working directory."""


class MissingPackageError(StatemigrateError, ImportError):
    """A required package is not installed. Data: ``package``."""


class UnsupportedError(StatemigrateError):
    """Something that this engine does not support; a request for it is an error, never ignored."""


def without_pyspark(error: ImportError) -> MissingPackageError | None:
    """What to say of an import that failed without PySpark; None if it was something else.

    statemigrate does not bring PySpark, so that it never replaces the one of a platform.
    """
    if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
        return None
    return MissingPackageError(
        "SM-PACKAGES-001",
        "PySpark is not installed, which this needs",
        expected="PySpark 4.0 or newer, the platform's or one of your own",
        found=f"this Python without it ({sys.executable})",
        next_action="run this with the Python of your Spark; or pip install 'statemigrate[spark]'",
        package="pyspark",
    )


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
    # Not above, as every process loads this module and few look up a code.
    import tomllib
    from importlib.resources import files

    text = (files(__package__) / "error_codes.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)
    return MappingProxyType({code: ErrorCode(code, **entry) for code, entry in entries.items()})
