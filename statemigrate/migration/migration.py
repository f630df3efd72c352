"""One migration script, as data."""

from __future__ import annotations

import dis
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, signature
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Literal

from statemigrate.errors import LineageError
from statemigrate.formats import Format, Value

if TYPE_CHECKING:
    from statemigrate.lenses import Change

BASE = "base"
"""The revision of state that was written before the store's first migration."""

TimeToLive = Literal["keep", "restart"]
"""What migrating does to a value that expires: it keeps its time, or its time starts again."""

Direction = Literal["upgrade", "downgrade"]
"""Which of a script's two functions: the way to its revision, or back from it."""

Transform = Callable[..., Value]
"""Takes a plain value by field name and returns one; it may change the value it was given.

One that has a second parameter takes the value's key too, a dict of the key's columns.
"""

Rekey = Callable[[Value, Value], Iterable[Any]]
"""Takes a key and its value as they were before the script, and changes neither.

Gives the new keys, none to drop the entry: a dict, or an iterable of dicts. The value under each is
what `upgrade` makes; an item that is a pair of a key and a value in the format `new` has its own.
"""

Merge = Callable[[Value, Value], Value]
"""Makes one value in the format `new` of two that meet under one key, in whatever order."""

TableTransform = Callable[[Any], Any]
"""Does with many entries what `upgrade` and `rekey` do with one.

It takes and returns a ``pyarrow.Table`` with the columns ``key`` and ``value``, both structs.
"""


@dataclass(frozen=True)
class ExampleValue:
    """A plain value in the format `old`, and what `upgrade` makes of it where a script says so.

    A baseline has none of both: its examples are values in the format `new`. ``key`` is that of
    the value, for functions that take it.
    """

    value: Value
    expected: Value | None = None
    key: Value | None = None


@dataclass(frozen=True)
class OpenQuestion:
    """What a generated script leaves open: the text of a comment in ``line``, counted from 1.

    Only `statemigrate check` refuses such a script; it runs.
    """

    line: int
    text: str


@dataclass(frozen=True)
class Migration:
    """One script, which leads from ``down_revision`` to ``revision``.

    ``old`` is None in a *baseline*: the first script of a store, which only records the current
    format of the state and has nothing to transform. ``downgrade`` is None if there is no way back.
    ``checksum`` is 64 hex characters over the script's code, ``text_checksum`` over its text, as
    earlier releases recorded it; ``path`` is for display. `statemigrate check` tries the
    ``examples`` and refuses open ``questions``. ``drops`` are the paths of fields that ``upgrade``
    or ``downgrade`` loses on purpose.

    ``new_key``, ``rekey``, ``merge`` and ``upgrade_table`` are only for a rewrite; in a baseline
    ``new_key`` records the current key. ``upgrade`` may be None if there is an ``upgrade_table``,
    and if a ``rekey`` returns all values or leaves them unchanged. ``change`` are the lenses that
    the functions are derived from, if the script declares its change. ``lossless`` is the script's
    claim that each function undoes the other, or that lenses do not; None if it says nothing.
    ``replaces`` has the checksums of the scripts that were squashed into this one, by revision; one
    of them had its own.
    """

    revision: str
    down_revision: str | None
    store: str
    old: Format | None
    new: Format
    upgrade: Transform | None = None
    downgrade: Transform | None = None
    message: str = ""
    checksum: str = ""
    path: str = ""
    time_to_live: TimeToLive = "keep"
    examples: tuple[ExampleValue, ...] = ()
    questions: tuple[OpenQuestion, ...] = ()
    drops: tuple[str, ...] = ()
    new_key: Format | None = None
    rekey: Rekey | None = None
    merge: Merge | None = None
    upgrade_table: TableTransform | None = None
    text_checksum: str | None = None
    change: Change | None = None
    lossless: bool | None = None
    replaces: Mapping[str, str] = field(default_factory=dict)

    def was_applied_as(self, recorded: str) -> bool:
        """Whether a recorded checksum of an applied script is this script's."""
        return recorded in (self.checksum, self.text_checksum, self.replaces.get(self.revision))

    @property
    def makes_values(self) -> bool:
        """Whether it defines every new value: with a function, or by the same format."""
        if self.upgrade or self.upgrade_table or self.rekey:
            return True
        same = self.old is not None and self.old.fingerprint == self.new.fingerprint
        return self.merge is not None and same

    @property
    def is_baseline(self) -> bool:
        """Whether the script only records a format."""
        return self.old is None

    @property
    def is_reversible(self) -> bool:
        """Whether values can be taken back to the format before."""
        return self.downgrade is not None

    def comes_back(self, direction: Direction) -> bool:
        """Whether the script claims that what goes in a direction comes back as it was.

        A script claims it by ``lossless``. One with lenses does, unless it denies it, where none of
        them loses anything on that way.
        """
        if self.downgrade is None or self.upgrade is None or self.lossless is not None:
            return bool(self.lossless)
        if self.change is None:
            return False
        return self.change.comes_back if direction == "upgrade" else self.change.comes_forth

    @property
    def where(self) -> str:
        """The script as an error message names it: its path, or else its revision."""
        return self.path or f"revision {self.revision}"


