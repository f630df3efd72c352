"""Real systems, started when a test first asks for them, and a Spark session that reaches them."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.sessions import use_folders
from systems.hdfs import Hdfs
from systems.packages import Missing
from systems.s3 import S3
from systems.sessions import session, settings

use_folders("integration", "native", "spark")


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
def spark(s3: S3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The folder's session, with every connector on its class path."""
    told = settings(tmp_path_factory.mktemp("warehouse"), s3.jars, {**s3.conf, **Hdfs.conf})
    made = session(told)
    yield made
    made.stop()


@pytest.fixture(params=["hdfs", "s3"])
def remote(request: pytest.FixtureRequest) -> str:
    """A URI that nothing is under yet, on each file system in turn."""
    return f"{request.getfixturevalue(request.param).uri}/{uuid.uuid4().hex}"


def _running(system: Any, folder: Path) -> Iterator[Any]:
    try:
        started = system(folder)
    except Missing as missing:
        pytest.fail(str(missing), pytrace=False)
    yield started
    started.stop()
