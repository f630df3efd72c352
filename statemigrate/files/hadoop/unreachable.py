"""Why a file system cannot be reached: the connector, the address or the credentials."""

from __future__ import annotations

from statemigrate.errors import StorageError
from statemigrate.files.hadoop.connectors import (
    S3A,
    Connector,
    Names,
    connector_of,
    has_any,
    lacks_credentials,
)
from statemigrate.files.hadoop.failures import described
from statemigrate.files.hadoop.jvm import Java

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


def no_answer(java: Java, location: str, patience: float) -> StorageError:
    """The error for one that did not answer in so many seconds."""
    connector, scheme = connector_of(location)
    endpoint = java.configuration.get("fs.s3a.endpoint") if connector is S3A else None
    asked = f" (fs.s3a.endpoint = {endpoint})" if endpoint else ""
    return _error(
        location,
        f"an answer within {patience:g} seconds",
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
