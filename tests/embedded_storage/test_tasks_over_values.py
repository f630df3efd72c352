"""Tasks that are run over values in the very partitions that hold them; no Spark is needed."""

import pytest
from support import checkpoints

from statemigrate.scripts import ScriptFolder
from statemigrate.state.embedded import EmbeddedState
from statemigrate.state.project import Project
from statemigrate.state.protocol import Share, Ticks, planned

COUNT = 700


@pytest.fixture
def partitions(tmp_path):
    folder = checkpoints.scripts(tmp_path)
    state = EmbeddedState(str(checkpoints.items(tmp_path, COUNT)))
    plan = planned(state, "items", ScriptFolder(folder).lineages(), Project())
    yield state.partitions(plan, plan.sources)
    state.close()


def numbers(part):
    """The keys that a user knows, and whether what was read is what was written."""
    found = [
        (part.shown(key), data, checkpoints.OLD.encode(value)) for key, data, value in part.values
    ]
    return {
        "keys": [key for key, _, _ in found],
        "same": all(data == written for _, data, written in found),
        "seen": part.seen,
    }


def work(partitions, tmp_path, shares):
    number = len(partitions.committed.manifest.partitions)
    done = [partitions.work(each, numbers, shares, Ticks(tmp_path)) for each in range(number)]
    return [each["items"] for each in done]


def test_a_task_sees_every_value_of_every_partition_once(partitions, tmp_path):
    found = work(partitions, tmp_path, {})
    keys = [key for each in found for key in each["keys"]]
    assert len(keys) == len(set(keys)) == COUNT
    assert [each["seen"] for each in found] == [len(each["keys"]) for each in found]
    assert all(each["same"] for each in found)


def test_a_task_sees_its_share_of_each_partition_and_all_are_counted(partitions, tmp_path):
    everything = work(partitions, tmp_path, {})
    sizes = [each["seen"] for each in everything]
    shares = {"items": {number: Share(10, size) for number, size in enumerate(sizes)}}
    found = work(partitions, tmp_path, shares)
    assert [len(each["keys"]) for each in found] == [10] * len(sizes)
    assert [each["seen"] for each in found] == sizes
    assert all(
        set(some["keys"]) < set(whole["keys"])
        for some, whole in zip(found, everything, strict=True)
    )


def test_what_a_task_raises_is_raised(partitions, tmp_path):
    with pytest.raises(ZeroDivisionError):
        partitions.work(0, lambda _: 1 / 0, {}, Ticks(tmp_path))
