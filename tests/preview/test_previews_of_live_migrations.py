"""Code that names its query's checkpoint is previewed on a copy of it, and migrates there."""

import live_code as code
import previewed_code
import previewed_query
import pytest
from previewed_query import Query, events, fields, named, scripts_of, write_means
from support.sessions import spark_version

from statemigrate import backfill, status

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    return scripts_of(code, tmp_path, monkeypatch)


WAYS = {
    "stateful": (code.stateful_totals, code.stateful_wrong_totals, code.stateful_means,
                 code.stateful_wrong_means),
    "with_backfill": (code.backfilled_totals, code.backfilled_wrong_totals, code.backfilled_means,
                      code.backfilled_wrong_means),
    "paged": (code.paged_totals, code.paged_wrong_totals, code.paged_means,
              code.paged_wrong_means),
    "stateful with pages": (code.stateful_pages_totals, code.stateful_pages_wrong_totals,
                            code.stateful_pages_means, code.stateful_pages_wrong_means),
    "function": (code.function_totals, code.function_wrong_totals, code.function_means,
                 code.function_wrong_means),
    "two operators": (code.two_totals, code.two_wrong_totals, code.two_means,
                      code.two_wrong_means),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_live_migration_is_previewed_on_a_copy(spark, tmp_path, scripts, way):
    totals, wrong_totals, means, wrong_means = WAYS[way]
    if way == "function":
        # The format of its values stands in a script alone.
        write_means(scripts)
    query = Query(spark, tmp_path, totals, "update", count=2 if way == "two operators" else 1)
    same = query.preview(totals, migrations=scripts)
    assert (same.path, same.noise, same.unexpected) == ("as it is", (), ())
    assert all(batch.stores[0].rows for batch in same.batches), "there was something to compare"
    assert ("total", "sum") in fields(query.preview(wrong_totals, migrations=scripts))
    write_means(scripts)
    found = query.preview(means, migrations=scripts)
    assert (found.path, found.noise, found.unexpected) == ("live", (), ())
    assert found.square
    assert all(each.is_same for each in found.square)
    wrong = query.preview(wrong_means, migrations=scripts)
    assert {("total", "sum"), ("total", "mean")} <= fields(wrong)
    assert not all(each.is_same for each in wrong.square)


def test_a_query_is_previewed_in_the_middle_of_its_backfill(spark, tmp_path, scripts):
    query = Query(spark, tmp_path, code.stateful_totals, "update", batches=3)
    write_means(scripts)
    query.function = code.stateful_means
    query.name = named(code.stateful_means)
    some = ['{"k": "k3", "v": 1, "id": 900, "at": "2026-01-01T00:09:00Z"}']
    (query.inputs[0] / "8.json").write_text("\n".join(some))
    query.run()
    backfill(query.checkpoint, migrations=scripts, keys_per_chunk=2)
    for number in (9, 10):
        (query.inputs[0] / f"{number}.json").write_text("\n".join(events(number)))
        query.run()
    (store,) = status(query.checkpoint, migrations=scripts).stores
    assert store.left == 0
    found = query.preview(code.stateful_means, migrations=scripts)
    assert (found.path, found.noise, found.unexpected) == ("as it is", (), ())
    wrong = query.preview(code.stateful_wrong_means, migrations=scripts)
    assert {("total", "sum"), ("total", "mean")} <= fields(wrong)
    saved = tmp_path / "bundle"
    query.save(saved)
    assert query.preview(code.stateful_means, migrations=scripts, place=saved).unexpected == ()


class NamedQuery(Query):
    """Its source has a name, and so has the one of the backfill."""

    def stream(self, place):
        reader = self.spark.readStream.name("events").schema(previewed_query.SCHEMA)
        return reader.json(str(place))


@pytest.mark.skipif(spark_version() < (4, 3), reason="Spark keeps the names from 4.3 on")
def test_a_query_whose_sources_have_names_is_previewed_with_its_backfill(spark, tmp_path, scripts):
    named_sources = spark.newSession()
    named_sources.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    query = NamedQuery(named_sources, tmp_path, code.backfilled_totals, "update", batches=3)
    write_means(scripts)
    query.function = code.backfilled_means
    query.name = named(code.backfilled_means)
    backfill(query.checkpoint, migrations=scripts, keys_per_chunk=2, spark=named_sources)
    for number in (3, 4):
        (query.inputs[0] / f"{number}.json").write_text("\n".join(events(number)))
        query.run()
    newest = max(int(each.name) for each in (query.checkpoint / "offsets").glob("[0-9]*"))
    lines = (query.checkpoint / f"offsets/{newest}").read_text().splitlines()[2:]
    assert len(lines) == 2
    assert any(each.startswith("events:") for each in lines)
    # The session of the preview has names for its sources, or has none.
    found = query.preview(code.backfilled_means, migrations=scripts)
    assert (found.path, found.noise, found.unexpected) == ("as it is", (), ())
    query.spark = spark
    wrong = query.preview(code.backfilled_wrong_means, migrations=scripts)
    assert {("total", "sum"), ("total", "mean")} <= fields(wrong)


def test_a_query_that_gets_stateful_is_previewed_before_it_has_it(spark, tmp_path, scripts):
    query = Query(spark, tmp_path, previewed_code.processed, "update")
    assert query.preview(code.stateful_totals, migrations=scripts).unexpected == ()
    write_means(scripts)
    found = query.preview(code.stateful_means, migrations=scripts)
    assert (found.path, found.noise, found.unexpected) == ("live", (), ())
    assert all(each.is_same for each in found.square)
