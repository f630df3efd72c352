"""Rule 12: a transform that fails says where and why, and nothing is written in either family."""

import pickle

import pytest

from statemigrate.access import DualAccess, DualList
from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.families import MemoryFamily, MemoryListFamily, Source
from statemigrate.formats import Avro, Struct
from statemigrate.migration import Lineage, Migration

A, B, C = Struct("a BIGINT"), Struct("b BIGINT"), Struct("c STRING")


def broken(value):
    raise KeyError("price")


def forgets_to_return(value):
    value["b"] = value.pop("a")


def wrong_type(value):
    return {"b": str(value["a"])}


def too_much(value):
    return {"b": value["a"], "extra": 1}


CASES = {
    broken: ("raised", "KeyError: 'price'", KeyError),
    forgets_to_return: ("returned no dict", "None; is a `return` missing?", None),
    wrong_type: ("returned what the new format cannot hold", "'5'", ValueMismatchError),
    too_much: ("returned what the new format cannot hold", "'extra'", ValueMismatchError),
}
USES = {
    "get": lambda access, key: access.get(key),
    "peek": lambda access, key: access.peek(key),
    "scan": lambda access, key: list(access.scan()),
    "backfill": lambda access, key: access.backfill(
        access.sources[0], key, access.sources[0].family.get(key)
    ),
}


def lineage(upgrade):
    return Lineage.build("prices", [Migration("r1", None, "prices", A, B, upgrade, path="r1.py")])


def dual(upgrade, *, kind=MemoryFamily, make=DualAccess, value=None):
    old, new = kind("prices", "base", A), kind("prices@r1", "r1", B)
    old.put(b"\x2a", value or {"a": 5})
    old.put(b"\x2b", value or {"a": 6})
    source = Source(old, lineage(upgrade).path("base", "r1"))
    return make("prices", new, [source], show_key=lambda key: key[0])


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("upgrade", CASES)
def test_a_failing_transform_names_store_key_revisions_and_cause(upgrade, use):
    access = dual(upgrade)
    problem, found, cause = CASES[upgrade]
    with pytest.raises(TransformError) as raised:
        USES[use](access, b"\x2a")
    error = raised.value
    assert problem in error.summary
    assert "prices" in error.summary
    assert "key 42" in error.summary
    assert found in str(error.found)
    assert {name: error.data[name] for name in ("store", "key", "source", "target")} == {
        "store": "prices",
        "key": 42,
        "source": "base",
        "target": "r1",
    }
    assert error.next_action is not None
    assert cause is None or isinstance(error.__cause__, cause)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("upgrade", CASES)
def test_a_failing_transform_writes_nothing_in_either_family(upgrade, use):
    access = dual(upgrade)
    source = access.sources[0]
    with pytest.raises(TransformError):
        USES[use](access, b"\x2a")
    assert source.family.entries == {b"\x2a": {"a": 5}, b"\x2b": {"a": 6}}
    assert access.target.entries == {}
    assert (access.counts.touched, access.counts.backfilled) == (0, 0)
    assert access.sources == (source,)


def test_the_error_survives_the_way_from_a_worker():
    access = dual(broken)
    with pytest.raises(TransformError) as raised:
        access.get(b"\x2a")
    copy = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 - our own bytes
    assert str(copy) == str(raised.value)
    assert copy.data["key"] == 42


def test_a_step_in_the_middle_of_a_path_is_the_one_that_is_blamed():
    first = Migration("r1", None, "prices", A, B, wrong_type, path="r1.py")
    second = Migration("r2", "r1", "prices", B, C, lambda v: {"c": str(v["b"])}, path="r2.py")
    old, new = MemoryFamily("prices", "base", A), MemoryFamily("prices@r2", "r2", C)
    old.put(b"\x2a", {"a": 5})
    path = Lineage.build("prices", [first, second]).path("base", "r2")
    access = DualAccess("prices", new, [Source(old, path)], show_key=lambda key: key[0])
    with pytest.raises(TransformError, match=r"r1\.py") as raised:
        access.get(b"\x2a")
    assert (raised.value.data["source"], raised.value.data["target"]) == ("base", "r1")
    assert raised.value.data["key"] == 42
    assert new.entries == {}


def test_a_key_is_decoded_only_for_an_error():
    shown = []
    access = dual(lambda value: {"b": value["a"]})
    access._show_key = shown.append
    assert access.get(b"\x2a") == {"b": 5}
    assert shown == []


def test_a_list_fails_as_a_whole():
    def not_five(value):
        if value["a"] == 5:
            raise ValueError("five")
        return {"b": value["a"]}

    values = [{"a": 4}, {"a": 5}]
    access = dual(not_five, kind=MemoryListFamily, make=DualList, value=values)
    with pytest.raises(TransformError, match="42") as raised:
        access.append(b"\x2a", [{"b": 1}])
    assert isinstance(raised.value.__cause__, ValueError)
    assert access.target.entries == {}
    assert access.sources[0].family.entries[b"\x2a"] == values


def test_a_put_of_what_the_format_cannot_hold_leaves_the_old_value_alone():
    access = dual(lambda value: {"b": value["a"]})
    with pytest.raises(ValueMismatchError):
        access.put(b"\x2a", {"b": "text"})
    assert access.target.entries == {}
    assert access.sources[0].family.entries[b"\x2a"] == {"a": 5}


WITH_DEFAULT = Avro(
    {
        "type": "record",
        "name": "Price",
        "fields": [
            {"name": "b", "type": "double"},
            {"name": "currency", "type": "string", "default": "EUR"},
        ],
    }
)


@pytest.mark.parametrize("use", ["get", "peek"])
def test_a_value_reads_the_same_the_first_time_and_later(use):
    """A transform may leave a default out and give an integer for a double: reading may not."""
    old, new = MemoryFamily("prices", "base", A), MemoryFamily("prices@r1", "r1", WITH_DEFAULT)
    old.put(b"k", {"a": 5})
    migration = Migration("r1", None, "prices", A, WITH_DEFAULT, lambda v: {"b": v["a"]})
    path = Lineage.build("prices", [migration]).path("base", "r1")
    access = DualAccess("prices", new, [Source(old, path)])
    read = [repr(getattr(access, use)(b"k")) for _ in range(2)]
    assert read == [repr({"b": 5.0, "currency": "EUR"})] * 2
    assert [repr(value) for _, value in access.scan()] == read[:1]
