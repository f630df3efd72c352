"""A stopped query's backfill of many chunks: each manifest names a bounded number of changelogs."""

import pytest
from support.histories import lives
from support.histories.bucket import NEW, STORES
from support.object_store import MemoryFiles

from statemigrate.budget import BackfillOptions
from statemigrate.embedded import offline
from statemigrate.embedded.versions import published, read_published


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(offline, "_CHUNK", BackfillOptions(initial_rows=1, maximum_rows=1))
    monkeypatch.setattr(offline, "_LONGEST", 3)


def test_a_manifest_does_not_grow_with_the_chunks_before_it(staged, places, small):
    place = staged.copied(places / "run")
    layout, before = place.layout(), len(published(place.layout()))
    with offline.stopped(layout, working_directory=place.root / "working") as query:
        done = query.backfill(lives._plans(NEW, layout))
    assert sum(done.left.values()) == 0
    manifests = [read_published(layout, each.version, each.epoch) for each in published(layout)]
    chunks = manifests[before:]
    assert len(chunks) > 6
    assert max(len(state.changelogs) for each in chunks for state in each.partitions) <= 4
    place.model.may_migrate(STORES, NEW.revision)
    place.compare()
    place.lose_machine()
    place.run()
    place.compare()
    assert place.version == 3
    assert "commits/3" in MemoryFiles(place.store).content
