"""What Hadoop's file systems throw, as errors of this package, and whether one can be reached.

Whether a file system can be reached, known within ten seconds.

Connectors try again for minutes. A connector of its own is made here for a first question, set to
give up soon; and whatever it does, it is waited for no longer. The one that Spark uses is not
touched.
"""

from __future__ import annotations

import errno
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any, TypeVar
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from statemigrate.errors import StorageError, without_credentials
from statemigrate.files.hadoop_jvm import Java
from statemigrate.files.protocol import ConflictError

# Hadoop's connectors: what each needs to be used, and what it throws who may not.


Names = list[tuple[str, str]]
"""Class and message of what was thrown, of its cause, and so on."""


@dataclass(frozen=True)
class Connector:
    """The ``package`` that has it, the settings of its ``credentials`` and ``address``.

    ``note`` is what else has to be known to add it.
    """

    package: str | None
    credentials: str
    address: str = "the name of the host"
    note: str = "in the version of Hadoop that Spark has"


S3A = Connector(
    "org.apache.hadoop:hadoop-aws:{hadoop}",
    "fs.s3a.access.key and fs.s3a.secret.key, or what fs.s3a.aws.credentials.provider names "
    "(by default also AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the machine's role)",
    "the bucket, fs.s3a.endpoint and fs.s3a.endpoint.region",
)
_AZURE = Connector(
    "org.apache.hadoop:hadoop-azure:{hadoop}",
    "fs.azure.account.key.<account>.dfs.core.windows.net, or fs.azure.account.auth.type and the "
    "fs.azure.account.oauth2 settings",
    "the container and the account",
)
_GOOGLE = Connector(
    "com.google.cloud.bigdataoss:gcs-connector",
    "fs.gs.auth.type and fs.gs.auth.service.account.json.keyfile, or the machine's own account",
    "the bucket",
    "its shaded jar, and set fs.gs.impl to com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
)
_HDFS = Connector(
    None,
    "a Kerberos ticket (kinit), or HADOOP_USER_NAME where there is no Kerberos",
    "host and port of the namenode, or for a name service HADOOP_CONF_DIR with hdfs-site.xml",
)
_CONNECTORS = {
    "s3a": S3A,
    **dict.fromkeys(("s3", "s3n"), replace(S3A, note="and write s3a:// in place of s3://")),
    **dict.fromkeys(("abfs", "abfss"), _AZURE),
    "gs": _GOOGLE,
    **dict.fromkeys(("hdfs", "webhdfs", "swebhdfs", "viewfs"), _HDFS),
    "dbfs": Connector(None, "the workspace's own", note="only Databricks' runtime has it"),
}
_OTHER = Connector(None, "its connector's settings", note="look for it with who runs the store")
_NO_CREDENTIALS = (
    "NoAuthWithAWSException",
    "NoAwsCredentialsException",
    "AccessDeniedException",
    "AccessControlException",
    "KeyProviderException",
    "TokenAccessProviderException",
    "SaslException",
    "CredentialInitializationException",
)
# Of a stream that is open S3A gives what its client throws, as it is.
_FORBIDDEN = re.compile(r"Status Code: 40[13]\b")


def connector_of(location: str) -> tuple[Connector, str]:
    """The connector for a place, and the scheme of its URI."""
    scheme = urlsplit(location).scheme.lower()
    return _CONNECTORS.get(scheme, _OTHER), scheme


def lacks_credentials(names: Names) -> bool:
    """Whether what was thrown is about who asks, and not about what is there."""
    return has_any(names, _NO_CREDENTIALS) or any(_FORBIDDEN.search(text) for _, text in names)


def has_any(names: Names, kinds: tuple[str, ...]) -> bool:
    """Whether one of these classes, without their packages, was thrown or is spoken of."""
    simple = {name.rpartition(".")[2].rpartition("$")[2] for name, _ in names}
    return any(kind in simple for kind in kinds) or any(
        f"{kind}:" in message for _, message in names for kind in kinds
    )


# What Java throws, as errors that say what to do.


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


# Why a file system cannot be reached: the connector, the address or the credentials.


_NO_CLASS = ("ClassNotFoundException", "NoClassDefFoundError", "UnsupportedFileSystemException")
_NO_BUCKET = "UnknownStoreException"
# What these throw before their first answer is about the credentials they were given.
_AT_FIRST = ("AbfsRestOperationException", "InvalidConfigurationValueException")


