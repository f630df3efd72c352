"""State as tables is the same whichever engine has written it, and agrees with each key's value."""

import json
import re
import urllib.request

import pytest
from click.testing import CliRunner
from function_deployments import Deployments
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline
from pipelines import Pipeline, no_backfill
from support.table_columns import check_conditions, check_each_column
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Scripts, batch

import statemigrate
from statemigrate import migrated, open_state
from statemigrate.cli.main import main
from statemigrate.state.plain_rows import EmbeddedRows, EnvelopeRows, PageRows
from statemigrate.state.user_rows import UserRows

pytestmark = [pytest.mark.spark, pytest.mark.long]

KEYS = [f"k{number}" for number in range(30)]
MOVED = 2


def natively(kind, spark, root, folder):
    pipeline = kind(spark, root)
    pipeline.feed(batch("first", range(30)))
    pipeline.deploy_natively(CentsTally())
    pipeline.feed(batch("second", range(MOVED)))
    pipeline.deploy_natively(migrated(AmountsTally(), migrations=folder))
    return pipeline.checkpoint


def in_variables(spark, root, folder):
    return natively(NativePipeline, spark, root, folder)


def in_pages(spark, root, folder):
    return natively(PagedPipeline, spark, root, folder)


def in_envelopes(spark, root, folder):
    deployments = Deployments(NativePipeline(spark, root), folder)
    deployments.process(CENTS, batch("first", range(30)))
    deployments.process(AMOUNTS, batch("second", range(MOVED)))
    return deployments.pipeline.checkpoint


def embedded(spark, root, folder):
    pipeline = Pipeline(spark, root)
    still = {"backfill": no_backfill()}
    pipeline.feed(batch("first", range(30)))
    pipeline.deploy(CentsTally(), **still)
    pipeline.feed(batch("second", range(MOVED)))
    pipeline.deploy(migrated(AmountsTally(), migrations=folder), **still)
    return pipeline.checkpoint


ENGINES = {
    "variables": (in_variables, UserRows),
    "pages": (in_pages, PageRows),
    "envelopes": (in_envelopes, EnvelopeRows),
    "embedded": (embedded, EmbeddedRows),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return Scripts(tmp_path_factory.mktemp("scripts") / "migrations").write()


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory, folder, engine):
    return ENGINES[engine][0](spark, tmp_path_factory.mktemp(engine), folder)


@pytest.fixture(scope="module")
def state(checkpoint, folder):
    return open_state(checkpoint, migrations=folder)


def test_each_column_is_read_without_the_others(state):
    check_each_column(state["tally"])
    check_conditions(state, "tally")


def typed(*words, code=0):
    result = CliRunner().invoke(main, ["--json", *(str(each) for each in words)])
    assert result.exit_code == code, result.output
    return json.loads(result.output)


def test_a_table_has_the_values_that_a_reader_has_of_each_key(checkpoint, folder, state, engine):
    table = state["tally"]
    assert all(isinstance(part.rows, ENGINES[engine][1]) for part in state.rows_of("tally").parts)
    rows = {row["key"]: row for row in table.to_arrow().to_pylist()}
    assert rows.keys() == {*KEYS}
    assert table.count() == len(KEYS)
    for key in KEYS:
        ((_, expected),) = state["tally"].entries(key)
        assert table.get(key) == expected
        assert table.under(key).to_pylist() == [rows[key]]
        assert {name: rows[key][name] for name in expected} == expected
    assert table.get("nobody") is None


def test_each_row_has_the_revision_that_it_is_stored_in(state, engine):
    found = {}
    for row in state["tally"].to_arrow().to_pylist():
        found.setdefault(row["_revision"], set()).add(row["key"])
    assert found.keys() == {CENTS, AMOUNTS}
    moved = {*KEYS[:MOVED]}
    # A page migrates whole.
    assert found[AMOUNTS] >= moved if engine == "pages" else found[AMOUNTS] == moved


