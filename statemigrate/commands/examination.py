"""What `doctor` finds out about this machine and the workers, with a verdict on each point.

What this machine and the workers have: Python's packages, Java, a temporary directory.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, requires
from typing import TYPE_CHECKING, Any, Literal

from statemigrate.errors import StatemigrateError
from statemigrate.files import find_java, require_java, socket_parent
from statemigrate.processor import (
    EMBEDDED,
    PROCESSORS,
    Workers,
    asked,
    this_python,
    use_this_python,
    what_to_install,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# What an examination says: a verdict on each thing that was looked at, and what to do.


Verdict = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Examined:
    """One check: ``subject`` is its name, ``found`` the result in one line.

    A ``problem`` stops a query or a command. A ``warning`` may stop one, or could not be checked.
    Both say what to do in ``next_action``. ``data`` has the figures, with times in seconds.
    """

    subject: str
    verdict: Verdict
    found: str
    next_action: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def failed(
        cls, subject: str, error: StatemigrateError, *, verdict: Verdict = "problem", **data: Any
    ) -> Examined:
        """The result of a check that raised an error."""
        found = "" if error.found is None else f": {error.found}"
        return cls(
            subject,
            verdict,
            f"{error.headline}{found}",
            error.next_action,
            {"code": error.code, **data},
        )

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "subject": self.subject,
            "verdict": self.verdict,
            "found": self.found,
            "next_action": self.next_action,
            "data": dict(self.data),
        }


@dataclass(frozen=True)
class Diagnosis:
    """All checks, in order; ``checkpoint`` is None if none was named."""

    checkpoint: str | None
    examined: tuple[Examined, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst result."""
        found = {each.verdict for each in self.examined}
        return "problem" if "problem" in found else "warning" if "warning" in found else "ok"

    def of(self, subject: str) -> Examined | None:
        """The result of one check; None if it was not made."""
        return next((each for each in self.examined if each.subject == subject), None)

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "checkpoint": self.checkpoint,
            "verdict": self.verdict,
            "examined": [each.to_json() for each in self.examined],
        }


_PACKAGES = tuple(dict.fromkeys((*PROCESSORS, *EMBEDDED)))
_LEAST_FREE = 1 << 30
"""Bytes in the temporary directory, where working copies of state lie."""


def examined_machine() -> Iterator[Examined]:
    """What is looked at without Spark."""
    spark = _pyspark()
    yield spark
    yield _packages(has_spark=spark.verdict == "ok")
    yield _java(has_spark=spark.verdict == "ok")
    yield _temporary_directory()


def examined_workers(session: SparkSession) -> Examined:
    """What the workers of a session have, each executor's asked by a task of its own."""
    use_this_python(session)
    try:
        found = asked(session, _PACKAGES)
    except StatemigrateError as error:
        data = {"code": error.code, "host": error.data.get("host")}
        return Examined(
            "workers", "problem", f"{error.headline}: {error.found}", what_to_install(), data
        )
    data = {"executors": found.executors, "pythons": [vars(each) for each in found.pythons]}
    lacking = [each for each in found.pythons if each.faults]
    if lacking:
        texts = "; ".join(dict.fromkeys(each.described for each in lacking))
        return Examined("workers", "problem", texts, what_to_install(), data)
    text = "; ".join(dict.fromkeys(each.described for each in found.pythons))
    if not found.is_whole:
        return Examined(
            "workers",
            "warning",
            f"{_answers(found)}: {text}",
            "run it again while the cluster has nothing else to do; a start asks as well",
            data,
        )
    return Examined("workers", "ok", f"{_answers(found)}: {text}", None, data)


def _answers(found: Workers) -> str:
    if found.executors is None:
        return f"{len(found.pythons)} tasks answered, of executors that Spark does not count"
    if found.executors == 1:
        return "1 executor"
    return f"{len(found.pythons)} of {found.executors} executors answered"


def _pyspark() -> Examined:
    try:
        import pyspark

        from statemigrate.native import check_spark_version

        check_spark_version()
    except ImportError:
        return Examined(
            "spark",
            "warning",
            "PySpark is not installed in this Python: scripts can be written and checked, and "
            "nothing else",
            "run this with the Python of your Spark, or pip install 'statemigrate[spark]'",
        )
    except StatemigrateError as error:
        return Examined.failed("spark", error)
    return Examined(
        "spark", "ok", f"PySpark {pyspark.__version__}", None, {"version": pyspark.__version__}
    )


def _packages(*, has_spark: bool) -> Examined:
    here = this_python(_PACKAGES)
    versions = ", ".join(f"{name} {version or '-'}" for name, version in here.packages.items())
    data = {"python": here.python, "executable": here.executable, "packages": dict(here.packages)}
    if here.missing and has_spark:
        return Examined("packages", "problem", here.described, _brought(here.missing), data)
    return Examined("packages", "ok", f"Python {here.python}, {versions}", None, data)


def _brought(missing: Iterable[str]) -> str:
    """How to install what is missing for the PySpark that is there.

    By its own name: the package may have come from a file, and no index need have its extras.
    """
    try:
        required = requires("statemigrate") or []
    except PackageNotFoundError:  # a folder on the path
        required = []
    wanted = [each.partition(";")[0].strip() for each in required]
    found = {name: each for each in wanted for name in missing if _is_of(each, name)}
    return " ".join(["pip install", *(f"'{found.get(name, name)}'" for name in missing)])


def _is_of(requirement: str, package: str) -> bool:
    named = re.match(r"[A-Za-z0-9._-]+", requirement)
    return named is not None and named[0].lower() == package


def _java(*, has_spark: bool) -> Examined:
    try:
        version = require_java()
    except StatemigrateError as error:
        return Examined.failed("java", error, verdict="problem" if has_spark else "warning")
    return Examined("java", "ok", f"Java {version} ({find_java()})", None, {"version": version})


def _temporary_directory() -> Examined:
    try:
        folder = tempfile.gettempdir()
    except OSError as error:
        return Examined(
            "temporary directory", "problem", str(error), "set TMPDIR to one that can be written"
        )
    parent, failures = socket_parent()
    free = shutil.disk_usage(folder).free
    data = {"path": folder, "bytes": len(folder.encode()), "free": free, "sockets_in": parent}
    long = "; ".join(failures)
    if parent is None:
        return Examined(
            "temporary directory",
            "problem",
            f"no socket can be made, which a query on a remote checkpoint needs: {long}",
            "set TMPDIR to a directory of at most 60 bytes that this user may write",
            data,
        )
    if free < _LEAST_FREE:
        return Examined(
            "temporary directory",
            "warning",
            f"{folder} has {free >> 20:,} MiB left; working copies of state lie there",
            "free some of it, or set TMPDIR (or the embedded engine's working_directory) to "
            "another disk",
            data,
        )
    found = f"{folder}, {free >> 30:,} GiB free"
    if failures:
        found += f"; sockets are made in {parent}, since here they cannot be: {long}"
    return Examined("temporary directory", "ok", found, None, data)
