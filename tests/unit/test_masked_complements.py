"""Complements with pseudonyms: what a script has left out comes back as the pseudonym of it."""

from __future__ import annotations

import pytest

from statemigrate.deployment import StoredFamily
from statemigrate.errors import UnsupportedError
from statemigrate.families import FORMAT
from statemigrate.formats import Mask, Struct
from statemigrate.formats.arrow_values import plain_values
from statemigrate.lenses import Complement, ScriptRemainder, carry
from statemigrate.preview.embedded_rows import _masked_values
from statemigrate.preview.masked_complements import ComplementMask, texts_of
from statemigrate.preview.pseudonyms import Pseudonyms

OLD = Struct("n BIGINT, email STRING, card BIGINT, notes MAP<STRING, STRING>, data BINARY")
NEW = Struct("n BIGINT, email STRING")
VALUE = {
    "n": 2, "email": "a@mail.example", "card": 4_000_000_007_919,
    "notes": {"b@mail.example": "c@mail.example"}, "data": b"d@mail.example",
}  # fmt: skip


def up(value):
    return {"n": value["n"], "email": value["email"]}


def down(value):
    return {**value, "card": 0, "notes": None, "data": None}


def failing(value):
    raise ValueError(value)


def stored(value, back=down, formats=None):
    """A value after a script, with the bytes of its complement."""
    made, left = carry(value, up, back, None)
    known = formats or " ".join(sorted(each.fingerprint[:8] for each in (OLD, NEW)))
    entry = ScriptRemainder("upgrade", known, left)
    data = Complement({"aaaa11112222": entry}).to_bytes()
    return made, FORMAT.encode({"complement": data})


def masking(names, families=(OLD, NEW)):
    pseudonyms = Pseudonyms(Mask.of(names))
    every = [StoredFamily(f"person{n}", str(n), each) for n, each in enumerate(families)]
    return ComplementMask("person", every, pseudonyms), pseudonyms


def masked(value, fmt, pseudonyms):
    (data,) = _masked_values("person", fmt, [fmt.encode(value)], pseudonyms)
    return fmt.decode(data)


NAMES = ["email", "card", "notes", "data"]


@pytest.mark.parametrize("back", [down, failing])
@pytest.mark.parametrize("names", [NAMES, ["card"], ["person.notes"], ["email"]])
def test_what_comes_back_is_the_masked_value(names, back):
    made, data = stored(VALUE, back)
    mask, pseudonyms = masking(names)
    hidden = masked(made, NEW, pseudonyms)
    found = Complement.from_bytes(
        FORMAT.decode(mask.masked(data, [made, hidden]))["complement"]
    ).entries["aaaa11112222"]
    back_again, _ = carry(hidden, down, up, found.remainder)
    wanted = masked(VALUE, OLD, pseudonyms)
    assert back_again == wanted
    assert wanted != VALUE


def test_no_text_of_a_masked_field_is_left():
    made, data = stored(VALUE)
    mask, pseudonyms = masking(NAMES)
    found = mask.masked(data, [made, masked(made, NEW, pseudonyms)])
    assert any(b"@mail" in each for each in texts_of(data))
    assert not any(b"@mail" in each for each in texts_of(found))
    assert str(VALUE["card"]).encode() in data
    assert str(VALUE["card"]).encode() not in found
    assert pseudonyms.places == {
        "person.email", "person.card", "person.notes.key", "person.notes.value",
        "person.data",
    }  # fmt: skip


def test_the_hash_of_a_value_that_was_written_since_fits_nothing():
    made, data = stored(VALUE)
    mask, pseudonyms = masking(["email"])
    since = {**made, "n": 3}
    one = mask.masked(data, [since, masked(since, NEW, pseudonyms)])
    assert one != data
    entry = Complement.from_bytes(FORMAT.decode(one)["complement"]).entries["aaaa11112222"]
    before = Complement.from_bytes(FORMAT.decode(data)["complement"]).entries["aaaa11112222"]
    assert entry.remainder.of != before.remainder.of
    assert entry.remainder.difference == before.remainder.difference


def test_a_complement_without_masked_fields_stays_as_it_is():
    made, data = stored(VALUE)
    mask, _ = masking(["other"])
    assert mask.masked(data, [made, made]) == data


@pytest.mark.parametrize(
    ("names", "back", "families"),
    [
        (["card"], down, (NEW,)),
        (["email"], lambda value: {**down(value), "email": value["email"].upper()}, (OLD, NEW)),
        (["notes"], down, (NEW,)),
    ],
    ids=["a number of a format that is gone", "a hash of what a script made", "a map or a struct"],
)
def test_what_cannot_be_masked_is_named(names, back, families):
    made, data = stored(VALUE, back)
    mask, pseudonyms = masking(names, families)
    with pytest.raises(UnsupportedError) as raised:
        mask.masked(data, [made, masked(made, NEW, pseudonyms)])
    assert raised.value.code == "SM-PREVIEW-037"
    assert raised.value.data["column"] == f"person.{names[0]}"


def number(value):
    return {"n": value["n"]}


def without_email(value):
    return {**value, "email": ""}


def through_two_scripts(back):
    """A value after a second script, and the bytes of the complement that both have left."""
    value, data = stored(VALUE, back)
    entries = Complement.from_bytes(FORMAT.decode(data)["complement"]).entries
    made, left = carry(value, number, without_email, None)
    entry = ScriptRemainder("upgrade", entries["aaaa11112222"].formats, left)
    both = Complement({**entries, "bbbb11112222": entry})
    return made, FORMAT.encode({"complement": both.to_bytes()})


def test_a_value_that_went_through_two_scripts_comes_back_masked():
    made, data = through_two_scripts(down)
    mask, pseudonyms = masking(["email"])
    found = Complement.from_bytes(FORMAT.decode(mask.masked(data, [made, made]))["complement"])
    lefts = {revision: entry.remainder for revision, entry in found.entries.items()}
    middle, _ = carry(made, without_email, number, lefts["bbbb11112222"])
    back, _ = carry(middle, down, up, lefts["aaaa11112222"])
    assert back == masked(VALUE, OLD, pseudonyms) != VALUE


def test_a_whole_value_that_the_first_of_two_scripts_left_out_cannot_be_masked():
    made, data = through_two_scripts(failing)
    mask, _ = masking(["email"])
    with pytest.raises(UnsupportedError) as raised:
        mask.masked(data, [made, made])
    assert (raised.value.code, raised.value.data["store"]) == ("SM-PREVIEW-037", "person")


def test_pseudonyms_of_values_are_those_of_columns():
    _, pseudonyms = masking(NAMES)
    value = masked(VALUE, OLD, pseudonyms)
    from statemigrate.preview.embedded_rows import _value_array

    array = pseudonyms.replaced(_value_array(OLD, [VALUE]), "person")
    assert plain_values(array) == [value]
