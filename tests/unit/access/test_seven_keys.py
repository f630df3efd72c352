"""The seven-key oracle: one script of operations, both families looked at after every step.

Keys 1 to 3 are in the old family only, 4 and 5 in the new one only, 6 is in both, 7 in none.
"""

from itertools import islice

import pytest
from support.benches import Batch
from support.notes import FIELDS, MIDDLE, NEW, OLD
from support.shorthand import entries, key, long, short

from statemigrate.families import Span

AT_FIRST = {1: "one", 2: "two", 3: "three", 6: "stale"}
AT_LAST = {4: "four", 5: "five", 6: "six"}


class Script:
    """Runs steps on the store `notes` and compares every family after each of them."""

    def __init__(self, bench, families, target, *, write_on_read=True):
        for revision, texts in families.items():
            bench.seed("notes", revision, entries(revision, texts))
        live = {"notes": frozenset(families)}
        bench.open(Batch(target, live, write_on_read))
        self.bench, self.target = bench, target
        self.access = bench.accesses["notes"]
        self.expected = {each: dict(texts) for each, texts in families.items()}
        self.check()

    def check(self):
        for revision, texts in self.expected.items():
            assert self.bench.contents("notes", revision) == entries(revision, texts), revision

    def now(self, changes):
        """The families after a step: by revision, by key, the new text or None."""
        for revision, texts in changes.items():
            for number, text in texts.items():
                if text is None:
                    del self.expected[revision][number]
                else:
                    self.expected[revision][number] = text
        self.check()

    def get(self, number, result, **changes):
        value = self.access.get(key(number))
        assert short(value) == result
        assert value is None or FIELDS[self.target] in value
        self.now(changes)

    def peek(self, number, result):
        assert short(self.access.peek(key(number))) == result
        self.check()

    def exists(self, number, result):
        assert self.access.exists(key(number)) is result
        self.check()

    def put(self, number, text, **changes):
        self.access.put(key(number), long(self.target, text))
        self.now(changes)

    def put_if_absent(self, number, text, **changes):
        if not self.access.exists(key(number)):
            self.access.put(key(number), long(self.target, text))
        self.now(changes)

    def delete(self, number, **changes):
        self.access.delete(key(number))
        self.now(changes)

    def scan(self, result, span=None):
        found = [(name, short(value)) for name, value in self.access.scan(span)]
        assert found == [(key(number), text) for number, text in result]
        self.check()


def reverse(pairs):
    return list(reversed(pairs))


def scan_all_ways(script, pairs):
    """The same entries by every kind of scan."""
    script.scan(pairs)
    script.scan(reverse(pairs), Span(reverse=True))
    middle = [pair for pair in pairs if 2 <= pair[0] < 6]
    script.scan(middle, Span(key(2), key(6)))
    script.scan(reverse(middle), Span(key(2), key(6), reverse=True))
    script.scan(pairs, Span.prefix(b"key-"))
    script.scan(reverse(pairs), Span.prefix(b"key-", reverse=True))
    script.scan([pair for pair in pairs if pair[0] == 3], Span.prefix(b"key-3"))
    script.scan([], Span.prefix(b"kez"))


def test_seven_keys_over_an_old_and_a_new_family(bench):
    script = Script(bench, {OLD: AT_FIRST, MIDDLE: AT_LAST}, MIDDLE)
    merged = [(1, "one+1"), (2, "two+1"), (3, "three+1"), (4, "four"), (5, "five"), (6, "six")]

    script.peek(1, "one+1")
    script.peek(4, "four")
    script.peek(6, "six")
    script.peek(7, None)
    script.exists(1, True)
    script.exists(4, True)
    script.exists(7, False)
    scan_all_ways(script, merged)

    script.get(7, None)
    script.get(4, "four")
    script.get(6, "six")
    script.get(1, "one+1", base={1: None}, r1={1: "one+1"})
    script.get(1, "one+1")
    script.peek(1, "one+1")
    scan_all_ways(script, merged)

    script.put(2, "dos", base={2: None}, r1={2: "dos"})
    script.get(2, "dos")
    script.put(4, "cuatro", r1={4: "cuatro"})
    script.put(6, "seis", base={6: None}, r1={6: "seis"})
    script.put_if_absent(3, "tres")
    script.put_if_absent(5, "cinco")
    script.put_if_absent(7, "siete", r1={7: "siete"})
    script.put_if_absent(7, "again")
    now = [(1, "one+1"), (2, "dos"), (3, "three+1"), (4, "cuatro"), (5, "five")]
    scan_all_ways(script, [*now, (6, "seis"), (7, "siete")])

    assert len(script.access.sources) == 1
    script.delete(3, base={3: None})
    assert script.access.sources == ()
    script.get(3, None)
    script.exists(3, False)
    script.delete(5, r1={5: None})
    script.delete(5)
    script.put(3, "tres", r1={3: "tres"})
    now = [(1, "one+1"), (2, "dos"), (3, "tres"), (4, "cuatro"), (6, "seis"), (7, "siete")]
    scan_all_ways(script, now)
    bench.commit()


def test_a_put_after_a_read_removes_the_old_value_of_a_key_in_both_families(bench):
    script = Script(bench, {OLD: AT_FIRST, MIDDLE: AT_LAST}, MIDDLE)
    script.get(6, "six")
    script.put(6, "seis", base={6: None}, r1={6: "seis"})


