"""Code of the embedded engine is previewed on a copy of its state, key by key and by tables."""

import json
import random

import embedded_code as code
import previewed_code
import pytest
from embedded_life import EmbeddedLife, replayed_contents, totals_after
from previewed_query import SCHEMA, fields, named
from support.sessions import spark_version

import statemigrate.commands.preview_runs as runs
from statemigrate import BackfillOptions, init, open_state, status
from statemigrate.embedded.batches import beat
from statemigrate.embedded.layout import Layout

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
WAYS = {
    "by key": (code.totals, code.wrong_totals, code.means, code.wrong_means),
    "by tables": (code.column_totals, code.wrong_column_totals, code.column_means,
                  code.wrong_column_means),
}  # fmt: skip


MORE = """
from statemigrate import Struct

revision = "bbbb11112222"
down_revision = "aaaa11112222"
branch_labels = None
store = "total"
old = Struct("n BIGINT, sum BIGINT, mean DOUBLE")
new = Struct("n BIGINT, sum BIGINT, mean DOUBLE, more STRING")


def upgrade(value):
    return {**value, "more": "none"}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(code, "CHECKPOINT", str(tmp_path / "checkpoint"))
    return tmp_path


@pytest.fixture
def scripts(place, monkeypatch):
    init(migrations=place / "migrations")
    monkeypatch.setattr(code, "MIGRATIONS", str(place / "migrations"))
    return place / "migrations"


def write(scripts, script=previewed_code.SCRIPT):
    (scripts / "versions" / "aaaa11112222_means.py").write_text(script)


def only(found, batch, store):
    """What differs in a store after a batch."""
    (each,) = [each for each in found.batches if each.batch == batch]
    (difference,) = [one for one in each.differences if one.store == store]
    return difference


@pytest.mark.parametrize("way", WAYS)
def test_the_same_code_leaves_the_same_bytes_and_a_fault_is_named(spark, place, monkeypatch, way):
    totals, wrong, *_ = WAYS[way]
    query = EmbeddedLife(spark, place, totals)
    assert query.newest == 4, "a batch a file"
    made = replayed_contents(monkeypatch)
    same = query.preview(totals)
    assert (same.path, same.noise, same.unexpected) == ("as it is", (), ())
    assert [each.batch for each in same.batches] == [2, 3, 4]
    assert all(only(same, batch, "total").rows == 7 for batch in (2, 3, 4))
    assert all(only(same, batch, "output").rows == 7 for batch in (2, 3, 4))
    own = {batch: query.contents(batch) for batch in (2, 3, 4)}
    assert own[2] != own[3] != own[4]
    assert made == [own, own, own], "two controls and the candidate"
    made.clear()
    found = query.preview(wrong)
    assert fields(found) == {("total", "sum"), ("output", "sum")}
    assert found.noise == ()
    assert made[:2] == [own, own]
    # The state that the copy begins with is right, so only the sevens of three batches are.
    after = totals_after(query.rows, 5, lambda row, batch: batch >= 2 and row["v"] == 7)
    whole = totals_after(query.rows, 5)
    assert only(found, 4, "total").changed == sum(after[each] != whole[each] for each in whole)
    for each in only(found, 4, "total").examples:
        (key,) = each.key.values()
        assert (each.before["n"], each.before["sum"]) == whole[key]
        assert (each.after["n"], each.after["sum"]) == after[key]


def test_a_fault_shows_from_the_batch_on_that_it_begins_with(spark, place):
    query = EmbeddedLife(spark, place, code.totals)
    found = query.preview(code.totals_wrong_later, batches=4)
    assert [only(found, batch, "total").is_same for batch in (1, 2, 3, 4)] == [
        True, True, False, False,
    ]  # fmt: skip
    assert any("batch 3: total.sum" in text for text in found.unexpected)
    assert not any("batch 4" in text for text in found.unexpected), "the first batch alone"
    without = query.preview(code.totals_wrong_later, batches=4, old=False)
    assert without.reference == "production"
    assert [only(without, batch, "total").changed for batch in (1, 2, 3, 4)] == [
        only(found, batch, "total").changed for batch in (1, 2, 3, 4)
    ]


@pytest.mark.parametrize("function", [code.visits, code.visits_until_now], ids=["at once", "each"])
def test_batches_have_the_time_that_they_had(spark, place, monkeypatch, function):
    query = EmbeddedLife(spark, place, function)
    made = replayed_contents(monkeypatch)
    same = query.preview(function)
    assert (same.noise, same.unexpected) == ((), ())
    own = {batch: query.contents(batch) for batch in (2, 3, 4)}
    assert made == [own, own, own]
    with open_state(query.checkpoint, migrations=None) as state:
        times = state["times"].to_arrow().column("at").to_pylist()
    lines = [(query.checkpoint / f"offsets/{n}").read_text().split("\n")[1] for n in range(5)]
    assert set(times) == {json.loads(each)["batchTimestampMs"] for each in lines}
    wrong = query.preview(code.late_visits)
    assert ("values", "n") in fields(wrong)
    assert not {each for each in fields(wrong) if each[0] in ("times", "output")}


@pytest.mark.parametrize("way", WAYS)
def test_a_live_migration_is_previewed_with_its_scripts(spark, place, scripts, way):
    totals, _, means, wrong_means = WAYS[way]
    query = EmbeddedLife(spark, place, totals)
    write(scripts)
    found = query.preview(means, migrations=scripts)
    assert (found.path, found.noise, found.unexpected) == ("live", (), ())
    assert only(found, 4, "total").rows == 7
    assert [each.rows for each in found.square] == [7]
    assert all(each.is_same for each in found.square)
    wrong = query.preview(wrong_means, migrations=scripts)
    assert {("total", "sum"), ("total", "mean")} <= fields(wrong)
    assert not all(each.is_same for each in wrong.square)
    assert any("migrated after the batches" in text for text in wrong.unexpected)


def test_the_square_finds_a_wrong_script(spark, place, scripts):
    # A key that no batch touches again keeps what the script makes of it, in both ways.
    query = EmbeddedLife(spark, place, code.totals)
    write(scripts, previewed_code.SCRIPT.replace('value["sum"] /', '1.0 + value["sum"] /'))
    found = query.preview(code.means, migrations=scripts)
    (square,) = found.square
    assert (square.store, dict(square.fields)) == ("total", {"mean": square.changed})
    assert square.changed == 7
    for each in square.examples:
        assert each.before["mean"] == pytest.approx(each.after["mean"] + 1)
    (text,) = [each for each in found.unexpected if each.startswith("migrated after")]
    assert "total.mean" in text


@pytest.mark.parametrize(
    ("totals", "means"),
    [(code.totals, code.means), (code.totals_until_now, code.means_until_now)],
    ids=["at once", "each"],
)
def test_a_query_is_previewed_in_the_middle_of_its_backfill(
    spark, place, scripts, monkeypatch, totals, means
):
    few = json.dumps({"k": "k3", "v": 1, "id": 900, "at": "2026-01-01T00:09:00Z"})
    keys = [json.dumps({"k": f"rare {n}", "v": n, "id": n, "at": "2026-01-01T00:00:00Z"})
            for n in range(300)]  # fmt: skip
    query = EmbeddedLife(spark, place, totals, rows=[keys])
    write(scripts)
    query.function, query.name = means, named(means)
    slow = BackfillOptions(initial_rows=20, maximum_rows=20)
    monkeypatch.setitem(code.OPTIONS, "backfill", slow)
    for number in range(1, 5):
        query.feed(number, [few])
        if number == 3:
            query.run()
    first = query.newest - 3
    idle = [n for n in range(first + 1, query.newest + 1) if reads(query, n) == reads(query, n - 1)]
    assert idle, "a batch of the engine's own, which has no rows"
    left = [counts(query, batch) for batch in (first, query.newest)]
    assert left[0] > left[1] > 0, "the backfill is under way in these batches"
    made = replayed_contents(monkeypatch)
    found = query.preview(means, migrations=scripts)
    assert (found.path, found.noise, found.unexpected) == ("as it is", (), ())
    assert only(found, query.newest, "total").rows == 301
    assert made[0][query.newest] != query.contents(query.newest), "a copy backfills nothing"
    wrong = query.preview(code.wrong_means, migrations=scripts)
    assert {("total", "sum"), ("total", "mean")} <= fields(wrong)
    assert only(wrong, query.newest, "total").changed == 1
    saved = place / "bundle"
    query.save(saved)
    again = query.preview(means, migrations=scripts, place=saved)
    assert (again.noise, again.unexpected) == ((), ())


def test_a_release_within_the_batches_makes_no_difference(spark, place, scripts):
    query = EmbeddedLife(spark, place, code.totals, batches=3)
    write(scripts)
    query.function, query.name = code.means, named(code.means)
    query.feed(3)
    # A later script is there already, and the deployed code stays with the one before.
    (scripts / "versions" / "bbbb11112222_more.py").write_text(MORE)
    found = query.preview(code.means_with_more, migrations=scripts, batches=query.newest)
    assert (found.path, found.noise, found.unexpected) == ("live", (), ())
    assert [each.batch for each in found.batches] == list(range(1, query.newest + 1))
    assert [each.is_same for each in found.square] == [True]


def reads(query, batch):
    """The offset of the query's own source."""
    return (query.checkpoint / f"offsets/{batch}").read_text().split("\n")[2]


