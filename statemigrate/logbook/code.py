"""By what and by whom something is done: versions of the code, of Spark and of this, and a user."""

from __future__ import annotations

import inspect
import os
import pwd
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

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
    said = os.environ.get(CODE_VERSION, "").strip()
    if said:
        return said[:_LONGEST]
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
