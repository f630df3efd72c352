"""A backfill of list and map state: drained whole, or but for what does not migrate."""

import pytest
from control_pipeline import ControlPipeline
from paged_pipeline import PagedPipeline
from pyspark.errors import StreamingQueryException
from support.sessions import spark_version
from tally import Scripts
from test_list_and_map_state import FIRST, both_counts, both_words, check_logical
from words import (
    LIST,
    MAP,
    OUTPUT,
    ROWS,
    Model,
    NewWords,
    NewWordsInPandas,
    Words,
    WordsInPandas,
    write_scripts,
)

from statemigrate import BackfillPlan, backfill, backfill_status, migrated

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def folder(tmp_path):
    return write_scripts(Scripts(tmp_path / "migrations"))


@pytest.fixture
def words(spark, tmp_path) -> ControlPipeline:
    return ControlPipeline(spark, tmp_path / "pipeline", rows=ROWS, output=OUTPUT)


@pytest.mark.skipif(spark_version() < (4, 1), reason="PySpark 4.0 has neither lists nor rows")
@pytest.mark.parametrize(("old", "new"), [(Words, NewWords), (WordsInPandas, NewWordsInPandas)])
def test_lists_and_maps_are_drained(words, folder, old, new):
    model = Model()
    words.in_pandas = new is NewWordsInPandas
    words.feed(FIRST)
    base = {"words": "base", "counts": "base"}
    words.deploy_natively(migrated(old(), migrations=folder, targets=base))
    model.run(FIRST)
    plan = backfill(words.checkpoint, migrations=folder, keys_per_chunk=5)
    assert plan == BackfillPlan(9, 2, {"words": 9, "counts": 9}, 0)
    live = [("k0", "new", "add"), ("k1", "c", "remove"), ("k8", "fresh", "add")]
    words.feed(live)
    words.deploy_natively(migrated(new(), migrations=folder))
    model.run(live)
    lists, unmigrated = both_words(words)
    assert lists == {key: each for key, each in model.words.items() if each}
    assert not unmigrated
    counts, old_counts = both_counts(words)
    assert counts == {key: each for key, each in model.counts.items() if each}
    assert not old_counts


KINDS = {"words": "list", "counts": "map"}
POISON = '    if value["word"] == "c":\n        raise ValueError("no c")\n'


def test_quarantine_keeps_what_does_not_migrate_and_goes_on(words, folder):
    poison(folder)
    words.feed(FIRST)
    words.deploy_natively(Words())
    before = {name: words.state(name, kind) for name, kind in KINDS.items()}
    backfill(words.checkpoint, migrations=folder, keys_per_chunk=5)
    words.deploy_natively(migrated(NewWords(), migrations=folder, on_error="quarantine"))
    # A list with a c stays whole; of a map only the entry.
    good = ["k9"]
    lists = words.state("words", "list")
    assert lists == {key: each for key, each in before["words"].items() if key not in good}
    assert set(words.state(f"words@{LIST}", "list")) == set(good)
    assert words.state("counts", "map") == {
        key: {"c": entries["c"]} for key, entries in before["counts"].items() if "c" in entries
    }
    assert {key: set(each) for key, each in words.state(f"counts@{MAP}", "map").items()} == {
        key: set(entries) - {"c"} for key, entries in before["counts"].items()
    }
    status = backfill_status(words.checkpoint, migrations=folder)
    assert status.is_finished
    assert status.quarantined == status.keys_left == 8
    assert status.families == {"words": 8, "counts": 8}


def test_quarantine_keeps_what_does_not_migrate_of_a_page(spark, tmp_path, folder):
    poison(folder)
    words = PagedPipeline(spark, tmp_path / "pages", pages=3, rows=ROWS, output=OUTPUT)
    model, base = Model(), {"words": "base", "counts": "base"}
    words.feed(FIRST)
    words.deploy_natively(Words())
    model.run(FIRST)
    plan = backfill(words.checkpoint, migrations=folder, keys_per_chunk=2)
    assert plan.families == {"words": 9, "counts": 25}
    settings = {"migrations": folder, "on_error": "quarantine"}
    # Its neighbours on the page have a c; it has none.
    words.feed(live := [("k9", "more", "add")])
    code = migrated(NewWords(), **settings)
    words.deploy_natively(code)
    model.run(live)
    status = backfill_status(words.checkpoint, migrations=folder)
    assert status.is_finished
    # A list with a c stays whole; of a map only the entry.
    assert status.families == {"words": 8, "counts": 8}
    assert status.quarantined == status.keys_left == 16
    check_logical(words, folder, model, base)
    # One that is read by the stream itself is no neighbour.
    words.feed([("k3", "x", "add")])
    with pytest.raises(StreamingQueryException, match="no c"):
        words.deploy_natively(migrated(NewWords(), **settings))
    check_logical(words, folder, model, base)


def poison(folder):
    """Let the word c not migrate."""
    for script in (folder / "versions").glob("*.py"):
        text = script.read_text()
        script.write_text(text.replace("upgrade(value):\n", f"upgrade(value):\n{POISON}"))