def test_sql_answers_over_it(checkpoint, folder, state):
    query = "SELECT _revision, count(*) AS n, min(key) AS k FROM tally GROUP BY ALL ORDER BY n"
    rows = state["tally"].to_arrow().to_pylist()
    expected = [
        [revision, len(keys), min(keys)]
        for revision in (AMOUNTS, CENTS)
        if (keys := [row["key"] for row in rows if row["_revision"] == revision])
    ]
    found = typed("sql", query, checkpoint, "--migrations", folder)
    assert sorted(found["rows"]) == sorted(expected)


def test_diff_has_the_keys_that_the_second_batch_changed(checkpoint, folder, state):
    before, after = state.batches[0], state.batch
    words = ("diff", checkpoint, "--from", before, "--to", after, "--migrations", folder)
    (store,) = [each for each in typed(*words, code=1)["stores"] if each["store"] == "tally"]
    changed = {row["key"]: row for row in store["rows"]}
    assert (store["added"], store["removed"], changed.keys()) == (0, 0, {*KEYS[:MOVED]})
    old, new = state.at(before)["tally"], state["tally"]
    for row in state["tally"].changes(before).to_pylist():
        assert row["_before"] == old.get(row["key"])
        assert new.get(row["key"]) == {name: row[name] for name in row["_before"]}
    same = typed("diff", checkpoint, checkpoint, "--migrations", folder)
    assert [sum(each[name] for name in ("added", "removed", "changed")) for each in
            same["stores"]] == [0] * len(same["stores"])  # fmt: skip


def test_where_all_values_migrate_a_table_is_the_same_with_nulls_for_failures(
    checkpoint, folder, state
):
    columns = ["_error", "_stored"]
    with open_state(checkpoint, migrations=folder, on_error="null") as opened:
        for name in state.stores:
            found = opened[name].to_arrow()
            assert found.drop_columns(columns) == state[name].to_arrow()
            assert [found[each].null_count for each in columns] == [found.num_rows] * 2


def test_the_life_of_a_key_has_its_value_at_each_batch(checkpoint, folder, state):
    for key, changes in (("k0", ["first", "changed"]), ("k29", ["first"])):
        words = ("get", "tally", checkpoint, key, "--batches", "--migrations", folder)
        found = typed(*words)["changes"]
        assert [each["change"] for each in found] == changes
        for each, row in zip(found, state["tally"].history(key).to_pylist(), strict=True):
            value = state.at(each["batch"])["tally"].get(key)
            assert {name: row[name] for name in value} == value
            assert each["value"].keys() == value.keys()


def page(server, path=""):
    with urllib.request.urlopen(server.url + path) as answer:  # noqa: S310
        return answer.read().decode()


def text_of(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def test_browse_shows_each_store_and_counts_it_without_values(
    checkpoint, folder, engine, monkeypatch
):
    with statemigrate.browse(checkpoint, migrations=folder) as server:
        shown = text_of(page(server, "store?name=tally&key=k0"))
        assert "k0" in shown
        assert AMOUNTS in shown
        assert "k1" in text_of(page(server, "store?name=tally"))

    def decoded(*_):
        raise AssertionError("a count decodes no rows")

    kinds = {UserRows, EmbeddedRows, PageRows, EnvelopeRows}
    for kind in kinds - ({UserRows} if engine in ("pages", "envelopes") else set()):
        monkeypatch.setattr(kind, "batches", decoded)
    with statemigrate.browse(checkpoint, migrations=folder) as server:
        assert "30" in text_of(page(server))


def test_browse_beside_a_live_query_shows_each_batch_that_it_commits(spark, tmp_path):
    pipeline = NativePipeline(spark, tmp_path / "live")
    pipeline.feed(batch("first", range(4)))
    query = pipeline.start(pipeline.result(CentsTally()))
    try:
        query.processAllAvailable()
        with statemigrate.browse(pipeline.checkpoint, migrations=None) as server:
            for number in range(3):
                expected = open_state(pipeline.checkpoint, migrations=None)
                shown = text_of(page(server, "store?name=tally"))
                assert f"k{4 * number + 3}" in shown
                assert f"k{4 * number + 4}" not in shown
                assert expected["tally"].count() == 4 * number + 4
                pipeline.feed(batch("more", range(4 * number + 4, 4 * number + 8)))
                query.processAllAvailable()
    finally:
        query.stop()
