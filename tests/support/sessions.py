"""What every folder with real Spark has: a session, and workers that find the tests' processors."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent.parent


def use_folders(*names: str) -> None:
    """Let tests, and the workers of their Spark session, import modules of these folders."""
    # A worker imports the module of a processor, and so whatever of the tests that imports.
    folders = [*(str(TESTS / name) for name in names), str(TESTS)]
    sys.path[:0] = [each for each in folders if each not in sys.path]
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [*folders, *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    os.environ["PYSPARK_PYTHON"] = sys.executable


def spark_version() -> tuple[int, int]:
    """The release line of PySpark, as in (4, 3)."""
    import pyspark

    from statemigrate.native.versions import release_line

    return release_line(pyspark.__version__)


@contextmanager
def temporary_settings(session: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Some settings of a session for a while; those that it had before come back."""
    before = {name: session.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """One session for the folder."""
    from pipelines import local_session

    session = local_session(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()


@pytest.fixture
def scripts(tmp_path: Path) -> object:
    """A folder of migration scripts for the store ``tally``."""
    from tally import Scripts

    return Scripts(tmp_path / "migrations")