def unreachable(java: Java, location: str, names: Names) -> StorageError:
    """The error for what Java has thrown, its class and message, cause after cause."""
    connector, scheme = connector_of(location)
    text = described(names)
    if has_any(names, _NO_CLASS) or "No FileSystem for scheme" in text:
        return _no_connector(java, location, scheme, connector, text)
    if lacks_credentials(names) or has_any(names, _AT_FIRST):
        return _error(
            location,
            f"credentials that may use it: {connector.credentials}",
            text,
            "give the session these settings, each with spark.hadoop. before it, or renew what "
            "has expired",
        )
    expected = "a bucket that exists" if has_any(names, (_NO_BUCKET,)) else "an answer"
    return _error(location, expected, text, _next_action(connector))


def _no_connector(
    java: Java, location: str, scheme: str, connector: Connector, found: str
) -> StorageError:
    expected = f"a connector for {scheme}: on the class path of Spark"
    if connector.package is None:
        return _error(location, expected, found, f"{connector.note}; or correct the scheme")
    package = connector.package.format(hadoop=java.hadoop.util.VersionInfo.getVersion())
    return _error(
        location,
        f"{expected}: {package}",
        found,
        f"add {package} with spark.jars.packages (or PYSPARK_SUBMIT_ARGS='--packages {package} "
        f"pyspark-shell'), {connector.note}",
    )


def no_answer(java: Java, location: str, retries: float) -> StorageError:
    """The error for one that did not answer in so many seconds."""
    connector, scheme = connector_of(location)
    endpoint = java.configuration.get("fs.s3a.endpoint") if connector is S3A else None
    asked = f" (fs.s3a.endpoint = {endpoint})" if endpoint else ""
    return _error(
        location,
        f"an answer within {retries:g} seconds",
        f"none{asked}; the connector for {scheme}: still tries",
        f"{_next_action(connector)}. Credentials that are looked for on the network take as long: "
        f"{connector.credentials}",
    )


def _next_action(connector: Connector) -> str:
    return f"check {connector.address}, and that it can be reached from this machine"


def _error(location: str, expected: str, found: str, next_action: str) -> StorageError:
    return StorageError(
        "SM-STORAGE-012",
        f"{location} cannot be reached",
        expected=expected,
        found=found,
        next_action=next_action,
        path=location,
    )


ANSWER_TIMEOUT = 9.0
"""Seconds for an answer."""
_SOON = {
    "ipc.client.connect.timeout": "3000",
    "ipc.client.connect.max.retries": "1",
    "ipc.client.connect.retry.interval": "500",
    "ipc.client.connect.max.retries.on.timeouts": "1",
    "dfs.client.retry.max.attempts": "1",
    "dfs.client.failover.max.attempts": "4",
    "dfs.client.failover.sleep.max.millis": "500",
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.retry.interval": "200ms",
    "fs.s3a.retry.throttle.limit": "2",
    "fs.s3a.connection.establish.timeout": "3s",
    "fs.s3a.connection.timeout": "5s",
    "fs.s3a.connection.request.timeout": "5s",
    "fs.azure.io.retry.max.retries": "1",
    "fs.azure.io.retry.max.backoff.interval": "500",
    "fs.azure.oauth.token.fetch.retry.max.retries": "1",
    "fs.gs.http.max.retry": "1",
    "fs.gs.http.connect-timeout": "3000",
    "fs.gs.http.read-timeout": "5000",
}
_reached: set[tuple[str, str]] = set()


def reach(java: Java, location: str) -> None:
    """Raise `StorageError` unless the file system of ``location`` answers, once a process."""
    place = urlsplit(location)
    if (place.scheme, place.netloc) not in _reached:
        _ask(java, location)
        _reached.add((place.scheme, place.netloc))


def _ask(java: Java, location: str) -> None:
    thrown: SimpleQueue[Any] = SimpleQueue()
    work = _question(java, location, thrown.put)
    threading.Thread(target=work, name="statemigrate-reaching", daemon=True).start()
    try:
        found = thrown.get(timeout=ANSWER_TIMEOUT)
    except Empty:
        raise no_answer(java, without_credentials(location), ANSWER_TIMEOUT) from None
    if found is not None:
        raise found


def _question(java: Java, location: str, answer: Callable[[Any], None]) -> Callable[[], None]:
    def ask() -> None:
        try:
            conf = java.hadoop.conf.Configuration(java.configuration)
            for name, value in _SOON.items():
                conf.set(name, value)
            path = java.hadoop.fs.Path(location)
            system = java.hadoop.fs.FileSystem.newInstance(path.toUri(), conf)
            try:
                system.getFileStatus(path)
            finally:
                system.close()
        except JAVA_ERRORS as error:
            names = chain(thrown_by(error))
            is_empty = names[0][0] == "java.io.FileNotFoundException"
            answer(None if is_empty else unreachable(java, location, names))
        except Exception as error:
            answer(
                StorageError(
                    "SM-STORAGE-011", f"asking {location} failed", found=str(error), path=location
                )
            )
        else:
            answer(None)

    return ask
