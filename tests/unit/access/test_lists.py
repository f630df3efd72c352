"""List state migrates whole, element by element, and its order holds."""

import pytest
from support.benches import Batch
from support.notes import MIDDLE, NEW, OLD, POISON, note
from support.shorthand import key, long, short

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.families import Span


def seeded(bench, families, target, *, write_on_read=True):
    for revision, lists in families.items():
        values = {k: [long(revision, text) for text in texts] for k, texts in lists.items()}
        bench.seed("lists", revision, values)
    bench.open(Batch(target, {"lists": frozenset(families)}, write_on_read))
    return bench.accesses["lists"]


def contents(bench, revision):
    return {key: short(values) for key, values in bench.contents("lists", revision).items()}


def texts(revision, *names):
    return [note(revision, name) for name in names]


def test_an_append_to_an_unmigrated_list_migrates_it_first(bench):
    access = seeded(bench, {OLD: {key(1): ["a", "b"]}, MIDDLE: {}}, MIDDLE)
    access.append(key(1), texts(MIDDLE, "c", "d"))
    assert contents(bench, MIDDLE) == {key(1): ["a+1", "b+1", "c", "d"]}
    assert contents(bench, OLD) == {}
    assert access.sources == ()
    assert access.counts.touched == 1
    access.append(key(1), texts(MIDDLE, "e"))
    assert short(access.get(key(1))) == ["a+1", "b+1", "c", "d", "e"]


def test_an_append_migrates_also_where_reads_do_not(bench):
    families = {OLD: {key(1): ["a"], key(2): ["b"]}, MIDDLE: {}}
    access = seeded(bench, families, MIDDLE, write_on_read=False)
    assert short(access.get(key(2))) == ["b+1"]
    access.append(key(1), texts(MIDDLE, "c"))
    assert contents(bench, MIDDLE) == {key(1): ["a+1", "c"]}
    assert contents(bench, OLD) == {key(2): ["b"]}


def test_a_read_migrates_the_whole_list_and_no_other(bench):
    access = seeded(bench, {OLD: {key(1): ["a", "b", "c"], key(2): ["d"]}, MIDDLE: {}}, MIDDLE)
    assert short(access.peek(key(1))) == ["a+1", "b+1", "c+1"]
    assert contents(bench, MIDDLE) == {}
    assert short(access.get(key(1))) == ["a+1", "b+1", "c+1"]
    assert contents(bench, MIDDLE) == {key(1): ["a+1", "b+1", "c+1"]}
    assert contents(bench, OLD) == {key(2): ["d"]}


def test_a_new_list_replaces_an_unmigrated_one_of_any_length(bench):
    access = seeded(bench, {OLD: {key(1): ["a", "b", "c"]}, MIDDLE: {key(2): ["d", "e"]}}, MIDDLE)
    access.put(key(1), texts(MIDDLE, "x"))
    access.put(key(2), texts(MIDDLE, "y"))
    assert contents(bench, OLD) == {}
    assert contents(bench, MIDDLE) == {key(1): ["x"], key(2): ["y"]}
    access.append(key(2), texts(MIDDLE, "z"))
    assert contents(bench, MIDDLE)[key(2)] == ["y", "z"]


def test_a_delete_removes_every_element_from_every_family(bench):
    access = seeded(bench, {OLD: {key(1): ["a", "b"]}, MIDDLE: {key(2): ["c", "d"]}}, MIDDLE)
    access.delete(key(1))
    access.delete(key(2))
    assert contents(bench, OLD) == contents(bench, MIDDLE) == {}
    assert not access.exists(key(1))
    assert access.get(key(1)) is None
    access.append(key(1), texts(MIDDLE, "new"))
    assert contents(bench, MIDDLE) == {key(1): ["new"]}


def test_an_append_of_nothing_makes_no_list(bench):
    access = seeded(bench, {OLD: {}, MIDDLE: {}}, MIDDLE)
    access.append(key(1), [])
    assert not access.exists(key(1))
    assert access.get(key(1)) is None
    assert list(access.scan()) == []


def test_scans_give_whole_lists_in_order_also_backwards(bench):
    families = {
        OLD: {key(1): ["a", "b"], key(4): ["x"]},
        MIDDLE: {key(2): ["c", "d"]},
        NEW: {key(3): ["e", "f"]},
    }
    access = seeded(bench, families, NEW)
    expected = [
        (key(1), ["a+2", "b+2"]), (key(2), ["c+1", "d+1"]), (key(3), ["e", "f"]), (key(4), ["x+2"]),
    ]  # fmt: skip
    assert [(k, short(v)) for k, v in access.scan()] == expected
    backwards = [(k, short(v)) for k, v in access.scan(Span(reverse=True))]
    assert backwards == expected[::-1]
    within = access.scan(Span(key(2), key(4)))
    assert [(k, short(v)) for k, v in within] == expected[1:3]


def test_more_elements_than_a_byte_counts_stay_in_order(bench):
    many = [f"n{number}" for number in range(700)]
    access = seeded(bench, {OLD: {key(1): many}, MIDDLE: {}}, MIDDLE)
    access.append(key(1), texts(MIDDLE, "last"))
    assert short(access.get(key(1))) == [f"{text}+1" for text in many] + ["last"]


def test_one_element_that_does_not_migrate_keeps_the_whole_list_back(bench):
    access = seeded(bench, {OLD: {key(1): ["a", POISON, "b"]}, MIDDLE: {}}, MIDDLE)
    for use in (access.get, access.peek, lambda k: access.append(k, texts(MIDDLE, "c"))):
        with pytest.raises(TransformError, match=POISON):
            use(key(1))
        assert contents(bench, OLD) == {key(1): ["a", POISON, "b"]}
        assert contents(bench, MIDDLE) == {}
    assert access.counts.touched == 0


@pytest.mark.parametrize("use", ["put", "append"])
def test_elements_the_format_cannot_hold_write_nothing_of_the_list(bench, use):
    access = seeded(bench, {OLD: {}, MIDDLE: {key(1): ["a"]}}, MIDDLE)
    good, bad = note(MIDDLE, "b"), note(OLD, "of the old format")
    with pytest.raises(ValueMismatchError):
        getattr(access, use)(key(1), [good, bad])
    assert contents(bench, MIDDLE) == {key(1): ["a"]}
