"""What Java throws, as errors that say what to do."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from py4j.protocol import (  # type: ignore[import-untyped]
    Py4JJavaError,
    Py4JNetworkError,
)
from pyspark.errors import PySparkException

from statemigrate.errors import StorageError
from statemigrate.files.conditional import ConflictError
from statemigrate.files.hadoop.connectors import (
    Names,
    connector_of,
    has_any,
    lacks_credentials,
)

_MISSING = {"java.io.FileNotFoundException", "java.nio.file.NoSuchFileException"}
_THERE = {
    "org.apache.hadoop.fs.FileAlreadyExistsException",
    "java.nio.file.FileAlreadyExistsException",
}
_REFUSED = "org.apache.hadoop.security.AccessControlException"
_CONDITION_FAILED = "org.apache.hadoop.fs.s3a.RemoteFileChangedException"
_CONFLICT = re.compile(r"Status Code: 409|status code: 409")
_CUT_OFF = (
    "ConnectionClosedException",
    "EOFException",
    "SocketException",
    "SocketTimeoutException",
    "SSLException",
    "TruncatedChunkException",
)
_PREFETCH_LOST = "should have been available"
"""What the default S3A stream of Hadoop 3.5 says once a part that it reads ahead was cut off."""
# What connectors throw, where it is not of a class of Java's own.
_STORES = (
    "org.apache.hadoop.fs.s3a.",
    "org.apache.hadoop.fs.azurebfs.",
    "com.google.cloud.hadoop.",
    "org.apache.hadoop.ipc.",
    "org.apache.http.",
    "software.amazon.awssdk.",
)
_NOBODY_THERE = ("ConnectException", "NoRouteToHostException", "UnknownHostException")
_ATTEMPTS = 4
_LONGEST = 30.0  # seconds

Answer = TypeVar("Answer")


JAVA_ERRORS = (Py4JJavaError, PySparkException)
"""What stands for a Java exception: PySpark has its own for some."""


class CutOffError(StorageError):
    """What was read came to an end before it was there."""


def whole(
    read: Callable[[], Answer],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """What ``read`` gives, which is called again where it was cut off.

    A connector makes a request again that got no answer, but not each one does so where an answer
    breaks off (of S3A's streams the one that Hadoop 3.5 takes by default does not). Nothing is read
    again half a minute after the first attempt. Raises `CutOffError` then.
    """
    deadline = clock() + _LONGEST
    for number in range(_ATTEMPTS):
        try:
            return read()
        except CutOffError:
            if number == _ATTEMPTS - 1 or clock() > deadline:
                raise
            sleep(0.1 * 2**number)
    raise AssertionError("unreachable")


@contextmanager
def translated(doing: str, path: str) -> Iterator[None]:
    """Raise what `Files` says for what Java throws in the block, which is ``doing`` something.

    Raises `FileNotFoundError`, `FileExistsError`, `ConflictError`, `CutOffError` for what is read,
    or else `StorageError`.
    """
    try:
        yield
    except JAVA_ERRORS as error:
        raise translation(doing, path, thrown_by(error)) from error
    except (Py4JNetworkError, ConnectionError, EOFError) as error:
        raise _failed("SM-STORAGE-007", doing, path, f"the JVM does not answer: {error}") from error


def translation(doing: str, path: str, thrown: Any) -> Exception:
    """The error for what Java has thrown."""
    names = chain(thrown)
    name, message = names[0]
    # So HDFS says of a name below a file.
    if name in _MISSING or (name == _REFUSED and "(is not a directory)" in message):
        return FileNotFoundError(errno.ENOENT, "No such file", path)
    if name in _THERE or (name == _CONDITION_FAILED and "412" in message):
        return FileExistsError(errno.EEXIST, "File exists", path)
    text = described(names)
    if name.startswith("org.apache.hadoop.fs.s3a.") and _CONFLICT.search(text):
        return ConflictError(
            "SM-STORAGE-005", f"{doing} {path} met another writer", found=text, path=path
        )
    if lacks_credentials(names):
        return _refused(doing, path, text)
    if doing == "reading" and _is_cut_off(names):
        return _failed("SM-STORAGE-008", doing, path, text, CutOffError)
    return _failed("SM-STORAGE-007", doing, path, text)


def failure_of_store(doing: str, path: str, error: Exception) -> StorageError | None:
    """The error for what a store did while Spark was ``doing`` something; None for all else."""
    names = chain(thrown_by(error))
    text = described(names) if names else ""
    if lacks_credentials(names):
        return _refused(doing, path, text)
    if _is_cut_off(names):
        return _failed("SM-STORAGE-008", doing, path, text, CutOffError)
    if has_any(names, _NOBODY_THERE) or any(name.startswith(_STORES) for name, _ in names):
        return _failed("SM-STORAGE-007", doing, path, text)
    return None


def _is_cut_off(names: Names) -> bool:
    return has_any(names, _CUT_OFF) or any(_PREFETCH_LOST in message for _, message in names)


def thrown_by(error: Exception) -> Any:
    """The Java exception that one of `JAVA_ERRORS` stands for."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def chain(thrown: Any) -> list[tuple[str, str]]:
    """Class and message of what was thrown, of its cause, and so on."""
    found: list[tuple[str, str]] = []
    while thrown is not None and len(found) < 10:
        # HDFS has the server's stack in its messages.
        message = str(thrown.getMessage() or "").partition("\n\tat ")[0]
        found.append((thrown.getClass().getName(), message))
        thrown = thrown.getCause()
    return found


def described(names: list[tuple[str, str]]) -> str:
    """One line: the first message, and the last where it says something else."""
    first, last = ": ".join(names[0]), ": ".join(names[-1])
    text = first if last in first or names[-1][1] in first else f"{first}; {last}"
    return " ".join(text.split())[:600]


def _refused(doing: str, path: str, found: str) -> StorageError:
    connector, _ = connector_of(path)
    return StorageError(
        "SM-STORAGE-006",
        f"{doing} {path} was refused",
        expected=f"credentials that may do it, and have not expired: {connector.credentials}",
        found=found,
        next_action="renew the credentials, or have the rights given; then run the same again: it "
        "goes on from what is committed",
        path=path,
    )


def _failed(
    code: str, doing: str, path: str, found: str, kind: type[StorageError] = StorageError
) -> StorageError:
    return kind(
        code,
        f"{doing} {path} failed",
        expected="a file system that answers, and that this user may use",
        found=found,
        next_action="look at what was found; when that is mended, run the same again: it goes on "
        "from what is committed",
        path=path,
    )
