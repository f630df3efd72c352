"""Bundles of the embedded engine's state without what may not leave production."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import embedded_life
import masked_embedded_code as code
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from embedded_life import EmbeddedLife, replayed_contents
from previewed_query import fields, named
from pyspark.sql.types import StructType

from statemigrate import BackfillOptions, init, open_state
from statemigrate.checkpoint.rows import arrow_schema, partition_of
from statemigrate.embedded import hold
from statemigrate.embedded.changed_versions import contents_at
from statemigrate.embedded.changelog import read_changelog
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.versions import read_manifest
from statemigrate.errors import StatemigrateError
from statemigrate.files.open import open_files
from statemigrate.formats.arrow_values import plain_rows
from statemigrate.preview.bundle import open_bundle
from statemigrate.preview.key_sample import KeySample
from statemigrate.processor.keys import TupleKeyCodec

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
SECRETS = (
    b"person", b"friend", b"@mail", *(b"%d" % (4_000_000_000_000 + 7919 * n) for n in range(200)),
)  # fmt: skip
ENCODED = tuple((4_000_000_000_000 + 7919 * n + (1 << 63)).to_bytes(8, "big") for n in range(200))
"""The cards as keys have them."""


@pytest.fixture(scope="module", autouse=True)
def schema():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded_life, "SCHEMA", code.SCHEMA)
        yield


def life(spark, folder, function, rows=None):
    code.CHECKPOINT = str(folder / "checkpoint")
    return OrdersLife(
        spark, folder, function, rows=rows or [list(code.orders(n)) for n in range(5)]
    )


class OrdersLife(EmbeddedLife):
    """A query over orders."""

    def preview(self, *given, **options):
        return super(EmbeddedLife, self).preview(*given, **options)


@pytest.fixture(scope="module")
def query(spark, tmp_path_factory):
    return life(spark, tmp_path_factory.mktemp("seen"), code.seen)


@pytest.fixture(autouse=True)
def deployed(request, monkeypatch):
    if "query" in request.fixturenames:
        query = request.getfixturevalue("query")
        monkeypatch.setattr(code, "CHECKPOINT", str(query.checkpoint))


@pytest.fixture(scope="module")
def masked(query, tmp_path_factory):
    place = tmp_path_factory.mktemp("bundles") / "bundle"
    query.save(place, mask=["email", "card", "places.emails"])
    return place


def versions_in(place: Path):
    manifest = json.loads((place / "manifest.json").read_bytes())["body"]
    return [manifest["before"], *manifest["batches"]]


def everything(bundle: Path):
    """All that can be read in a bundle, as bytes: its files, and what is packed in them."""
    for file in bundle.rglob("*"):
        if file.is_file():
            yield file.read_bytes()
    for file in (bundle / "inputs").rglob("*.parquet"):
        yield repr(pq.read_table(file).to_pylist()).encode()
    layout = Layout(bundle / "checkpoint")
    for version in versions_in(bundle):
        for number, state in enumerate(read_manifest(layout, version).partitions):
            assert state.snapshot is None, "a snapshot would be more to look into"
            for each in state.all_changelogs:
                path = layout.partition(number) / each.file.name
                for record in read_changelog(path, each.file):
                    yield repr(record).encode()
                    yield b" ".join(part for part in record[1:] if part)
        yield from decoded(layout, version)


def decoded(layout, version):
    """Every value and the columns of every key, as text."""
    with closing(hold(layout, batch=version)) as held:
        codec = TupleKeyCodec(StructType.fromJson(held.manifest.key_schema))
        for number in range(len(held.manifest.partitions)):
            with held.partition(number) as partition:
                for stored in held.manifest.stores.values():
                    for family in stored.every_family:
                        for key, data in partition.records(family.name):
                            found = codec.split(key), family.format.decode(data)
                            yield repr(found).encode()


def check_masked(bundle):
    found = list(everything(bundle))
    assert len(found) > 100
    whole = b"\n".join(found)
    for secret in (*SECRETS, *ENCODED):
        assert secret not in whole, secret


def check_whole(bundle):
    """Each version's manifest says what its records are, and each key is where it is looked for."""
    files = open_files(str(bundle / "checkpoint"))
    layout = Layout.over(files)
    for version in versions_in(bundle):
        manifest = read_manifest(layout, version)
        key = arrow_schema(manifest.key_schema)
        codec = TupleKeyCodec(StructType.fromJson(manifest.key_schema))
        with closing(hold(layout, batch=version)) as held:
            for number, state in enumerate(manifest.partitions):
                with held.partition(number) as partition:
                    check_partition(partition, state, manifest, key, codec, number)


