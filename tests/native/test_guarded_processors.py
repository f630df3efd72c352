"""Guarded starts of a processor: plain, with a backfill's source, and on pages."""

import pytest
from pyspark.sql import functions
from tally import AMOUNTS, CENTS, FAMILIES, AmountsTally, CentsTally, batch

from statemigrate import guarded, migrated, paged, stateful, with_backfill
from statemigrate.errors import StartupError

pytestmark = pytest.mark.spark


def run(pipeline, result):
    writer = result.writeStream.outputMode("update").foreachBatch(pipeline.sink)
    query = guarded(writer.option("checkpointLocation", str(pipeline.checkpoint))).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def declared(pipeline, stream, folder):
    return stateful(
        stream,
        by=pipeline.by,
        processor=AmountsTally(),
        output=pipeline.output,
        checkpoint=pipeline.checkpoint,
        migrations=folder,
    )


@pytest.mark.long
def test_room_for_a_backfill_is_no_change_of_meaning_and_another_key_is(pipeline, scripts):
    folder = scripts.write()
    pipeline.feed(batch("one", range(3)))
    run(pipeline, pipeline.result(CentsTally()))
    run(pipeline, pipeline.result(CentsTally()))
    pipeline.feed(batch("two", range(2)))
    run(pipeline, declared(pipeline, pipeline.stream(), folder))
    run(pipeline, declared(pipeline, pipeline.stream(), folder))
    assert {FAMILIES[CENTS], FAMILIES[AMOUNTS]} <= {*pipeline.all_state()}
    shouted = pipeline.stream().withColumn("key", functions.upper("key"))
    with pytest.raises(StartupError) as caught:
        run(pipeline, declared(pipeline, shouted, folder))
    assert [each["rule"] for each in caught.value.data["changes"]] == ["key"]
    some = pipeline.stream().where("key <> 'k9'")
    with pytest.raises(StartupError) as caught:
        run(pipeline, declared(pipeline, some, folder))
    assert [each["rule"] for each in caught.value.data["changes"]] == ["filter"]


@pytest.mark.long
def test_pages_start_again_and_another_filter_is_noticed(pipeline, scripts):
    folder = scripts.write()

    def result(stream):
        processor = migrated(AmountsTally(), migrations=folder)
        given = {"by": pipeline.by, "output": pipeline.output, "pages": 2}
        return paged(stream, processor=processor, checkpoint=pipeline.checkpoint, **given)

    pipeline.feed(batch("one", range(3)))
    run(pipeline, result(pipeline.stream()))
    run(pipeline, result(pipeline.stream()))
    with pytest.raises(StartupError) as caught:
        run(pipeline, result(pipeline.stream().where("key <> 'k9'")))
    assert {each["rule"] for each in caught.value.data["changes"]} == {"filter"}


@pytest.mark.long(weight=1 / 3)
def test_a_guard_finds_the_filter_before_a_migrated_operator_without_a_backfill(pipeline, scripts):
    folder = scripts.write()

    def result(stream):
        place = {"migrations": folder, "checkpoint": pipeline.checkpoint}
        return pipeline.result(migrated(AmountsTally(), **place), stream)

    pipeline.feed(batch("one", range(3)))
    run(pipeline, result(pipeline.stream()))
    run(pipeline, result(pipeline.stream()))
    with pytest.raises(StartupError) as caught:
        run(pipeline, result(pipeline.stream().where("key <> 'k9'")))
    assert [each["rule"] for each in caught.value.data["changes"]] == ["filter"]


@pytest.mark.long
def test_a_watermark_after_a_backfills_source_hides_no_other_filter(pipeline, scripts):
    folder = scripts.write()

    def result(stream):
        timed = stream.withColumn("at", functions.timestamp_seconds(functions.col("cents")))
        opened = with_backfill(timed, pipeline.by, checkpoint=pipeline.checkpoint)
        watched = opened.withWatermark("at", "1 hour")
        place = {"migrations": folder, "checkpoint": pipeline.checkpoint}
        return pipeline.result(migrated(AmountsTally(), **place), watched)

    def start(stream, mode="update"):
        writer = result(stream).writeStream.outputMode(mode).foreachBatch(pipeline.sink)
        query = writer.option("checkpointLocation", str(pipeline.checkpoint)).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    pipeline.feed(batch("one", range(3)))
    start(pipeline.stream())
    pipeline.feed(batch("two", range(2)))
    start(pipeline.stream(), mode="Update")
    families = pipeline.all_state()
    with pytest.raises(StartupError) as caught:
        start(pipeline.stream().where("key <> 'k9'"))
    assert [each["rule"] for each in caught.value.data["changes"]] == ["filter"]
    assert pipeline.all_state() == families
