"""Real systems, started when a test first asks for them, and a Spark session that reaches them."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.sessions import scripts, use_folders
from systems.gcs import Gcs
from systems.hdfs import Hdfs
from systems.kafka import Kafka
from systems.packages import Missing, jars
from systems.postgres import Postgres
from systems.s3 import S3
from systems.s3_proxy import S3Proxy
from systems.sessions import session, settings

__all__ = ["scripts"]

use_folders("integration", "native", "spark")


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave these modules alone unless they are asked for: they import what the extra brings."""
    wanted = config.option.markexpr
    return None if "integration" in wanted and "not integration" not in wanted else True


@pytest.fixture(scope="session")
def systems_folder() -> Iterator[Path]:
    """A short path: PostgreSQL's socket must fit into a hundred bytes."""
    with tempfile.TemporaryDirectory(prefix="systems-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def hdfs(systems_folder: Path) -> Iterator[Hdfs]:
    """A namenode and a datanode."""
    yield from _running(Hdfs, systems_folder)


@pytest.fixture(scope="session")
def s3(systems_folder: Path) -> Iterator[S3]:
    """A server of buckets."""
    yield from _running(S3, systems_folder)


@pytest.fixture(scope="session")
def gcs(systems_folder: Path) -> Iterator[Gcs]:
    """A server of Google's buckets."""
    yield from _running(Gcs, systems_folder)


@pytest.fixture(scope="session")
def kafka(systems_folder: Path) -> Iterator[Kafka]:
    """A broker."""
    yield from _running(Kafka, systems_folder)


@pytest.fixture(scope="session")
def postgres(systems_folder: Path) -> Iterator[Postgres]:
    """A database server."""
    yield from _running(Postgres, systems_folder)


@contextmanager
def _saying_what_is_missing() -> Iterator[None]:
    try:
        yield
    except Missing as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def spark(s3: S3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The folder's session, with every connector on its class path."""
    with _saying_what_is_missing():
        fetched = [*s3.jars, *jars("connector")]
    told = settings(tmp_path_factory.mktemp("warehouse"), fetched, {**s3.conf, **Hdfs.conf})
    made = session(told)
    yield made
    made.stop()


@pytest.fixture(params=["hdfs", "s3"])
def remote(request: pytest.FixtureRequest) -> str:
    """A URI that nothing is under yet, on each file system in turn."""
    return f"{request.getfixturevalue(request.param).uri}/{uuid.uuid4().hex}"


def _running(system: Any, folder: Path) -> Iterator[Any]:
    with _saying_what_is_missing():
        started = system(folder)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def s3_proxy(s3: S3, spark: Any) -> Iterator[S3Proxy]:
    """A proxy before the server of buckets; the session reaches the bucket ``proxied`` by it."""
    made = S3Proxy(s3.endpoint)
    s3.bucket("proxied")
    conf = spark._jsc.hadoopConfiguration()
    conf.set("fs.s3a.bucket.proxied.endpoint", made.endpoint)
    # The first request loads the connector's classes, for seconds on a busy machine.
    bucket = spark._jvm.org.apache.hadoop.fs.Path("s3a://proxied/")
    assert bucket.getFileSystem(conf).exists(bucket)
    yield made
    made.stop()


@pytest.fixture
def proxied(s3_proxy: S3Proxy) -> Iterator[str]:
    """A URI that nothing is under yet, reached by the proxy, which has no faults then."""
    s3_proxy.switch()
    yield f"s3a://proxied/{uuid.uuid4().hex}"
    s3_proxy.switch()
