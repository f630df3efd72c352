"""Versions of a checkpoint copied with a mask and a sample, family by family."""

from __future__ import annotations

from contextlib import closing
from functools import cache

import pytest
from pyspark.sql.types import StructType

from statemigrate.deployment.stored import StoredFamily, StoredStore, complement_of
from statemigrate.embedded import hold
from statemigrate.embedded.changed_versions import contents_at
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.partition import PartitionPaths, opened
from statemigrate.embedded.versions import publish_manifest, read_manifest
from statemigrate.errors import UnsupportedError
from statemigrate.families import FORMAT
from statemigrate.files.open import open_files
from statemigrate.formats import Mask, Struct
from statemigrate.lenses import Complement, ScriptRemainder, carry
from statemigrate.preview.embedded_rows import EmbeddedStateRows, _SplitKeys
from statemigrate.preview.key_sample import KeySample
from statemigrate.preview.pseudonyms import Pseudonyms
from statemigrate.processor.keys import TupleKeyCodec

pytestmark = pytest.mark.long(weight=1 / 5)

KEY = Struct("email STRING, region INT").struct_type().jsonValue()
CODEC = TupleKeyCodec(StructType.fromJson(KEY))
PLACE = Struct("email STRING").struct_type()
PLACES = TupleKeyCodec(PLACE)
OLD = StoredFamily("owner", "base", Struct("n BIGINT, email STRING, note STRING"))
NEW = StoredFamily("owner@r1", "r1", Struct("n BIGINT, email STRING"))
LEFT = complement_of("owner")
CARDS = StoredFamily("cards", "base", Struct("email STRING"))
MAILS = StoredFamily("mails", "base", Struct("n BIGINT"))
STORES = {
    "owner": StoredStore("value", (NEW, OLD), {}, None, LEFT),
    "cards": StoredStore("list", (CARDS,)),
    "mails": StoredStore("map", (MAILS,), {}, PLACE.jsonValue()),
}
PARTITIONS, PEOPLE = 3, 60


def mail(person):
    return f"person{person}@mail.example"


def records(version):
    """By family the records of a version: those of every third key change."""
    found = {each.name: {} for each in (OLD, NEW, LEFT, CARDS, MAILS)}
    for person in range(PEOPLE - 5 * version):
        key = CODEC.encode((mail(person), person % 4))
        n = person + (version if person % 3 == 0 else 0)
        value = {"n": n, "email": mail(person), "note": mail(person).upper()}
        if person < 20 + 10 * version:
            made, left = carry(value, up, down, None)
            entry = ScriptRemainder("upgrade", "some formats", left)
            found[NEW.name][key] = NEW.format.encode(made)
            data = Complement({"r1": entry}).to_bytes()
            found[LEFT.name][key] = FORMAT.encode({"complement": data})
        else:
            found[OLD.name][key] = OLD.format.encode(value)
        for place in range(2 + version):
            element = CARDS.format.encode({"email": f"{place} {mail(person)}"})
            found[CARDS.name][key + place.to_bytes(8, "big")] = element
            other = key + PLACES.encode((mail(person + place),))
            found[MAILS.name][other] = MAILS.format.encode({"n": place})
    return found


def up(value):
    return {"n": value["n"], "email": value["email"]}


def down(value):
    return {**value, "note": None}


