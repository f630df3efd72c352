"""What is expected of a preview, and what of a difference nobody has expected."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.errors import CodeError
from statemigrate.formats.masking import Mask
from statemigrate.preview.comparison import Same, compare_output, compare_rows, equal
from statemigrate.preview.expectations import Expectations
from statemigrate.preview.report import Preview, PreviewedBatch
from statemigrate.state import RowStream
from statemigrate.state.table_columns import TableColumns

NAN = float("nan")


def table(*rows):
    return pa.Table.from_pylist([dict(row) for row in rows])


def compared(old, new, expectations=None):
    return compared_by("k", old, new, expectations)


def compared_by(key, old, new, expectations=None):
    names = [[n for n in each.schema.names if n != key] for each in (old, new)]
    same = (expectations or Expectations()).same("sums")
    return compare_rows("sums", [key], RowStream.of(old), RowStream.of(new), *names, same)


OLD = table({"k": 1, "n": 10, "x": NAN}, {"k": 2, "n": 20, "x": 0.5}, {"k": 3, "n": 1, "x": 1.0})
NEW = table({"k": 1, "n": 10, "x": NAN}, {"k": 2, "n": 21, "x": 0.5}, {"k": 4, "n": 2, "x": 2.0})


def test_rows_are_paired_by_key_and_counted_by_field():
    found = compared(OLD, NEW)
    assert (found.added, found.missing, found.changed) == (1, 1, 1)
    assert found.fields == {"n": 1}
    assert {each.change for each in found.examples} == {"added", "missing", "changed"}
    assert not found.is_same
    assert compared(OLD, OLD).is_same


def test_null_is_not_zero_and_a_key_that_comes_twice_is_two_rows():
    zero, null = table({"k": 1, "n": 0}), table({"k": 1, "n": None})
    assert compared(zero, null.cast(zero.schema)).fields == {"n": 1}
    twice = table({"k": 1, "n": 0}, {"k": 1, "n": 0})
    assert compared(zero, twice).added == 1


def test_a_share_lets_numbers_differ_a_little():
    wanted = Expectations.of({"sums": {"n": {"within": 0.05}}})
    assert compared(OLD, NEW, wanted).changed == 0
    narrow = Expectations.of({"sums": {"n": {"within": 0.01}}})
    assert compared(OLD, NEW, narrow).fields == {"n": 1}


def unexpected(fields, old=OLD, new=NEW):
    wanted = Expectations.of({"sums": fields})
    return list(wanted.unexpected(compared(old, new, wanted)))


def test_what_is_not_named_is_not_expected():
    assert len(unexpected({})) == 3
    assert len(unexpected({"n": "changed"})) == 2
    assert unexpected({"n": "changed", "_rows": "changed"}) == []


def test_a_field_that_goes_is_unexpected_and_one_that_comes_is_not():
    less, more = OLD.drop_columns(["x"]), OLD.append_column("y", pa.array([1, 2, 3]))
    assert unexpected({}, new=less) == ["sums.x is gone"]
    assert unexpected({"x": "gone"}, new=less) == []
    assert unexpected({}, new=more) == []
    assert unexpected({"y": "new"}, new=OLD) == ["sums.y is not new"]
    assert unexpected({"x": "gone"}, new=OLD) == ["sums.x is not gone"]


def test_noise_is_not_compared_unless_it_is_to_be_exact():
    noise = frozenset({("sums", "n"), ("sums", "_rows")})
    found = compared(OLD, NEW)
    assert list(Expectations(noise=noise).unexpected(found)) == []
    exact = Expectations({"sums": {"n": "exact"}}, noise)
    assert len(list(exact.unexpected(found))) == 1


@pytest.mark.parametrize(
    "given",
    [{"a": "changed"}, {"a": {"b": "other"}}, {"a": {"b": {"within": -1}}}, {"a": {"b": 1}}],
)
def test_another_word_is_refused(given):
    with pytest.raises(CodeError) as raised:
        Expectations.of(given)
    assert raised.value.code == "SM-PREVIEW-010"


def test_output_without_a_column_of_the_keys_is_compared_as_whole_rows():
    found = compare_output(OLD, NEW, {"other"}, Expectations().same("output"))
    assert (found.added, found.missing, found.changed) == (2, 2, 0)
    found = compare_output(OLD, NEW, {"k"}, Expectations().same("output"))
    assert (found.added, found.missing, found.changed) == (1, 1, 1)


def previewed(difference, watermark=5):
    batch = PreviewedBatch(7, (difference,), None, 1.0, None, watermark, 5)
    return Preview("checkpoint", "m:f", None, 6, (batch,), "as it is")


def test_a_report_names_the_first_batch_and_another_watermark():
    found = previewed(compared(OLD, NEW), watermark=4)
    assert not found.is_expected
    assert all(each.startswith("batch 7: ") for each in found.unexpected)
    assert len(found.unexpected) == 4
    assert previewed(compared(OLD, OLD)).is_expected


def test_masked_columns_and_hidden_values_are_not_in_the_report(monkeypatch):
    found = previewed(compared(OLD, NEW))
    masked = found.masked(Mask.of(["n"])).to_json()["batches"][0]["stores"][0]["examples"]
    assert all(isinstance(each["after"]["n"], str) for each in masked if each["after"])
    monkeypatch.setenv("STATEMIGRATE_NO_VALUES", "1")
    hidden = found.masked(Mask.of([])).to_json()["batches"][0]["stores"][0]
    assert (hidden["examples"], hidden["fields"]) == ([], {"n": 1})


def rows_shown(found, *names, stores=None):
    """All rows of the examples, as text."""
    masked = previewed(found).masked(Mask.of(names), stores).to_json()["batches"][0]["stores"][0]
    return repr(masked["examples"])


def test_a_masked_field_is_hidden_in_a_column_of_another_name():
    columns = TableColumns(
        key={"type": "struct", "fields": [{"name": "email", "type": "string"}]},
        user_key=None,
        value={"type": "struct", "fields": [{"name": "email", "type": "string"}]},
        has_several=False,
        batch_id=0,
    )
    assert columns.value_names == ("value_email",)
    old, new = ([{"email": "k@key", "value_email": each}] for each in ("o@old", "n@new"))
    found = compared_by("email", table(*old), table(*new))
    own_names = {name: frozenset([own]) for name, own in columns.own_names.items()}
    shown = rows_shown(replace(found, own_names=own_names), "EMAIL")
    assert "@" not in shown
    assert "o@old" in rows_shown(found, "other")


def test_a_repeated_column_of_the_output_is_hidden_by_its_own_name():
    old, new = (table({"k": 1, "email": "a@one", "email_2": each}) for each in ("o@old", "n@new"))
    renamed = {"k": "k", "email": "email", "email_2": "email"}
    found = compare_output(old, new, {"k"}, Expectations().same("output"), (renamed, renamed))
    assert "@" not in rows_shown(found, "email")
    assert "a@one" in rows_shown(found, "output.n")


def test_a_mask_hides_a_stored_value_and_why_it_does_not_migrate():
    sides = [
        table({"k": 1, "n": None, "_error": f"{each} is wrong", "_stored": f'{{"c": "{each}"}}'})
        for each in ("o@old", "n@new")
    ]
    found = compared(*sides)
    assert "o@old" in rows_shown(found)
    assert "@" not in rows_shown(found, "c")


def test_a_name_with_its_store_hides_a_column_of_that_store_alone():
    old, new = ([{"k": 1, "n": {"to": [{"c": each}]}}] for each in ("o@old", "n@new"))
    found = compared(table(*old), table(*new))
    stores = {"sums": "aggregation-0"}
    for name in ("sums.n", "Sums.N.To.C", "aggregation-0.n.to", "c"):
        assert "@" not in rows_shown(found, name, stores=stores), name
    for name in ("others.n", "sums.c", "aggregation-0.c"):
        assert "o@old" in rows_shown(found, name, stores=stores), name


def held(expression, old, new):
    return Expectations.of({"sums": {"n": expression}}).same("sums")("n", old, new)


@pytest.mark.parametrize(
    ("expression", "old", "new"),
    [
        ("new == old * 2", 3, 6),
        ("abs(new - old) <= 0.01 * abs(old)", 100, 101),
        ("new is None and old == 0", 0, None),
        ("old in (1, 2) or new < 0", 2, 9),
        ("(new if new else 0) == old", 0, None),
        ("new['a'] == old + 1", 1, {"a": 2}),
        ("old <= new < old + 2", 1, 2),
        ("round(new / 3) != len(str(old))", 10, 30),
    ],
)
def test_an_expression_says_what_holds_of_both_values(expression, old, new):
    assert held(expression, old, new)
    assert not held(f"not ({expression})", old, new)


@pytest.mark.parametrize(("old", "new"), [(None, 1), (0, "a"), (0, None)])
def test_an_expression_that_fails_on_values_does_not_hold(old, new):
    assert not held("new / old > 0", old, new)
    assert not held("'x' * old == new", 10**12, new)


@pytest.mark.parametrize(
    "expression",
    [
        "exakt",
        "1 == 1",
        "old.__class__",
        "__import__('os')",
        "open('file')",
        "new ** old",
        "[x for x in old]",
        "(lambda: old)()",
        "old[new]",
        "f'{old}'",
        "new = old",
        "max(key=old)",
        "old @ new",
    ],
)
def test_what_is_no_harmless_expression_is_refused(expression):
    with pytest.raises(CodeError) as raised:
        Expectations.of({"sums": {"n": expression}})
    assert raised.value.code == "SM-PREVIEW-010"


@given(st.data())
def test_rows_left_out_by_columns_change_no_figure(data):
    """The same as a comparison that asks about every row, in tables that nobody chose."""
    values = st.sampled_from([None, 0, 1, 2]), st.sampled_from([0.0, -0.0, NAN, None, 1.5])
    rows = st.lists(
        st.fixed_dictionaries({"k": st.integers(0, 9), "n": values[0], "x": values[1]}),
        max_size=8,
        unique_by=lambda row: row["k"],
    )
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("x", pa.float64())])
    sides = [pa.Table.from_pylist(data.draw(rows), schema) for _ in range(2)]
    streams = [[RowStream.of(each) for each in sides] for _ in range(2)]
    fields = ["n", "x"]
    by_columns, one_by_one = (
        compare_rows("sums", ["k"], *pair, fields, fields, Same(equal.compare, asks_of_equal))
        for pair, asks_of_equal in zip(streams, (False, True), strict=True)
    )
    assert repr(by_columns) == repr(one_by_one)
    found = [compare_output(*sides, {"k"}, Same(equal.compare, asks)) for asks in (False, True)]
    assert repr(found[0]) == repr(found[1])


def test_what_is_equal_may_be_unexpected():
    wanted = Expectations.of({"sums": {"n": "new == old + 1"}})
    assert compared(OLD, OLD, wanted).fields == {"n": 3}
    assert compared(OLD, NEW, wanted).fields == {"n": 1}


def test_a_share_lets_a_number_without_a_value_and_an_infinite_one_stay():
    wanted = Expectations.of({"sums": {"x": {"within": 0.05}, "n": "new >= old"}})
    infinite = table({"k": 5, "n": 1, "x": float("inf")}, {"k": 6, "n": 1, "x": NAN})
    assert compared(infinite, infinite, wanted).is_same
