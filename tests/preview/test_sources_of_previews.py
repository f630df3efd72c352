"""The sources that a preview reads again: any that a function opens, and one in several places."""

import shutil

import previewed_code as code
import pytest
from previewed_query import Query, fields, named

from statemigrate import NewCode, preview
from statemigrate.errors import StatemigrateError

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def run(stream, checkpoint):
    writer = stream.writeStream.format("noop").outputMode("update")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(180)


def previewed(spark, checkpoint, old, new, opener, batches=3):
    return preview(
        checkpoint,
        target=NewCode(named(new), mode="update", old_code=named(old)),
        sources={"events": named(opener)},
        batches=batches,
        migrations=None,
        spark=spark,
    )


@pytest.fixture
def csv(spark, tmp_path, monkeypatch):
    """The checkpoint of a query over CSV files with a header."""
    place = tmp_path / "landing"
    place.mkdir()
    monkeypatch.setattr(code, "CSV", str(place))
    for number in range(4):
        rows = [f"k{each % 5},{each % 9}" for each in range(20 * (number + 1))]
        (place / f"{number}.csv").write_text("\n".join(["k,v", *rows]))
        run(code.pairs(code.open_csv(spark)), tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def test_csv_files_are_read_with_the_options_of_the_query(spark, csv):
    assert previewed(spark, csv, code.pairs, code.pairs, code.open_csv).unexpected == ()
    wrong = previewed(spark, csv, code.pairs, code.pairs_doubled, code.open_csv)
    assert fields(wrong) == {("aggregation-0", "sum"), ("output", "total")}
    assert wrong.noise == ()


def test_a_file_whose_name_tells_no_format_is_refused_before_anything_runs(spark, csv):
    with pytest.raises(StatemigrateError) as raised:
        preview(csv, target=NewCode("no_such_module:never"), migrations=None, spark=spark)
    assert raised.value.code == "SM-CODE-003"
    with pytest.raises(StatemigrateError) as raised:
        preview(csv, target=NewCode(named(code.pairs)), migrations=None, spark=spark)
    assert raised.value.code == "SM-PREVIEW-006"


def test_what_a_source_no_longer_has_says_from_which_batch_on_it_has(spark, csv, tmp_path):
    (tmp_path / "landing" / "1.csv").unlink()
    with pytest.raises(StatemigrateError) as raised:
        previewed(spark, csv, code.pairs, code.pairs, code.open_csv)
    assert raised.value.code in ("SM-PREVIEW-005", "SM-PREVIEW-017")
    later = raised.value.data["batch"]
    newest = max(int(each.name) for each in (csv / "commits").glob("[0-9]*"))
    found = previewed(spark, csv, code.pairs, code.pairs, code.open_csv, newest - later + 1)
    assert found.batches[0].batch == later
    assert found.unexpected == ()


def test_a_generated_source_is_read_again_by_its_offsets(spark, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    for _ in range(4):
        writer = code.ticks(code.open_ticks(spark)).writeStream.format("noop").outputMode("update")
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(once=True).start()
        assert query.awaitTermination(180)
    found = previewed(spark, checkpoint, code.ticks, code.ticks, code.open_ticks, 2)
    assert (found.noise, found.unexpected) == ((), ())
    wrong = previewed(spark, checkpoint, code.ticks, code.ticks_off_by_one, code.open_ticks, 2)
    assert ("aggregation-0", "sum") in fields(wrong)
    with pytest.raises(StatemigrateError) as raised:
        previewed(spark, checkpoint, code.ticks, code.ticks, code.open_two, 2)
    assert raised.value.code == "SM-PREVIEW-015"
    with pytest.raises(StatemigrateError) as raised:
        preview(checkpoint, target=NewCode(named(code.ticks)), migrations=None, spark=spark)
    assert raised.value.code == "SM-PREVIEW-004"


def test_a_stream_that_is_joined_with_itself_is_previewed(spark, tmp_path):
    query = Query(spark, tmp_path, code.with_itself, "append", batches=4)
    assert query.preview(code.with_itself, batches=2).unexpected == ()
    wrong = fields(query.preview(code.with_itself_wrongly, batches=2))
    assert {("output", "_rows"), ("output", "v")} & wrong


def test_a_union_of_two_sources_is_previewed_from_a_bundle_too(spark, tmp_path):
    query = Query(spark, tmp_path / "query", code.both, "update", count=2, batches=4)
    query.save(tmp_path / "saved", batches=2)
    shutil.rmtree(query.inputs[0])
    assert query.preview(code.both, place=tmp_path / "saved").unexpected == ()
    wrong = query.preview(code.both_but_some, place=tmp_path / "saved")
    assert fields(wrong) == {("aggregation-0", "sum"), ("output", "total")}


def test_a_continuous_trigger_is_refused_by_name(spark, tmp_path):
    query = Query(spark, tmp_path, code.sums, "update", batches=2)
    for each in (query.checkpoint / "offsets").glob("[0-9]*"):
        lines = each.read_text().split("\n")
        each.write_text("\n".join([lines[0], "", *lines[2:]]))
        (each.parent / f".{each.name}.crc").unlink(missing_ok=True)
    with pytest.raises(StatemigrateError) as raised:
        query.preview(code.sums)
    assert raised.value.code == "SM-PREVIEW-014"