def check_partition(partition, state, manifest, key, codec, number):
    assert (state.contents or {}) == partition.contents()
    names = [each.name for stored in manifest.stores.values() for each in stored.every_family]
    marks = {name: [mark for mark, _ in partition.quarantined(name)] for name in names}
    assert {name: len(found) for name, found in marks.items() if found} == state.quarantined
    for name in names:
        records = dict(partition.records(name))
        assert {*marks[name]} <= records.keys()
        keys = [codec.split(each)[0] for each in records]
        columns = [
            pa.array([each[at] for each in keys], field.type) for at, field in enumerate(key)
        ]
        assert {*partition_of(columns, len(manifest.partitions)).tolist()} <= {number}


def test_no_masked_value_is_anywhere_in_the_bundle(masked):
    check_masked(masked)


def test_the_copies_are_whole_versions_whose_keys_are_where_the_engine_looks_for_them(masked):
    check_whole(masked)


def test_the_bundle_has_as_many_rows_as_the_query_and_the_masked_fields_are_listed(query, masked):
    found = open_bundle(masked)
    assert found.batches == (2, 3, 4)
    for batch in (1, 2, 3, 4):
        own, copied = query.contents(batch), contents_at(found.files, batch)
        assert {name: each.records for name, each in own.items()} == {
            name: each.records for name, each in copied.items()
        }
    assert {*found.masked} >= {
        "source 0.email", "source 0.card", "source 0.to.email", "total.email", "total.last.email",
        "cards.email", "cards.card", "places.email", "places.emails.key", "places.emails.value",
    }  # fmt: skip


def test_the_old_code_leaves_the_same_bytes_and_a_fault_is_found(query, masked, monkeypatch):
    made = replayed_contents(monkeypatch)
    found = query.preview(code.seen, place=masked)
    assert (found.noise, found.unexpected) == ((), ())
    files = open_bundle(masked).files
    kept = {batch: contents_at(files, batch) for batch in (2, 3, 4)}
    assert made == [kept, kept, kept]
    assert kept[4] != query.contents(4)
    wrong = query.preview(code.wrong_seen, place=masked)
    assert fields(wrong) == {("total", "n"), ("output", "n")}


def test_a_sample_has_all_rows_of_some_keys_and_none_of_others(query, tmp_path, monkeypatch):
    bundle = tmp_path / "bundle"
    found = query.save(bundle, sample=0.4, sample_by=["email"])
    assert (found.sample, found.masked) == (0.4, ())
    check_whole(bundle)
    sample = KeySample(0.4, ("email",))
    for batch in (1, 2, 3, 4):
        own = open_state(query.checkpoint, batch=batch, migrations=None)
        copied = open_state(bundle / "checkpoint", batch=batch, migrations=None)
        assert set(own.stores) == set(copied.stores) == {"total", "cards", "places"}
        for name in own.stores:
            table = own[name].to_arrow()
            chosen = sample.chosen({"email": table.column("email").combine_chunks()})
            wanted = plain_rows(table.filter(chosen))
            assert 0 < len(wanted) < table.num_rows
            assert sorted(map(repr, plain_rows(copied[name].to_arrow()))) == sorted(
                map(repr, wanted)
            )
        for each in (own, copied):
            each.close()
    made = replayed_contents(monkeypatch)
    same = query.preview(code.seen, place=bundle)
    assert (same.noise, same.unexpected) == ((), ())
    kept = {batch: contents_at(found.files, batch) for batch in (2, 3, 4)}
    assert made == [kept, kept, kept]
    wrong = query.preview(code.wrong_seen, place=bundle)
    assert fields(wrong) == {("total", "n"), ("output", "n")}
    kept_keys = {row["email"] for rows in everything_read(bundle) for row in rows}
    everyone = {json.loads(line)["email"] for lines in query.rows for line in lines}
    gone = {each.encode() for each in everyone - kept_keys if each is not None}
    whole = b"\n".join(everything(bundle))
    assert len(gone) > 10
    assert not any(each in whole for each in gone)


