"""The progress of a batch is read from the text that Spark writes of it."""

import json
import math

from statemigrate.native.backfill_listener import progress_of

ID, RUN = "0b1d4a4e-61f5-4d7f-9f0e-1d4bb3a1a001", "0b1d4a4e-61f5-4d7f-9f0e-1d4bb3a1a002"


def progress(*sources):
    return progress_of(
        json.dumps(
            {
                "id": ID,
                "runId": RUN,
                "name": None,
                "timestamp": "2026-11-29T12:00:00.000Z",
                "batchId": 7,
                "batchDuration": 12,
                "numInputRows": 3,
                "durationMs": {"addBatch": 9, "triggerExecution": 12},
                "stateOperators": [],
                "sources": [
                    {"description": "files", "numInputRows": 3, **each} for each in sources
                ],
                "sink": {"description": "sink", "numOutputRows": -1},
            }
        )
    )


def test_offsets_are_the_texts_that_a_source_wrote():
    topic = {"orders": {"0": 9223372036854775807, "1": 0}}
    (source,) = progress(
        {"startOffset": None, "endOffset": topic, "latestOffset": "of its own"}
    ).sources
    assert source.startOffset == "null"
    assert json.loads(source.endOffset) == topic
    assert source.latestOffset == "of its own"


def test_a_number_and_a_list_are_offsets_too():
    (source,) = progress({"startOffset": 4, "endOffset": [1, "a"], "latestOffset": 6.5}).sources
    assert (source.startOffset, source.endOffset, source.latestOffset) == ("4", '[1, "a"]', "6.5")


def test_a_rate_that_spark_leaves_out_is_not_a_number():
    offsets = {"startOffset": 1, "endOffset": 1, "latestOffset": 1}
    first, second = progress(offsets, {**offsets, "inputRowsPerSecond": 2.5}).sources
    assert math.isnan(first.inputRowsPerSecond)
    assert math.isnan(first.processedRowsPerSecond)
    assert second.inputRowsPerSecond == 2.5


def test_a_batch_has_what_spark_wrote_of_it():
    found = progress()
    assert (str(found.id), str(found.runId), found.batchId) == (ID, RUN, 7)
    assert (found.name, found.timestamp) == (None, "2026-11-29T12:00:00.000Z")
    assert found.durationMs == {"addBatch": 9, "triggerExecution": 12}
    assert found.eventTime == {}
    assert found.numInputRows == 3