FAMILIES = {each.name: each for each in (OLD, NEW, LEFT, CARDS, MAILS)}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Three versions, in the middle of a migration that has left some values behind."""
    root = tmp_path_factory.mktemp("own")
    layout, files = Layout(root / "checkpoint"), open_files((root / "checkpoint").as_uri())
    states, before = [PartitionState()] * PARTITIONS, {name: {} for name in FAMILIES}
    files.put("metadata", b'{"id":"00000000-0000-0000-0000-000000000000"}')
    for version in range(3):
        after = records(version)
        for number in range(PARTITIONS):
            place = PartitionPaths(number, layout.partition(number), root / f"working-{number}")
            with opened(place, states[number], version) as partition:
                for name, family in FAMILIES.items():
                    target = partition.target(family, "value")
                    for key in {**before[name], **after[name]}:
                        if home(key) == number and before[name].get(key) != after[name].get(key):
                            target.put_encoded(key, after[name].get(key))
                partition.source(OLD, "value")
                for key in list(after[OLD.name])[::4]:
                    if home(key) == number:
                        partition.quarantine(OLD.name, key, f"no value for {CODEC.split(key)[0]}")
                states[number] = partition.commit(snapshot=version == 1)
        publish_manifest(layout, Manifest(version, KEY, tuple(states), STORES, {}))
        files.put(f"offsets/{version}", b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0}\n0')
        files.put(f"commits/{version}", b'v1\n{"nextBatchWatermarkMs":0}')
        before = after
    return files


@cache
def home(key):
    manifest = Manifest(0, KEY, (), {}, {})
    return int(_SplitKeys.of(manifest, [key]).partitions(PARTITIONS)[0])


def copied(checkpoint, tmp_path, names=(), sample=None):
    rows = EmbeddedStateRows(Pseudonyms(Mask.of(names)), sample)
    new = tmp_path / "new"
    (tmp_path / "scratch").mkdir()
    rows.copy(checkpoint, new, [0, 1, 2], tmp_path / "scratch")
    return open_files(new.as_uri())


def held(files, version):
    """By family all records, after what each manifest says was compared with them."""
    found = {name: {} for name in FAMILIES}
    marks = []
    with closing(hold(Layout.over(files), batch=version)) as opened_version:
        for number, state in enumerate(opened_version.manifest.partitions):
            with opened_version.partition(number) as partition:
                assert (state.contents or {}) == partition.contents()
                for name in FAMILIES:
                    own = dict(partition.records(name))
                    assert {home(key) for key in own} <= {number}, name
                    found[name] |= own
                own = list(partition.quarantined(OLD.name))
                assert {key for key, _ in own} <= found[OLD.name].keys()
                assert len(own) == state.quarantined.get(OLD.name, 0)
                marks += own
    return found, marks


@pytest.mark.parametrize("names", [["email", "note"], ["email", "note", "n"]])
def test_every_family_of_every_version_is_masked(checkpoint, tmp_path, names):
    made = copied(checkpoint, tmp_path, names)
    for version in range(3):
        own, own_marks = held(checkpoint, version)
        found, marks = held(made, version)
        assert {name: len(each) for name, each in found.items()} == {
            name: len(each) for name, each in own.items()
        }
        assert all(own[name] for name in FAMILIES)
        for name, each in found.items():
            for key, data in each.items():
                assert b"person" not in (key + data).lower(), name
        assert len(marks) == len(own_marks) > 1
        assert {cause for _, cause in marks} == {"left out, since values of the bundle are masked"}
        before = read_manifest(Layout.over(checkpoint), version)
        after = read_manifest(Layout.over(made), version)
        assert after.left(OLD.name) == before.left(OLD.name)
        # Equal addresses have equal pseudonyms in each family: a value has that of its key.
        for family in (NEW, OLD):
            for key, data in found[family.name].items():
                assert family.format.decode(data)["email"] == CODEC.decode(key)[0]
        elements = {key[:-8] for key in found[CARDS.name]}
        assert elements == {*found[NEW.name], *found[OLD.name]}
        pairs = {CODEC.split(key) for key in found[MAILS.name]}
        assert any(PLACES.decode(rest)[0] == key[0] for key, rest in pairs)
        for key, data in found[LEFT.name].items():
            left = Complement.from_bytes(FORMAT.decode(data)["complement"]).entries["r1"].remainder
            value, _ = carry(NEW.format.decode(found[NEW.name][key]), down, up, left)
            assert value["note"] is not None, "what was left out comes back"
            assert "PERSON" not in value["note"]


def test_a_version_has_what_changed_since_the_one_before(checkpoint, tmp_path):
    made = copied(checkpoint, tmp_path, ["email", "note"])
    states = [read_manifest(Layout.over(made), version).partitions for version in range(3)]
    for number in range(PARTITIONS):
        sizes = [
            sum(each.file.size for each in states[2][number].changelogs[:n]) for n in (1, 2, 3)
        ]
        assert states[2][number].changelogs[:1] == states[0][number].changelogs
        assert sizes[2] - sizes[1] < 2 * sizes[0]


def test_a_sample_has_each_record_of_its_keys_and_no_other(checkpoint, tmp_path):
    sample = KeySample(0.5, ("email",))
    made = copied(checkpoint, tmp_path, sample=sample)
    for version in range(3):
        own, own_marks = held(checkpoint, version)
        found, marks = held(made, version)
        for name, each in own.items():
            assert found[name] == {key: data for key, data in each.items() if chosen(sample, key)}
            assert 0 < len(found[name]) < len(each)
        assert sorted(marks) == sorted(each for each in own_marks if chosen(sample, each[0]))


@cache
def chosen(sample, key):
    manifest = Manifest(0, KEY, (), {}, {})
    return sample.chosen({"email": _SplitKeys.of(manifest, [key]).column("email")})[0].as_py()


def test_keys_without_room_for_pseudonyms_are_refused(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(Mask, "hashed", lambda self, value: value and value[:7])
    with pytest.raises(UnsupportedError) as raised:
        copied(checkpoint, tmp_path, ["email", "note"])
    assert raised.value.code == "SM-EMBEDDED-034"


def test_records_of_no_store_are_refused(checkpoint, tmp_path, monkeypatch):
    some = {name: each for name, each in STORES.items() if name != "mails"}

    def without(self):
        found = places(self)
        return {name: each for name, each in found.items() if each.store in some}

    from statemigrate.embedded.changed_versions import _CopiedVersion

    places = _CopiedVersion._families
    monkeypatch.setattr(_CopiedVersion, "_families", without)
    with pytest.raises(UnsupportedError) as raised:
        copied(checkpoint, tmp_path, ["email", "note"])
    assert (raised.value.code, raised.value.data["family"]) == ("SM-EMBEDDED-035", "mails")


def test_the_same_records_make_the_same_contents_without_a_mask(checkpoint, tmp_path):
    made = copied(checkpoint, tmp_path, ["no such name"])
    for version in range(3):
        assert contents_at(made, version) == contents_at(checkpoint, version)