def counts(query, batch):
    """How many values have the old format after a batch."""
    return query.contents(batch)["total"].records if "total" in query.contents(batch) else 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_batches_are_run_again_as_they_were(spark, place, monkeypatch, seed):
    drawn = random.Random(seed)
    count = drawn.randint(4, 7)
    rows = [
        [
            json.dumps({
                "k": drawn.choice(["", "ü", "k", "a longer key", f"key {drawn.randrange(50)}"]),
                "v": drawn.choice([7, drawn.randrange(-(1 << 40), 1 << 40)]),
                "id": number,
                "at": "2026-01-01T00:00:00Z",
            })
            for _ in range(drawn.choice([1, 5, 200]))
        ]
        for number in range(count)
    ]  # fmt: skip
    monkeypatch.setitem(code.OPTIONS, "partitions", drawn.randint(1, 3))
    monkeypatch.setitem(code.OPTIONS, "snapshot_every", drawn.randint(1, 4))
    functions = drawn.sample([code.totals, code.column_totals], 2)
    query = EmbeddedLife(spark, place, functions[0], rows=rows)
    batches = drawn.randint(1, count - 1)
    made = replayed_contents(monkeypatch)
    same = query.preview(functions[1], batches=batches)
    assert (same.noise, same.unexpected) == ((), ())
    own = {batch: query.contents(batch) for batch in range(count - batches, count)}
    assert made == [own, own, own], "either kind of processor leaves the same bytes"
    first = drawn.randrange(count)
    monkeypatch.setattr(code, "FIRST", first)
    found = query.preview(code.totals_wrong_later, batches=batches)
    whole, before = count - batches, totals_after(rows, count - batches)
    assert len(before) >= 1
    for number in range(whole, count):
        right = totals_after(rows, number + 1)
        wrong = totals_after(
            rows, number + 1,
            lambda row, batch: batch >= max(whole, first) and row["v"] == 7,
        )  # fmt: skip
        difference = only(found, number, "total")
        assert difference.rows == len(right)
        assert difference.changed == sum(right[key] != wrong[key] for key in right)


