"""What the log says: events, and what became of each store in one."""

from __future__ import annotations

import inspect
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from statemigrate.files import VERSION, Maybe, OneOf, Table, check_shape

# By what and by whom something is done: versions of the code, of Spark and of this, and a user.


CODE_VERSION = "STATEMIGRATE_CODE_VERSION"
"""The environment variable that says which version of the code runs, where no git can."""
_LONGEST = 200
_SECONDS = 5


@dataclass(frozen=True)
class Stamp:
    """What an event of the log says of its origin; None where it is not known.

    ``code`` is what `CODE_VERSION` says, or else the commit of the checkout that the code is in,
    with ``-dirty`` behind it where the checkout has changes that are not committed. ``by`` is the
    user of the operating system.
    """

    code: str | None
    by: str
    statemigrate: str
    spark: str | None

    @classmethod
    def of(cls, code: object) -> Stamp:
        """The stamp of a processor, a function, or what lies in a folder."""
        return cls(code_version(code), _user(), _own_version(), _spark_version())


def code_version(code: object) -> str | None:
    """The version of code: of an object's source file, or of a folder. None where nobody says."""
    version = os.environ.get(CODE_VERSION, "").strip()
    if version:
        return version[:_LONGEST]
    place = code if isinstance(code, Path) else _source_of(code)
    return None if place is None else _commit(place)


def _source_of(code: object) -> Path | None:
    kind = code if inspect.isroutine(code) or isinstance(code, type) else type(code)
    try:
        return Path(inspect.getfile(inspect.unwrap(kind)))
    except (TypeError, OSError):
        # Made in a notebook or shell.
        return None


def _commit(place: Path) -> str | None:
    """The commit of the checkout that has ``place`` among its files."""
    folder = place if place.is_dir() else place.parent
    name = "." if place.is_dir() else place.name
    # What is installed in an environment within a checkout is not of its commit.
    if _git(folder, "ls-files", "--error-unmatch", "--", name) is None:
        return None
    described = ("describe", "--always", "--abbrev=40", "--exclude=*", "--dirty")
    return _git(folder, *described) or _git(folder, "rev-parse", "HEAD")


def _git(folder: Path, *words: str) -> str | None:
    program = shutil.which("git")
    if program is None or not folder.is_dir():
        return None
    command = [program, "--no-optional-locks", "-C", str(folder), *words]
    try:
        found = subprocess.run(  # noqa: S603 - no part of it is somebody else's
            command, capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        # No checkout, or one that does not answer: then it is not known.
        return None
    return found.stdout.strip()[:_LONGEST]


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # A container runs under numbers that have no name.
        return str(os.getuid())


def _own_version() -> str:
    return _installed("statemigrate") or "unknown"


def _spark_version() -> str | None:
    found = getattr(sys.modules.get("pyspark"), "__version__", None)
    # What needs no Spark does not load it either.
    return _installed("pyspark") if found is None else str(found)


def _installed(package: str) -> str | None:
    # It reads an e-mail's headers, by a package that takes a while to load.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


Verb = Literal[
    "start",
    "retire",
    "found",
    "backfill",
    "adopt",
    "undo adopt",
    "relocate",
    "rewrite",
    "seed",
    "fork",
]
"""What was done. ``start`` is a deployment's first start, ``found`` what the log did not know.

A release takes an event of a verb that it does not have for damage. So these are all there are in
format 1; further facts are in the details of one of them: `STEP`.
"""
Change = Literal["first", "upgrade", "downgrade", "other", "none"]
"""What became of the revision that is written; "other" where the way between two is not known."""
FORMAT = 1
STEP = "step"
"""The detail that says which part of its verb an event was, as ``planned`` of a backfill."""
STORES = "stores"
"""The detail of a start that says that it names `ALL` of its stores."""
ALL = "all"
OPERATOR = "operator"
"""The detail that says which operator on pages an event is of, where that has a name."""
_STORE = {
    "store": str,
    "change": OneOf(get_args(Change)),
    "before": Maybe(str),
    "revision": str,
    "families": [str],
}
_SHAPE = {
    "format": range(FORMAT, FORMAT + 1),
    "time": str,
    "verb": OneOf(get_args(Verb)),
    "batch": VERSION,
    "stores": [_STORE],
    "code": Maybe(str),
    "by": str,
    "statemigrate": str,
    "spark": Maybe(str),
    "details": Table(str),
}


@dataclass(frozen=True)
class StoreChange:
    """A store after an event: the ``revision`` that is written, and all its live families.

    ``before`` is the revision that was written until then, None for the first that is known.
    """

    store: str
    change: Change
    before: str | None
    revision: str
    families: tuple[str, ...]


@dataclass(frozen=True)
class Event:
    """One event of the log.

    ``batch`` is the first batch of what was started, or the one whose state a command was about.
    ``time`` is in ISO 8601, UTC. ``details`` are the verb's own.
    """

    time: str
    verb: Verb
    batch: int
    stores: tuple[StoreChange, ...]
    stamp: Stamp
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def names_all_stores(self) -> bool:
        """Whether a start names what is new and what is not, so that others are no part of it."""
        return self.details.get(STORES) == ALL

    @property
    def operator(self) -> str:
        """The name of the operator on pages that it is of; empty for any other, and for all."""
        return self.details.get(OPERATOR, "")

    @classmethod
    def now(
        cls,
        verb: Verb,
        batch: int,
        stores: tuple[StoreChange, ...],
        stamp: Stamp,
        details: Mapping[str, str] | None = None,
    ) -> Event:
        """An event of this moment."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        return cls(time, verb, batch, stores, stamp, dict(details or {}))

    def to_json(self) -> dict[str, Any]:
        """The document that is kept."""
        return {
            "format": FORMAT,
            "time": self.time,
            "verb": self.verb,
            "batch": self.batch,
            "stores": [{**asdict(each), "families": list(each.families)} for each in self.stores],
            **asdict(self.stamp),
            "details": dict(self.details),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Event:
        """Read what `to_json` gave. Raises ValueError for anything else."""
        _refuse_newer(document.get("format"))
        check_shape(document, _SHAPE)
        if datetime.fromisoformat(document["time"]).tzinfo is None:
            raise ValueError(f"{document['time']} is a time without a zone")
        stores = tuple(
            StoreChange(
                each["store"],
                each["change"],
                each["before"],
                each["revision"],
                tuple(each["families"]),
            )
            for each in document["stores"]
        )
        stamp = Stamp(*(document[part] for part in ("code", "by", "statemigrate", "spark")))
        return cls(
            document["time"],
            document["verb"],
            document["batch"],
            stores,
            stamp,
            dict(document["details"]),
        )


def _refuse_newer(found: Any) -> None:
    if type(found) is int and found > FORMAT:
        raise ValueError(
            f"format {found}, which a newer release of statemigrate wrote; this one reads up to "
            f"{FORMAT}"
        )