# What a store and a revision may be called: both become parts of file and column family names.
#
# The state of one of Spark's own operators is a store too, called by its kind and number.


_STORE = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
OPERATOR_WORDS = (
    "aggregation",
    "deduplicate",
    "deduplicate-within-watermark",
    "session-window",
    "join",
    "groups",
    "limit",
)
"""The kinds of Spark's own operators, as their stores are called."""
_OPERATOR = re.compile(rf"(?:{'|'.join(OPERATOR_WORDS)})-\d+|join-\d+\.(?:left|right)")
_REVISION = re.compile(r"[A-Za-z0-9_]+")
_RESERVED = frozenset({"base", "bases", "head", "heads", "current", "default"})


def check_store_name(store: object) -> str:
    """Return ``store`` if it can name a store, else raise LineageError.

    Reserved are the words alembic reads as revisions, and Spark's default column family. A leading
    underscore is refused because Spark keeps such state variable names for itself. The state of an
    operator is called as in ``aggregation-0`` and ``join-1.left``.
    """
    if is_operator_store(store):
        return str(store)
    if isinstance(store, str) and _STORE.fullmatch(store) and store.lower() not in _RESERVED:
        return store
    raise LineageError(
        "SM-LINEAGE-021",
        f"{store!r} cannot be the name of a store.",
        expected=f"letters, digits and underscores, a letter first; not {_reserved()}; or the "
        "state of an operator, as in aggregation-0 or join-1.left",
        found=repr(store),
        next_action="choose another name, such as 'auctions'",
        store=store,
    )


def is_operator_store(store: object) -> bool:
    """Whether a name is that of the state of one of Spark's own operators."""
    return isinstance(store, str) and _OPERATOR.fullmatch(store) is not None


def check_revision(revision: object, where: str) -> str:
    """Return ``revision`` if it can be one, else raise LineageError naming the script."""
    if isinstance(revision, str) and _is_revision(revision):
        return revision
    raise LineageError(
        "SM-LINEAGE-022",
        f"{revision!r} in {where} cannot be a revision.",
        expected=f"letters, digits and underscores; not {_reserved()}",
        found=repr(revision),
        next_action="`statemigrate new` chooses a fresh revision for a script",
        revision=revision,
    )


def _is_revision(revision: str) -> bool:
    reserved = {*_RESERVED, "complement"}
    return bool(_REVISION.fullmatch(revision)) and revision.lower() not in reserved


def _reserved() -> str:
    return ", ".join(sorted(_RESERVED))


# What a script's functions can be called with.


_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


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
    """Whether a transform takes the key as well as the value.

    It does if it must have two arguments, or if its second parameter is called ``key``.
    """
    if not takes(function, 1):
        return takes(function, 2)
    try:
        parameters = signature(function).parameters.values()
    except ValueError:
        return False
    return [each.name for each in parameters if each.kind in _BY_POSITION][1:2] == ["key"]


# What a transform imports while it runs.


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
