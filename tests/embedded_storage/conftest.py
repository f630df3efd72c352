"""A partition's place on disk."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from statemigrate.embedded.partition import PartitionPlace


@pytest.fixture
def place(tmp_path: Path) -> PartitionPlace:
    return PartitionPlace(0, tmp_path / "durable", tmp_path / "working")


@pytest.fixture
def berlin() -> Iterator[None]:
    """A local time zone with summer time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    assert os.environ.get("TZ") != "Europe/Berlin"
    time.tzset()