def everything_read(bundle):
    for file in (bundle / "inputs").rglob("*.parquet"):
        yield pq.read_table(file).to_pylist()


def test_a_sample_may_be_masked_too(query, tmp_path):
    bundle = tmp_path / "bundle"
    query.save(
        bundle, sample=0.5, sample_by=["region", "email"], mask=["email", "card", "places.emails"]
    )
    check_masked(bundle)
    check_whole(bundle)
    found = query.preview(code.seen, place=bundle)
    assert (found.noise, found.unexpected) == ((), ())
    assert all(each.rows for batch in found.batches for each in batch.stores)


def test_a_number_that_state_is_grouped_by_is_masked(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(code, "CHECKPOINT", "")
    query = life(spark, tmp_path, code.by_card)
    query.save(tmp_path / "bundle", mask=["card", "email", "emails"])
    check_masked(tmp_path / "bundle")
    check_whole(tmp_path / "bundle")
    found = query.preview(code.by_card, place=tmp_path / "bundle")
    assert (found.noise, found.unexpected) == ((), ())


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    init(migrations=tmp_path / "migrations")
    monkeypatch.setattr(code, "CHECKPOINT", "")
    monkeypatch.setattr(code, "MIGRATIONS", str(tmp_path / "migrations"))
    return tmp_path / "migrations"


def migrating(spark, tmp_path, scripts, monkeypatch, script):
    """A query in the middle of a migration: older values and complements."""
    rows = [
        code.order(person, number=n) for n in range(4) for person in range(100) if person % 4 >= n
    ]
    query = life(spark, tmp_path, code.people, rows=[rows])
    (scripts / "versions" / "cccc11112222_cards.py").write_text(script)
    query.function = code.people_without_cards
    query.name = named(query.function)
    slow = BackfillOptions(initial_rows=5, maximum_rows=5, on_error="quarantine")
    monkeypatch.setitem(code.OPTIONS, "backfill", slow)
    for number in range(1, 5):
        query.feed(number, [code.order(person) for person in (3, 7, 12)])
    contents = query.contents(query.newest)
    assert sorted(contents) == ["owner", "owner@cccc11112222", "owner__complement"]
    assert all(each.records > 5 for each in contents.values())
    return query


MASK = ["email", "card", "note"]


def test_a_query_in_the_middle_of_a_migration_is_masked(spark, tmp_path, scripts, monkeypatch):
    query = migrating(spark, tmp_path, scripts, monkeypatch, code.SCRIPT)
    bundle = tmp_path / "bundle"
    query.save(bundle, mask=MASK)
    check_masked(bundle)
    check_whole(bundle)
    files = open_files(str(bundle / "checkpoint"))
    before = contents_at(files, versions_in(bundle)[0])
    assert sorted(before) == ["owner", "owner@cccc11112222", "owner__complement"]
    made = replayed_contents(monkeypatch)
    found = query.preview(code.people_without_cards, migrations=scripts, place=bundle)
    assert (found.noise, found.unexpected) == ((), ())
    assert made[0] == made[1] == made[2]
    wrong = query.preview(code.wrong_people, migrations=scripts, place=bundle)
    assert fields(wrong) == {("owner", "n"), ("output", "n")}
    sampled = tmp_path / "sampled"
    query.save(sampled, sample=0.5, sample_by=["email", "region"])
    check_whole(sampled)
    own = query.contents(query.newest)
    kept = contents_at(open_files(str(sampled / "checkpoint")), query.newest)
    assert own.keys() == kept.keys()
    assert all(0 < kept[name].records < own[name].records for name in own)
    found = query.preview(code.people_without_cards, migrations=scripts, place=sampled)
    assert (found.noise, found.unexpected) == ((), ())


def test_values_that_a_backfill_has_left_behind_stay_marked_without_their_cause(
    spark, tmp_path, scripts, monkeypatch
):
    query = migrating(spark, tmp_path, scripts, monkeypatch, code.FAILING)
    bundle = tmp_path / "bundle"
    query.save(bundle, mask=MASK)
    check_masked(bundle)
    check_whole(bundle)
    manifest = read_manifest(Layout(query.checkpoint), query.newest)
    copied = read_manifest(Layout(bundle / "checkpoint"), query.newest)

    def marked(found):
        return sum(state.quarantined.get("owner", 0) for state in found.partitions)

    assert marked(copied) == marked(manifest) > 1
    assert copied.left("owner") == manifest.left("owner") > marked(copied)
    found = {
        cause
        for number in range(len(copied.partitions))
        for cause in causes(bundle / "checkpoint", number)
    }
    assert found == {"left out, since values of the bundle are masked"}
    query.save(tmp_path / "sampled", sample=0.5, sample_by=["email"])
    check_whole(tmp_path / "sampled")
    kept = read_manifest(Layout(tmp_path / "sampled" / "checkpoint"), query.newest)
    assert marked(kept) < marked(manifest)


def test_a_preview_compares_state_in_which_some_values_do_not_migrate(
    spark, tmp_path, scripts, monkeypatch
):
    query = migrating(spark, tmp_path, scripts, monkeypatch, code.FAILING)
    bundle = tmp_path / "bundle"
    query.save(bundle)
    found = query.preview(code.people_without_cards, migrations=scripts, place=bundle)
    assert (found.noise, found.unexpected) == ((), ())
    wrong = query.preview(code.wrong_people, migrations=scripts, place=bundle)
    assert fields(wrong) == {("owner", "n"), ("output", "n")}
    opened = open_state(query.checkpoint, migrations=scripts, on_error="null")
    with opened as state:
        failed = [each for each in state["owner"].to_arrow()["_error"].to_pylist() if each]
    assert len(failed) > 1


def test_examples_hide_a_masked_field_that_is_called_as_one_of_the_key(query):
    wrong = query.preview(code.wrong_seen, mask=["email"])
    assert fields(wrong) == {("total", "n"), ("output", "n")}
    shown = repr(wrong.to_json())
    assert "value_email" in shown
    assert "@mail" not in shown
    with pytest.raises(StatemigrateError) as raised:
        query.preview(code.seen, old=False, mask=["email", "value_email"])
    assert raised.value.code == "SM-PREVIEW-030"


def causes(checkpoint, number):
    with closing(hold(Layout(checkpoint))) as held, held.partition(number) as partition:
        return [cause for _, cause in partition.quarantined("owner")]


def refused(query, place, **options):
    with pytest.raises(StatemigrateError) as raised:
        query.save(place, **options)
    assert not place.exists()
    assert [each.name for each in place.parent.iterdir() if "bundle" in each.name] == []
    return raised.value


@pytest.mark.parametrize(
    ("options", "expected", "column"),
    [
        ({"mask": ["email", "card"]}, "SM-PREVIEW-029", "places.emails.key"),
        ({"mask": ["email", "e-mail"]}, "SM-PREVIEW-030", "e-mail"),
        ({"mask": ["at"]}, "SM-PREVIEW-025", "source 0.at"),
        ({"mask": ["total.region", "email", "emails"]}, "SM-PREVIEW-036", "region"),
        ({"sample": 0.5, "sample_by": ["card"]}, "SM-PREVIEW-027", "card"),
    ],
)
def test_what_cannot_be_masked_or_sampled_is_named(query, tmp_path, options, expected, column):
    error = refused(query, tmp_path / "bundle", **options)
    assert (error.code, error.data["column"]) == (expected, column)
