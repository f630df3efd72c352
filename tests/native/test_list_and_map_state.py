"""List and map state in place, and everything at once, in Rows, in pandas and on pages."""

from collections import defaultdict

import pytest
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline
from support.sessions import spark_version
from tally import Scripts
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

from statemigrate import backfill, backfill_status, migrated, open_state
from statemigrate.native.checkpoint import SparkCheckpoint

pytestmark = pytest.mark.spark

FIRST = [
    *[(f"k{n}", word, "add") for n in range(8) for word in ("ab", "c", "ab", "def")],
    ("k9", "only", "add"),
]
SECOND = [
    ("k0", "new", "add"),
    ("k1", "c", "remove"),
    ("k2", "", "clear"),
    ("k3", "put", "put"),
    ("k4", "ab", "count"),
    ("k5", "zz", "count"),
    ("k6", "", "look"),
    ("k8", "fresh", "add"),
]


@pytest.fixture
def words(request, spark, tmp_path):
    parts = {"rows": ROWS, "output": OUTPUT}
    if getattr(request, "param", "native") == "paged":
        return PagedPipeline(spark, tmp_path / "pipeline", pages=6, **parts)
    return NativePipeline(spark, tmp_path / "pipeline", **parts)


@pytest.fixture
def folder(tmp_path):
    return write_scripts(Scripts(tmp_path / "migrations"))


def both_words(pipeline):
    """All words of all keys by the old and the new family together; a key is in one of them."""
    old = pipeline.state("words", "list")
    new = pipeline.state(f"words@{LIST}", "list")
    assert not old.keys() & new.keys()
    found = {key: [each["word"] for each in values] for key, values in old.items()}
    for key, values in new.items():
        assert all(each["moved"] <= 1 for each in values)
        found[key] = [each["text"]["word"] for each in values]
    return found, old.keys()


def both_counts(pipeline):
    old = pipeline.state("counts", "map")
    new = pipeline.state(f"counts@{MAP}", "map")
    found = defaultdict(dict)
    for key, values in old.items():
        assert not values.keys() & new.get(key, {}).keys()
        found[key].update({word: value["n"] for word, value in values.items()})
    for key, values in new.items():
        found[key].update({word: value["n"] for word, value in values.items()})
    return dict(found), {key: set(values) for key, values in old.items()}


def logical(pipeline, folder, targets):
    """All words and counts of all keys, as verbs read them, in the targets' formats."""
    with open_state(pipeline.checkpoint, migrations=folder, targets=targets) as state:
        lists = {key: list(map(word_of, each)) for (key,), each in state["words"].entries()}
        counts = defaultdict(dict)
        for (key, word), value in state["counts"].entries():
            counts[key][word] = value["n"]
            assert word == word_of(value)
    return lists, dict(counts)


def word_of(value):
    return value["word"] if "word" in value else value["text"]["word"]


def check_logical(pipeline, folder, model, targets=None):
    lists, counts = logical(pipeline, folder, targets)
    assert lists == {key: each for key, each in model.words.items() if each}
    assert counts == {key: each for key, each in model.counts.items() if each}


@pytest.mark.long
@pytest.mark.parametrize("words", ["paged"], indirect=True)
def test_lists_and_maps_in_pages_migrate_by_touch_and_the_rest_by_a_backfill(words, folder):
    model = Model()
    words.feed(FIRST)
    words.deploy_natively(Words())
    model.run(FIRST)
    words.feed(SECOND[:2])
    words.deploy_natively(migrated(NewWords(), migrations=folder))
    model.run(SECOND[:2])
    touched = [key for key, _, _ in SECOND[:2]]
    assert dict(map(tuple, words.handed_by_batch[1])) == model.seen(touched)
    check_logical(words, folder, model)
    left = backfill_status(words.checkpoint, migrations=folder).families
    assert set(left) == {"words", "counts"}
    plan = backfill(words.checkpoint, migrations=folder, keys_per_chunk=2)
    assert plan.families == left
    words.feed(SECOND[2:])
    words.deploy_natively(migrated(NewWords(), migrations=folder))
    model.run(SECOND[2:])
    check_logical(words, folder, model)
    assert backfill_status(words.checkpoint, migrations=folder).keys_left == 0


@pytest.mark.skipif(spark_version() < (4, 1), reason="PySpark 4.0 has neither lists nor rows")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(Words, NewWords, id="rows"),
        pytest.param(WordsInPandas, NewWordsInPandas, id="pandas", marks=pytest.mark.long),
    ],
)
def test_a_list_migrates_whole_and_a_map_entry_by_entry(words, folder, old, new):
    words.in_pandas = old is WordsInPandas
    model = Model()
    words.feed(FIRST)
    words.deploy_natively(old())
    model.run(FIRST)
    words.feed(SECOND)
    words.deploy_natively(migrated(new(), migrations=folder))
    model.run(SECOND)
    touched = [key for key, _, _ in SECOND]
    assert dict(map(tuple, words.handed_by_batch[1])) == model.seen(touched)
    lists, unmigrated = both_words(words)
    assert lists == {key: each for key, each in model.words.items() if each}
    assert unmigrated == {"k7", "k9"}
    counts, old = both_counts(words)
    assert counts == {key: each for key, each in model.counts.items() if each}
    # A scan migrates nothing; what was read or written by its own key is migrated.
    assert old["k0"] == {"ab", "c", "def"}
    assert old["k1"] == {"ab", "def"}
    assert old["k4"] == {"c", "def"}
    assert "k2" not in old


@pytest.mark.long
@pytest.mark.parametrize("words", ["native", "paged"], indirect=True)
def test_lists_and_maps_go_back(words, folder):
    model = Model()
    again = [(f"k{n}", "w", "add") for n in range(0, 10, 2)]
    for batch, processor, targets in (
        (FIRST, NewWords, {}),
        (SECOND, NewWords, {}),
        (again, Words, {"words": "base", "counts": "base"}),
    ):
        words.feed(batch)
        words.deploy_natively(migrated(processor(), migrations=folder, targets=targets))
        model.run(batch)
    assert dict(map(tuple, words.handed_by_batch[2])) == model.seen([key for key, _, _ in again])
    check_logical(words, folder, model, targets)
    if not isinstance(words, PagedPipeline):
        assert both_words(words)[0] == {key: each for key, each in model.words.items() if each}
        assert both_counts(words)[0] == {key: each for key, each in model.counts.items() if each}


def test_the_files_tell_the_types_that_sparks_reader_tells(words):
    words.feed(FIRST[:3])
    words.deploy_natively(Words())
    reader = SparkCheckpoint(str(words.checkpoint))
    columns = {"value": "value", "list": "list_element", "map": "user_map_value"}
    kinds = {}
    for variable in reader.variables().values():
        frame, types = reader.frame(variable.name), reader.types(variable)
        assert frame.schema["key"].dataType == types.key == reader.grouping_key()
        assert frame.schema[columns[variable.kind]].dataType == types.value
        if variable.kind == "map":
            assert frame.schema["user_map_key"].dataType == types.user_key
        kinds[variable.name] = variable.kind
    assert sorted(kinds.values()) == ["list", "map"]