def test_each_stream_gets_the_rows_of_its_own_source(spark, place):
    query = EmbeddedLife(spark, place, code.both, count=2)
    assert query.preview(code.both).unexpected == ()
    found = query.preview(code.both_but_some)
    changed = {each.key["k"] for each in only(found, query.newest, "total").examples}
    assert changed
    assert all(each.startswith("other ") for each in changed)


class NamedLife(EmbeddedLife):
    """Its sources have names, and so has the engine's own."""

    def stream(self, place):
        reader = self.spark.readStream.name(place.name.replace("-", "_")).schema(SCHEMA)
        return reader.option("maxFilesPerTrigger", 1).json(str(place))


@pytest.mark.skipif(spark_version() < (4, 3), reason="Spark keeps the names from 4.3 on")
def test_sources_with_names_are_read_again(spark, place):
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    query = NamedLife(session, place, code.both, count=2)
    beat(Layout(query.checkpoint), query.newest)
    query.feed(5)
    newest = (query.checkpoint / f"offsets/{query.newest}").read_text()
    assert newest.startswith("v2")
    assert "statemigrate_heartbeat:" in newest
    query.spark = spark
    assert query.preview(code.both).unexpected == ()
    changed = only(query.preview(code.both_but_some), query.newest, "total").examples
    assert {each.key["k"].split()[0] for each in changed} == {"other"}


def test_versions_may_go_while_the_preview_runs(spark, place, monkeypatch):
    monkeypatch.setitem(code.OPTIONS, "retain", 4)
    monkeypatch.setitem(code.OPTIONS, "snapshot_every", 1)
    query = EmbeddedLife(spark, place, code.totals)
    replay, ran = runs.replay, []

    def meanwhile(*given, **options):
        if not ran:
            for number in range(5, 10):
                query.feed(number)
            ran.append(sorted((query.checkpoint / "statemigrate/versions").glob("[0-9]-*.json")))
        return replay(*given, **options)

    monkeypatch.setattr(runs, "replay", meanwhile)
    found = query.follow(code.wrong_totals, 3, True, None)
    assert [each.batch for each in found.batches] == [2, 3, 4]
    assert not any(each.name.startswith(("2-", "3-", "4-")) for each in ran[0]), "they are gone"
    assert found.noise == ()
    assert fields(found) == {("total", "sum"), ("output", "sum")}


def test_a_running_query_is_followed(spark, place):
    query = EmbeddedLife(spark, place, code.totals, batches=3)
    made = []

    def watch(found):
        made.append(found)
        if len(made) < 3:
            query.feed(2 + len(made))
        return len(made) < 3

    query.follow(code.totals_wrong_later, 2, True, watch)
    assert [[each.batch for each in found.batches] for found in made] == [[1, 2], [3], [4]]
    assert [found.noise for found in made] == [(), (), ()]
    wrong = totals_after(query.rows, 5, lambda row, batch: row["v"] == 7 and row["id"] >= 180)
    right = totals_after(query.rows, 5)
    assert made[0].unexpected == ()
    # What went wrong in batch 3 is still wrong in the state after batch 4.
    assert only(made[2], 4, "total").changed == sum(right[key] != wrong[key] for key in right)


def test_the_status_of_a_query_is_as_before(spark, place, scripts):
    query = EmbeddedLife(spark, place, code.totals)
    write(scripts)
    before = status(query.checkpoint, migrations=scripts)
    query.preview(code.means, migrations=scripts)
    after = status(query.checkpoint, migrations=scripts)
    assert [each.left for each in before.stores] == [each.left for each in after.stores]
