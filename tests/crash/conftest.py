"""Prepared processes, each with a hash seed of its own, and a place for short-lived files."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.crash.library import compiler
from support.crash.nursery import Nursery
from support.histories.bucket import OLD, STORES, Place
from support.histories.model import Model
from support.histories.scenes import changes, first_values
from support.object_store import ObjectStore, Request

LIVES = [
    "support.histories.lives",
    "support.crash.adopting",
    "support.crash.forking",
    "support.crash.publishing",
]


@pytest.fixture(scope="session")
def nurseries() -> Iterator[list[Nursery]]:
    if compiler() is None:
        pytest.fail("no C compiler; next: sh scripts/ensure-compiler.sh", pytrace=False)
    # Spark's workers have the seed 0; a set's order is another one with each of the three.
    made = [Nursery(seed, LIVES) for seed in (0, 3, 5)]
    yield made
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def places() -> Iterator[Path]:
    """A directory in memory, where there is such a place: syncing a disk takes its time."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
    directory = Path(tempfile.mkdtemp(prefix="statemigrate-crash-", dir=memory))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def staged(places: Path) -> Place:
    """One batch of the old code is committed; three of the new one are to come."""
    place = Place(places / "bucket", ObjectStore(), Model())
    place.feed(first_values(STORES))
    place.run(OLD)
    place.compare(OLD)
    place.feed(changes(STORES), changes(STORES), changes(STORES))
    return place


@pytest.fixture(scope="module")
def requests(staged: Place, places: Path) -> list[Request]:
    """The requests of a life without trouble."""
    place = staged.copied(places / "counted")
    before = place.requests_from_here()
    place.run()
    place.compare()
    return place.store.requests[before:]
