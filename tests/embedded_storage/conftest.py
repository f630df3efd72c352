"""A partition's place on disk."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from statemigrate.embedded.partition import PartitionPaths


@pytest.fixture
def place(tmp_path: Path) -> PartitionPaths:
    return PartitionPaths(0, tmp_path / "durable", tmp_path / "working")


@pytest.fixture(params=["America/New_York", "Australia/Lord_Howe", "UTC"])
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    """A local time zone: clocks that change by an hour, by half an hour, and not at all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.fixture
def berlin() -> Iterator[None]:
    """A local time zone with summer time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    assert os.environ.get("TZ") != "Europe/Berlin"
    time.tzset()
