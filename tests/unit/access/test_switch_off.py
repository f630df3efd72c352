"""Rule 11: a drained family leaves the read path as soon as it is known to be drained."""

from support.notes import FORMATS, MIDDLE, NEW, OLD, lineage, note

from statemigrate.access import DualAccess
from statemigrate.families import MemoryFamily, Source, Span


class WatchedFamily(MemoryFamily):
    """Counts how often it is asked for anything."""

    questions = 0

    def get(self, key):
        self.questions += 1
        return super().get(key)

    def contains(self, key):
        self.questions += 1
        return super().contains(key)

    def scan(self, span):
        self.questions += 1
        return super().scan(span)


def source(revision, keys, target=NEW):
    family = WatchedFamily(revision, revision, FORMATS[revision])
    for key in keys:
        family.entries[key] = note(revision, key.decode())
    return Source(family, lineage().path(revision, target))


def dual(*sources):
    return DualAccess("notes", MemoryFamily("new", NEW, FORMATS[NEW]), sources)


def use_everything(access):
    access.get(b"x")
    access.peek(b"x")
    access.exists(b"x")
    access.put(b"x", note(NEW, "x"))
    access.delete(b"x")
    list(access.scan())
    access.clear(Span())


def test_a_source_that_is_empty_at_the_start_is_never_asked():
    empty = source(OLD, [])
    access = dual(empty)
    assert access.sources == ()
    use_everything(access)
    assert empty.family.questions == 0


def test_a_source_is_not_asked_again_once_its_last_entry_is_gone():
    ways = {
        "get": lambda access, each: access.get(b"k"),
        "put": lambda access, each: access.put(b"k", note(NEW, "k")),
        "delete": lambda access, each: access.delete(b"k"),
        "clear": lambda access, each: access.clear(Span.prefix(b"k")),
        "backfill": lambda access, each: access.backfill(each, b"k", note(OLD, "k")),
    }
    for name, way in ways.items():
        only = source(OLD, [b"k"])
        access = dual(only)
        way(access, only)
        assert access.sources == (), name
        only.family.questions = 0
        use_everything(access)
        assert only.family.questions == 0, name


def test_one_of_two_sources_leaves_and_the_other_stays():
    middle, old = source(MIDDLE, [b"m"]), source(OLD, [b"o", b"p"])
    access = dual(middle, old)
    access.get(b"m")
    assert access.sources == (old,)
    access.get(b"o")
    assert access.sources == (old,)
    access.get(b"p")
    assert access.sources == ()
    assert sorted(access.target.entries) == [b"m", b"o", b"p"]


def test_a_key_in_two_sources_leaves_both():
    middle, old = source(MIDDLE, [b"k"]), source(OLD, [b"k"])
    access = dual(middle, old)
    assert access.get(b"k") == note(NEW, "k", ups=1)
    assert access.sources == ()
    assert middle.family.entries == old.family.entries == {}


def test_a_write_that_follows_a_migrating_read_asks_no_source():
    many = source(OLD, [b"a", b"b", b"c"])
    access = dual(many)
    access.get(b"a")
    many.family.questions = 0
    access.put(b"a", note(NEW, "again"))
    assert many.family.questions == 0
    access.put(b"b", note(NEW, "b"))
    assert sorted(many.family.entries) == [b"c"]