def test_a_delete_after_a_read_removes_a_key_in_both_families_from_both(bench):
    script = Script(bench, {OLD: AT_FIRST, MIDDLE: AT_LAST}, MIDDLE)
    script.get(6, "six")
    script.delete(6, base={6: None}, r1={6: None})
    script.get(6, None)
    script.exists(6, False)


def test_reads_write_nothing_when_told_not_to(bench):
    families = {OLD: AT_FIRST, MIDDLE: AT_LAST}
    script = Script(bench, families, MIDDLE, write_on_read=False)
    for _ in range(2):
        script.get(1, "one+1")
        script.get(6, "six")
        script.get(7, None)
    assert script.access.counts.touched == 0
    script.put_if_absent(1, "uno")
    script.get(2, "two+1")
    script.put(2, "dos", base={2: None}, r1={2: "dos"})
    script.get(3, "three+1")
    script.delete(3, base={3: None})
    script.get(1, "one+1")
    script.put(1, "uno", base={1: None}, r1={1: "uno"})
    script.put(6, "seis", base={6: None}, r1={6: "seis"})
    assert script.access.sources == ()


def test_seven_keys_over_a_chain_of_three_revisions(bench):
    families = {
        OLD: {1: "one", 2: "two", 6: "stalest"},
        MIDDLE: {3: "three", 4: "four", 6: "stale"},
        NEW: {5: "five"},
    }
    script = Script(bench, families, NEW)
    assert [source.family.revision for source in script.access.sources] == [MIDDLE, OLD]
    merged = [(1, "one+2"), (2, "two+2"), (3, "three+1"), (4, "four+1"), (5, "five")]
    scan_all_ways(script, [*merged, (6, "stale+1")])

    script.peek(6, "stale+1")
    script.get(1, "one+2", base={1: None}, r2={1: "one+2"})
    script.get(3, "three+1", r1={3: None}, r2={3: "three+1"})
    script.get(6, "stale+1", base={6: None}, r1={6: None}, r2={6: "stale+1"})
    script.put(4, "cuatro", r1={4: None}, r2={4: "cuatro"})
    assert [source.family.revision for source in script.access.sources] == [OLD]
    script.put_if_absent(2, "dos")
    script.delete(2, base={2: None})
    assert script.access.sources == ()
    script.put_if_absent(2, "dos", r2={2: "dos"})
    last = [(1, "one+2"), (2, "dos"), (3, "three+1"), (4, "cuatro"), (5, "five"), (6, "stale+1")]
    scan_all_ways(script, last)


def test_seven_keys_on_the_way_back_to_an_older_revision(bench):
    """The families of the script above, but the code is the old one again."""
    script = Script(bench, {MIDDLE: {1: "one+1", 2: "two", 6: "new"}, OLD: {4: "four"}}, OLD)
    scan_all_ways(script, [(1, "one+1-1"), (2, "two-1"), (4, "four"), (6, "new-1")])
    script.get(1, "one+1-1", r1={1: None}, base={1: "one+1-1"})
    script.get(4, "four")
    script.get(7, None)
    script.put(2, "dos", r1={2: None}, base={2: "dos"})
    script.delete(6, r1={6: None})
    assert script.access.sources == ()
    script.get(1, "one+1-1")


@pytest.mark.parametrize("direction", [OLD, NEW])
def test_a_source_in_the_middle_is_carried_either_way(bench, direction):
    script = Script(bench, {MIDDLE: {1: "one"}, direction: {}}, direction)
    step = "+1" if direction == NEW else "-1"
    script.get(1, f"one{step}", **{MIDDLE: {1: None}, direction: {1: f"one{step}"}})


def test_iterators_do_not_migrate_and_do_not_see_what_is_written_later(bench):
    script = Script(bench, {OLD: AT_FIRST, MIDDLE: AT_LAST}, MIDDLE)
    running = script.access.scan()
    backwards = script.access.scan(Span(reverse=True))
    begun = [short(value) for _, value in islice(running, 2)]
    script.get(3, "three+1", base={3: None}, r1={3: "three+1"})
    script.put(7, "seven", r1={7: "seven"})
    script.delete(5, r1={5: None})
    everything = ["one+1", "two+1", "three+1", "four", "five", "six"]
    assert begun + [short(value) for _, value in running] == everything
    assert [short(value) for _, value in backwards] == everything[::-1]
    script.check()


def test_what_a_newer_value_hides_need_not_be_transformable(bench):
    families = {OLD: {1: "one", 6: "poison"}, MIDDLE: {6: "six"}}
    script = Script(bench, families, MIDDLE)
    script.scan([(1, "one+1"), (6, "six")])
    script.get(6, "six")


def test_a_value_that_the_caller_changes_is_not_changed_in_the_store(bench):
    script = Script(bench, {OLD: {1: "one"}, MIDDLE: {4: "four"}}, MIDDLE)
    for number in (4, 1, 1):
        script.access.peek(key(number))["ups"] = 99
    script.check()
    written = long(MIDDLE, "seven")
    script.access.put(key(7), written)
    written["ups"] = 99
    script.now({MIDDLE: {7: "seven"}})
    script.access.get(key(1))["ups"] = 99
    script.now({OLD: {1: None}, MIDDLE: {1: "one+1"}})
