"""What changes in a processor from key to key is found, and what is harmless passes."""

from collections import Counter, deque
from functools import cached_property

import pytest

from statemigrate import ProcessorError
from statemigrate.processor.key_isolation import BetweenKeys

MANY = 1_000


class Kept:
    """Does something to itself for each key."""

    made = None

    def __init__(self, handle):
        object.__setattr__(self, "handle", handle)


class Counts(Kept):
    n = 0

    def serve(self, key):
        self.n += 1


class CountsFromInit(Kept):
    def __init__(self, handle):
        self.n = 0

    def serve(self, key):
        self.n += 1


class Remembers(Kept):
    def serve(self, key):
        self.n = (key, 1)


class Grows(Kept):
    kind = list

    def __init__(self, handle):
        self.n = self.kind()

    def serve(self, key):
        self.n.append(key)


class GrowsDeque(Grows):
    def __init__(self, handle):
        self.n = deque([0], maxlen=1)


class GrowsDict(Grows):
    kind = dict

    def serve(self, key):
        self.n[key] = True


class CountsInDict(Grows):
    def __init__(self, handle):
        self.n = Counter(keys=0)

    def serve(self, key):
        self.n["keys"] += 1


class GrowsALot(GrowsDict):
    def __init__(self, handle):
        self.n = dict.fromkeys(range(-MANY * 2, 0))


class Loses(Kept):
    def __init__(self, handle):
        self.n = 1

    def serve(self, key):
        vars(self).pop("n", None)


REFUSED = (
    Counts,
    CountsFromInit,
    Remembers,
    Grows,
    GrowsDeque,
    GrowsDict,
    CountsInDict,
    GrowsALot,
    Loses,
)


class Nothing(Kept):
    def serve(self, key):
        pass


class MadeAtFirstUse(Kept):
    def __init__(self, handle):
        self.pattern = None

    def serve(self, key):
        self.pattern = self.pattern or object()
        self.other = getattr(self, "other", None) or {1: 2}


class MadeLate(MadeAtFirstUse):
    def serve(self, key):
        if key == 3:
            super().serve(key)


class Cached(Kept):
    @cached_property
    def table(self):
        return {1: 2}

    def serve(self, key):
        assert self.table[1] == 2


class SetAgain(Kept):
    def __init__(self, handle):
        self.limit, self.place = 1_000_000, ("a", 1.5)

    def serve(self, key):
        self.limit, self.place = int("1000000"), ("".join(["a"]), float("1.5"))


class Compares(Kept):
    def __init__(self, handle):
        self.values = [Incomparable()]

    def serve(self, key):
        pass


class Incomparable:
    def __eq__(self, other):
        raise AssertionError("as NumPy's arrays have no truth")

    __hash__ = None


class SaidToChange(CountsFromInit):
    kept_between_keys = ("n", "not there")


class SaidInOneWord(GrowsDict):
    kept_between_keys = "n"


TAKEN = (
    Nothing,
    MadeAtFirstUse,
    MadeLate,
    Cached,
    SetAgain,
    Compares,
    SaidToChange,
    SaidInOneWord,
)


def served(kind, *visits):
    """What a task does with the keys of some visits; the keys that were served."""
    processor = kind(object())
    kept, seen = BetweenKeys(processor), []
    for keys in visits:
        for key in kept.watched(keys):
            processor.serve(key)
            seen.append(key)
    kept.check()
    return seen


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("visits", [[[1, 2, 3]], [[], [1], [2], [3, 4]]])
def test_what_goes_from_key_to_key_is_refused_by_its_name(kind, visits):
    with pytest.raises(ProcessorError) as caught:
        served(kind, *visits)
    assert caught.value.data == {"attributes": ["n"]}
    assert f"{kind.__name__} keeps something in itself" in str(caught.value)
    assert "kept_between_keys = ('n',)" in caught.value.next_action


@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.parametrize("visits", [[], [[]], [[1]], [[1, 2, 3]], [[], [1], [2], [3, 4]]])
def test_what_is_made_once_or_said_to_change_is_taken(kind, visits):
    assert served(kind, *visits) == [key for keys in visits for key in keys]


def test_an_attribute_of_init_is_refused_after_a_single_key_too():
    with pytest.raises(ProcessorError):
        served(CountsFromInit, [1])


def test_several_attributes_are_named_in_order():
    class Both(CountsFromInit):
        def serve(self, key):
            self.n, self.last, self.first = self.n + 1, key, "always"

    with pytest.raises(ProcessorError) as caught:
        served(Both, range(3))
    assert caught.value.data == {"attributes": ["last", "n"]}
    assert "('last', 'n')" in caught.value.next_action
