"""The offset and commit logs are read as a whole and written as Spark wrote them."""

import pytest

from statemigrate.checkpoint.logs.entries import parse_commit, parse_entry
from statemigrate.errors import CheckpointError, UnsupportedError

CONF = '{"spark.sql.shuffle.partitions":"5","spark.sql.streaming.multipleWatermarkPolicy":"min"}'
BATCH = '{"batchWatermarkMs":7,"batchTimestampMs":1500000000000'
ENTRIES = [
    f'v1\n{BATCH},"conf":{CONF}}}\n{{"logOffset":3}}\n-',
    f"v1\n{BATCH}}}\n0",
    f'v2\n{BATCH},"conf":{CONF},"sourceMetadataInfo":{{"ä":{{"providerName":"rate"}}}}}}\nä:3',
]
COMMITS = [
    'v1\n{"nextBatchWatermarkMs":0}',
    'v2\n{"nextBatchWatermarkMs":5,"stateUniqueIds":{"0":[["a"],["b"]],"1":[["c","d"],["e","f"]]}}',
    'v2\n{"nextBatchWatermarkMs":5}',
    'v3\n{"nextBatchWatermarkMs":5,"sinkMetadataMap":{"s":{"x":1}}}',
]


@pytest.mark.parametrize("text", ENTRIES)
def test_an_entry_is_written_as_it_was_read(text):
    entry = parse_entry(text.encode(), "offsets/3")
    assert (entry.watermark, entry.timestamp) == (7, 1500000000000)
    assert entry.data == text.encode()


def test_an_entry_has_its_pinned_settings_and_sources():
    entry = parse_entry(ENTRIES[0].encode(), "offsets/3")
    assert entry.conf["spark.sql.shuffle.partitions"] == "5"
    assert entry.offsets.by_source == {"0": '{"logOffset":3}', "1": None}


@pytest.mark.parametrize("text", COMMITS)
def test_a_commit_is_written_as_it_was_read(text):
    assert parse_commit(text.encode(), "commits/3").data == text.encode()


def test_a_commit_has_the_ids_of_all_stores():
    commit = parse_commit(COMMITS[1].encode(), "commits/3")
    assert commit.state_ids == {0: (("a",), ("b",)), 1: (("c", "d"), ("e", "f"))}


def test_an_old_commit_without_a_watermark_has_sparks_own_default():
    assert parse_commit(b"v1\n{}", "commits/0").watermark == 0


def test_a_control_batch_is_refused_by_its_name():
    text = f'v2\n{BATCH},"conf":{{}},"controlBatchInfo":{{"operationType":"REPARTITION"}}}}\na:3'
    with pytest.raises(UnsupportedError, match="control batch") as caught:
        parse_entry(text.encode(), "offsets/3")
    assert "REPARTITION" in caught.value.found


@pytest.mark.parametrize(
    "text",
    [
        f'v1\n{BATCH},"conf":{{}},"more":1}}\n-',
        f'v1\n{BATCH},"conf":{{}},"sourceMetadataInfo":{{}}}}\n-',
        f'v1\n{BATCH},"conf":{{"a":1}}}}\n-',
        'v1\n{"batchTimestampMs":0,"conf":{}}\n-',
        f'v3\n{BATCH},"conf":{{}}}}\n-',
    ],
)
def test_what_an_entry_has_that_is_not_known_is_refused(text):
    with pytest.raises(CheckpointError, match="offsets/3 is not an offset file"):
        parse_entry(text.encode(), "offsets/3")


@pytest.mark.parametrize(
    "text",
    [
        'v4\n{"nextBatchWatermarkMs":0}',
        'v1\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}',
        'v2\n{"nextBatchWatermarkMs":"0"}',
        'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"x":[["a"]]}}',
        'v3\n{"nextBatchWatermarkMs":0}',
        "v1\n[",
        "",
    ],
)
def test_what_a_commit_has_that_is_not_known_is_refused(text):
    with pytest.raises(CheckpointError, match="commits/3 is not a commit file"):
        parse_commit(text.encode(), "commits/3")
