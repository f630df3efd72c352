"""Why a file system cannot be reached: the connector, the address or the credentials."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from statemigrate.errors import StorageError
from statemigrate.files.hadoop.failures import described
from statemigrate.files.hadoop.jvm import Java

Names = list[tuple[str, str]]


@dataclass(frozen=True)
class _Connector:
    """The ``package`` that has it, the settings of its ``credentials`` and ``address``.

    ``note`` is what else has to be known to add it.
    """

    package: str | None
    credentials: str
    address: str = "the name of the host"
    note: str = "in the version of Hadoop that Spark has"


_S3A = _Connector(
    "org.apache.hadoop:hadoop-aws:{hadoop}",
    "fs.s3a.access.key and fs.s3a.secret.key, or what fs.s3a.aws.credentials.provider names "
    "(by default also AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the machine's role)",
    "the bucket, fs.s3a.endpoint and fs.s3a.endpoint.region",
)
_AZURE = _Connector(
    "org.apache.hadoop:hadoop-azure:{hadoop}",
    "fs.azure.account.key.<account>.dfs.core.windows.net, or fs.azure.account.auth.type and the "
    "fs.azure.account.oauth2 settings",
    "the container and the account",
)
_GOOGLE = _Connector(
    "com.google.cloud.bigdataoss:gcs-connector",
    "fs.gs.auth.type and fs.gs.auth.service.account.json.keyfile, or the machine's own account",
    "the bucket",
    "its shaded jar, and set fs.gs.impl to com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
)
_HDFS = _Connector(
    None,
    "a Kerberos ticket (kinit), or HADOOP_USER_NAME where there is no Kerberos",
    "host and port of the namenode, or for a name service HADOOP_CONF_DIR with hdfs-site.xml",
)
_CONNECTORS = {
    "s3a": _S3A,
    **dict.fromkeys(("s3", "s3n"), replace(_S3A, note="and write s3a:// in place of s3://")),
    **dict.fromkeys(("abfs", "abfss"), _AZURE),
    "gs": _GOOGLE,
    **dict.fromkeys(("hdfs", "webhdfs", "swebhdfs", "viewfs"), _HDFS),
    "dbfs": _Connector(None, "the workspace's own", note="only Databricks' runtime has it"),
}
_OTHER = _Connector(None, "its connector's settings", note="look for it with who runs the store")
_NO_CLASS = ("ClassNotFoundException", "NoClassDefFoundError", "UnsupportedFileSystemException")
_NO_CREDENTIALS = (
    "NoAuthWithAWSException",
    "NoAwsCredentialsException",
    "AccessDeniedException",
    "AccessControlException",
    "AbfsRestOperationException",
    "InvalidConfigurationValueException",
    "KeyProviderException",
    "TokenAccessProviderException",
    "SaslException",
    "CredentialInitializationException",
)
_NO_BUCKET = "UnknownStoreException"


def unreachable(java: Java, location: str, names: Names) -> StorageError:
    """The error for what Java has thrown, its class and message, cause after cause."""
    connector, scheme = _connector(location)
    text = described(names)
    if _has(names, _NO_CLASS) or "No FileSystem for scheme" in text:
        return _no_connector(java, location, scheme, connector, text)
    if _has(names, _NO_CREDENTIALS):
        return _error(
            location,
            f"credentials that may use it: {connector.credentials}",
            text,
            "give the session these settings, each with spark.hadoop. before it, or renew what "
            "has expired",
        )
    expected = "a bucket that exists" if _has(names, (_NO_BUCKET,)) else "an answer"
    return _error(location, expected, text, _next_action(connector))


def _no_connector(
    java: Java, location: str, scheme: str, connector: _Connector, found: str
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
    connector, scheme = _connector(location)
    endpoint = java.configuration.get("fs.s3a.endpoint") if connector is _S3A else None
    asked = f" (fs.s3a.endpoint = {endpoint})" if endpoint else ""
    return _error(
        location,
        f"an answer within {patience:g} seconds",
        f"none{asked}; the connector for {scheme}: still tries",
        f"{_next_action(connector)}. Credentials that are looked for on the network take as long: "
        f"{connector.credentials}",
    )


def _connector(location: str) -> tuple[_Connector, str]:
    scheme = urlsplit(location).scheme.lower()
    return _CONNECTORS.get(scheme, _OTHER), scheme


def _has(names: Names, kinds: tuple[str, ...]) -> bool:
    simple = {name.rpartition(".")[2].rpartition("$")[2] for name, _ in names}
    return any(kind in simple for kind in kinds) or any(
        f"{kind}:" in message for _, message in names for kind in kinds
    )


def _next_action(connector: _Connector) -> str:
    return f"check {connector.address}, and that it can be reached from this machine"


def _error(location: str, expected: str, found: str, next_action: str) -> StorageError:
    return StorageError(
        f"{location} cannot be reached",
        expected=expected,
        found=found,
        next_action=next_action,
        path=location,
    )
