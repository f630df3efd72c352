"""Hadoop's connectors: what each needs to be used, and what it throws who may not."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

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
