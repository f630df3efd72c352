"""Map state follows the rules per user key: a map is the range of its grouping key."""

from pyspark.sql.types import IntegerType, StringType, StructField, StructType
from support.benches import Batch
from support.notes import MIDDLE, OLD
from support.shorthand import long, short

from statemigrate.families import Span
from statemigrate.processor.keys import TupleKeyCodec

GROUPS = TupleKeyCodec(StructType([StructField("group", StringType())]))
USERS = TupleKeyCodec(StructType([StructField("user", IntegerType())]))


def entry(group, user):
    return GROUPS.encode((group,)) + USERS.encode((user,))


def whole(group):
    return Span.prefix(GROUPS.encode((group,)))


def opened(bench, families):
    for revision, texts in families.items():
        values = {entry(*place): long(revision, text) for place, text in texts.items()}
        bench.seed("maps", revision, values)
    bench.open(Batch(MIDDLE, {"maps": frozenset({OLD, MIDDLE})}))
    return bench.accesses["maps"]


def contents(bench, revision):
    found = {}
    for data, value in bench.contents("maps", revision).items():
        (group,), rest = GROUPS.split(data)
        found[(group, *USERS.decode(rest))] = short(value)
    return found


FAMILIES = {
    OLD: {("a", -1): "a1", ("a", 7): "a7", ("a\x00b", 1): "n1", ("ab", 1): "p1"},
    MIDDLE: {("a", 2): "a2", ("", 3): "e3"},
}


def test_a_read_migrates_its_user_key_alone(bench):
    access = opened(bench, FAMILIES)
    assert short(access.get(entry("a", 7))) == "a7+1"
    assert contents(bench, MIDDLE) == {("a", 2): "a2", ("", 3): "e3", ("a", 7): "a7+1"}
    assert contents(bench, OLD) == {("a", -1): "a1", ("a\x00b", 1): "n1", ("ab", 1): "p1"}


def test_iterating_a_map_gives_its_entries_and_no_other_maps(bench):
    access = opened(bench, FAMILIES)
    found = [(data, short(value)) for data, value in access.scan(whole("a"))]
    assert found == [
        (entry("a", -1), "a1+1"), (entry("a", 2), "a2"), (entry("a", 7), "a7+1"),
    ]  # fmt: skip
    assert list(access.scan(whole("b"))) == []
    assert [short(value) for _, value in access.scan(whole(""))] == ["e3"]


def test_clearing_a_map_clears_it_in_every_family_and_no_other_map(bench):
    access = opened(bench, FAMILIES)
    access.clear(whole("a"))
    assert contents(bench, MIDDLE) == {("", 3): "e3"}
    assert contents(bench, OLD) == {("a\x00b", 1): "n1", ("ab", 1): "p1"}
    assert [source.family.revision for source in access.sources] == [OLD]
    access.clear(whole("ab"))
    access.clear(whole("a\x00b"))
    assert contents(bench, OLD) == {}
    assert access.sources == ()


def test_a_value_written_after_a_clear_is_the_only_one(bench):
    access = opened(bench, FAMILIES)
    access.clear(whole("a"))
    access.put(entry("a", 7), long(MIDDLE, "fresh"))
    assert [short(value) for _, value in access.scan(whole("a"))] == ["fresh"]
    assert not access.exists(entry("a", -1))
