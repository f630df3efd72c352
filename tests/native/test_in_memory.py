"""Processors over Spark's in-memory test handle: no JVM, any sequence of operations."""

from collections import defaultdict

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from pyspark.sql import Row
from tally import AMOUNTS, AmountsTally, Scripts
from words import LIST, MAP, Model, NewWords, write_scripts

from statemigrate import migrated
from statemigrate.errors import TransformError
from statemigrate.native.control_rows import MARKER

tws_tester = pytest.importorskip("pyspark.sql.streaming.tws_tester")

KEYS, WORDS = ["a", "b"], ["x", "yy", "zzz"]
OPERATIONS = ["add", "add", "remove", "clear", "put", "count", "look", "control"]
STEPS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(WORDS), st.sampled_from(OPERATIONS)),
    max_size=12,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_scripts(Scripts(tmp_path_factory.mktemp("scripts") / "migrations"))


def row(key, word, op):
    marker = "asked" if op == "control" else None
    return Row(**{"key": key, "word": word, "op": op, MARKER: marker})


def held(tester, key):
    """The words and the counts of a key over both families, and what is left in the old ones."""
    old_list = tester.peekListState("words", key)
    new_list = tester.peekListState(f"words@{LIST}", key)
    old_map, new_map = (tester.peekMapState(name, key) for name in ("counts", f"counts@{MAP}"))
    assert not (old_list and new_list)
    assert not old_map.keys() & new_map.keys()
    words = [value[0] for value in old_list] + [value[0][0] for value in new_list]
    counts = {user[0]: value[1] for user, value in [*old_map.items(), *new_map.items()]}
    for value in [*new_list, *new_map.values()]:
        assert value[2] <= 1, "migrated twice"
    return words, counts, bool(old_list or old_map)


@pytest.mark.long
@settings(max_examples=50)
@given(before=STEPS, after=STEPS)
def test_lists_and_maps_follow_a_plain_model_through_any_operations(folder, before, after):
    model = Model()
    model.run([step for step in before if step[2] != "control"])
    tester = tws_tester.TwsTester(migrated(NewWords(), migrations=folder))
    for key in KEYS:
        # As the old code has left them.
        if model.words[key]:
            tester.updateListState("words", key, [(word, 1) for word in model.words[key]])
        counts = {(word,): (word, n) for word, n in model.counts[key].items()}
        tester.updateMapState("counts", key, counts)
    for step in after:
        seen = tester.test(step[0], [row(*step)])
        if step[2] == "control":
            assert seen == []
            assert not held(tester, step[0])[2]
            continue
        model.run([step])
        assert [each.seen for each in seen] == [model.seen([step[0]])[step[0]]]
        for key in KEYS:
            assert held(tester, key)[:2] == (model.words[key], model.counts[key])


@pytest.fixture
def tally(tmp_path):
    folder = Scripts(tmp_path / "migrations").write()

    def made(**settings):
        return tws_tester.TwsTester(migrated(AmountsTally(), migrations=folder, **settings))

    return made


def bid(key, cents=100, name="now", marker=None):
    return Row(**{"key": key, "cents": cents, "name": name, MARKER: marker})


def test_a_value_is_written_once_a_visit_and_leaves_the_old_family(tally):
    tester = tally()
    tester.updateValueState("tally", "k", (2, 150, "then", 0))
    (seen,) = tester.test("k", [bid("k"), bid("k")])
    assert seen.asDict() == {"key": "k", "n": 4, "cents": 350, "last": "now", "moved": 1}
    assert tester.peekValueState("tally", "k") is None
    assert tester.peekValueState(f"tally@{AMOUNTS}", "k")[0] == 4


def test_a_control_row_beside_the_users_own_changes_nothing_twice(tally):
    tester = tally()
    tester.updateValueState("tally", "k", (2, 150, "then", 0))
    rows = [bid("k", marker="asked"), bid("k"), bid("k", marker="asked")]
    (seen,) = tester.test("k", rows)
    assert seen.asDict() == {"key": "k", "n": 3, "cents": 250, "last": "now", "moved": 1}
    assert tester.test("k", [bid("k", marker="asked")]) == []
    assert tester.peekValueState(f"tally@{AMOUNTS}", "k")[3] == 1


def test_the_user_sees_the_streams_own_columns_alone(tally):
    fields = []

    class Looking(AmountsTally):
        def handleInputRows(self, key, rows, timer_values):
            rows = list(rows)
            fields.extend(row.__fields__ for row in rows)
            return super().handleInputRows(key, iter(rows), timer_values)

    folder = tally().processor.__statemigrate__.migrations
    tester = tws_tester.TwsTester(migrated(Looking(), migrations=folder))
    tester.test("k", [bid("k"), bid("k", marker="asked")])
    assert fields == [["key", "cents", "name"]]


def test_a_poison_value_fails_the_backfill_or_is_left_alone(tally):
    # Cents that are no number: the transform raises.
    poison = (1, None, "bad", 0)
    tester = tally()
    tester.updateValueState("tally", "k", poison)
    with pytest.raises(TransformError, match="'k'") as caught:
        tester.test("k", [bid("k", marker="asked")])
    revisions = {"source": "base", "target": AMOUNTS}
    assert caught.value.data == {"store": "tally", "key": ("k",), **revisions}
    tester = tally(on_error="quarantine")
    tester.updateValueState("tally", "k", poison)
    tester.updateValueState("tally", "good", (1, 5, "fine", 0))
    assert tester.test("k", [bid("k", marker="asked")]) == []
    tester.test("good", [bid("good", marker="asked")])
    assert tester.peekValueState("tally", "k") == poison
    assert tester.peekValueState(f"tally@{AMOUNTS}", "k") is None
    assert tester.peekValueState("tally", "good") is None


def test_nothing_of_another_key_is_taken_for_this_ones(tally):
    tester = tally()
    for number in range(20):
        tester.updateValueState("tally", f"k{number}", (1, number, "then", 0))
    seen = defaultdict(list)
    for turn in range(3):
        for number in range(20):
            (out,) = tester.test(f"k{number}", [bid(f"k{number}", cents=turn)])
            seen[number].append((out.n, out.cents, out.moved))
    assert seen == {n: [(2, n, 1), (3, n + 1, 1), (4, n + 3, 1)] for n in range(20)}
