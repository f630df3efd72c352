"""The complement of a value: what the ways that it has gone have left out of it.

Two functions between two formats, one up and one down, mostly lose something each: what a script
drops on the way up, what it adds on the way down. `carry` takes a value one way and gives what the
way back would not bring, so that the value that comes back is the one that went. It needs nothing
but the two functions, so it holds for lenses and for functions by hand.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from statemigrate.errors import CheckpointError
from statemigrate.lenses.differences import (
    Difference,
    check_difference,
    content_hash,
    copied,
    difference,
    disagreements,
    parts,
    restored,
)
from statemigrate.typed_json import typed, untyped

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Remainder:
    """What one way has left out of a value.

    ``of`` is the hash of the value that it came to, by which one that nobody has written since is
    known. ``difference`` is what the way back would not bring. Where the way back fails for that
    value, ``whole`` is the value before, as a document.
    """

    of: str
    difference: Difference | None = None
    whole: Any = None


def carry(
    value: Any, there: Function, back: Function, left: Remainder | None, *, exact: bool = False
) -> tuple[Any, Remainder | None]:
    """Take a value one way; what it is there, and what it leaves behind.

    ``there`` and ``back`` are the two functions, each of which gives a value as its format has it
    and changes none. ``left`` is what the value left behind when it came. It goes back into the
    fields that still are as it came; a field that was written since stays as it was written, and so
    does one that would not be as it was written on the way back. ``exact`` says that ``there``
    leaves nothing out.
    """
    unchanged = left is not None and left.of == content_hash(value)
    if left is not None and unchanged and left.difference is None:
        made = untyped(left.whole)
    else:
        made = there(value)
        if left is not None and left.difference is not None:
            put = restored(made, left.difference)
            made = put if unchanged else _merged(value, made, put, left.difference, back)
    return made, None if exact else _remainder(value, made, back)


def _merged(value: Any, made: Any, put: Any, found: Difference, back: Function) -> Any:
    """``made`` with all of a difference that leaves what was written as it was written."""
    if not disagreements(made, put):
        return made
    lost = _lost(value, made, back)
    if _agrees(value, put, back, lost):
        return put
    for part in parts(found):
        tried = restored(made, part)
        if _agrees(value, tried, back, lost):
            made = tried
    return made


def _agrees(value: Any, made: Any, back: Function, lost: set[Any] | None) -> bool:
    found = _lost(value, made, back)
    return found is not None and (lost is None or found <= lost)


def _lost(value: Any, made: Any, back: Function) -> set[Any] | None:
    """Where the way back brings something else; None where it fails."""
    try:
        return disagreements(value, back(made))
    except Exception:  # whatever a script's function raises
        return None


def _remainder(value: Any, made: Any, back: Function) -> Remainder | None:
    try:
        brought = back(made)
    except Exception:  # whatever a script's function raises: then nothing less than all is enough
        return Remainder(content_hash(made), whole=typed(copied(value)))
    found = difference(value, brought)
    return None if found is None else Remainder(content_hash(made), found)


# The complement of a value that went through several scripts: a remainder for each.

Way = Literal["upgrade", "downgrade"]


@dataclass(frozen=True)
class ScriptRemainder:
    """The remainder that a value has of one script.

    ``way`` is which of the script's functions left it out, ``formats`` tell of the formats before
    and after the script.
    """

    way: Way
    formats: str
    remainder: Remainder


@dataclass(frozen=True)
class Complement:
    """By revision, the remainders of the scripts that a value has gone through."""

    entries: Mapping[str, ScriptRemainder] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.entries)

    def remainder(self, revision: str, way: Way, formats: str) -> Remainder | None:
        """What a value that now goes a ``way`` through a script left behind when it came.

        Raises CheckpointError where that is of other formats, or of the same way.
        """
        entry = self.entries.get(revision)
        if entry is None:
            return None
        if entry.formats != formats or entry.way == way:
            raise CheckpointError(
                "SM-LENS-012",
                f"a value has a complement that is not of revision {revision} as its script is now",
                expected=f"formats {formats}, and a complement of the other way than {way}",
                found=f"formats {entry.formats}, and one of {entry.way}",
                next_action="deploy the scripts that the values were written with, or give the "
                "complement up: `statemigrate backfill CHECKPOINT --retire --complement`; nothing "
                "of this batch was written",
                revision=revision,
            )
        return entry.remainder

    def having(self, revision: str, entry: ScriptRemainder | None) -> Complement:
        """The same with another remainder of a script, or with none."""
        rest = {name: each for name, each in self.entries.items() if name != revision}
        return Complement(rest if entry is None else {**rest, revision: entry})

    def to_bytes(self) -> bytes:
        """The form that is stored: a version, a checksum, and JSON."""
        document = {
            revision: [each.way, each.formats, each.remainder.of, *_kept(each.remainder)]
            for revision, each in self.entries.items()
        }
        body = json.dumps(document, separators=(",", ":")).encode()
        return _VERSION + zlib.crc32(body).to_bytes(_CHECKSUM, "big") + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Complement:
        """Read what `to_bytes` gave. Raises CheckpointError for anything else."""
        version, checksum = data[:1], data[1 : 1 + _CHECKSUM]
        body = data[1 + _CHECKSUM :]
        if version != _VERSION:
            raise _unreadable(f"version {version.hex() or 'none'}", f"version {_VERSION.hex()}")
        if checksum != zlib.crc32(body).to_bytes(_CHECKSUM, "big"):
            raise _unreadable("bytes that its checksum does not fit", "the bytes that were written")
        try:
            document = json.loads(body)
            return cls({revision: _entry(*each) for revision, each in document.items()})
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as cause:
            raise _unreadable("a document of another shape", "one that was written here") from cause


_VERSION = b"\x02"
_CHECKSUM = 4


def _kept(remainder: Remainder) -> list[Any]:
    whole = [] if remainder.difference is not None else [remainder.whole]
    return [remainder.difference, *whole]


def _entry(way: Any, formats: Any, of: Any, found: Any, *whole: Any) -> ScriptRemainder:
    if way not in ("upgrade", "downgrade") or len(whole) != (found is None):
        raise ValueError("no remainder")
    if [type(formats), type(of)] != [str, str]:
        raise ValueError("no remainder")
    if found is not None:
        check_difference(found)
        return ScriptRemainder(way, formats, Remainder(of, found))
    untyped(whole[0])
    return ScriptRemainder(way, formats, Remainder(of, whole=whole[0]))


def _unreadable(found: str, expected: str) -> CheckpointError:
    return CheckpointError(
        "SM-LENS-011",
        "the complement of a value cannot be read",
        expected=expected,
        found=found,
        next_action="use the release that has written it, or restore the checkpoint from a copy; "
        "`statemigrate backfill CHECKPOINT --retire --complement` gives all complements up. "
        "Nothing of this batch was written",
    )
