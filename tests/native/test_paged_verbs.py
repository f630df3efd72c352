"""What verbs tell of state in pages: entries, and what they tell of Spark's own state."""

import json
from decimal import Decimal

import pytest
from click.testing import CliRunner
from everything import BEGINNING, KEYS, OUTPUT, ROWS, Everything
from native_pipeline import NativePipeline
from paged_pipeline import FORMATS, PagedPipeline, StoredAsGiven
from tally import (
    AMOUNTS,
    CENTS,
    FAMILIES,
    AmountsTally,
    CentsTally,
    Scripts,
    batch,
)

import statemigrate
from statemigrate import CheckpointError, StartupError, migrated
from statemigrate.cli import main
from statemigrate.files.documents import sealed
from statemigrate.inspect.estimate import Pace

pytestmark = pytest.mark.spark
KINDS = (NativePipeline, PagedPipeline)


@pytest.fixture(scope="module")
def tallies(spark, tmp_path_factory):
    """Spark's own state and pages after the same input, some of it migrated; and the scripts."""
    root = tmp_path_factory.mktemp("tallies")
    folder = Scripts(root / "migrations").write()
    found = [kind(spark, root / kind.__name__) for kind in KINDS]
    for pipeline in found:
        pipeline.feed(batch("first", range(30)))
        pipeline.deploy_natively(CentsTally())
        pipeline.feed(batch("second", range(2)))
        pipeline.deploy_natively(migrated(AmountsTally(), migrations=folder))
    return *found, folder


@pytest.fixture(scope="module")
def everything(spark, tmp_path_factory):
    """The same of every kind of state, without scripts."""
    root = tmp_path_factory.mktemp("everything")
    parts = {"rows": ROWS, "output": OUTPUT, "by": ("name", "number")}
    found = [kind(spark, root / kind.__name__, **parts) for kind in KINDS]
    for pipeline in found:
        pipeline.feed(*BEGINNING)
        pipeline.deploy_natively(Everything())
    return found


@pytest.mark.parametrize(("store", "entries"), [("profile", 4), ("history", 5), ("days", 12)])
def test_every_kind_of_state_is_shown_as_spark_has_it(everything, tmp_path, store, entries):
    exported, shown, counted = [], [], []
    for pipeline in everything:
        statemigrate.export(store, pipeline.checkpoint, tmp_path / "out.jsonl", migrations=None)
        exported.append(sorted((tmp_path / "out.jsonl").read_text().splitlines()))
        with statemigrate.open_state(pipeline.checkpoint, migrations=None) as state:
            assert (sorted(state.stores), state.batch) == (["days", "history", "profile"], 1)
            types = state[store].layout.key, state[store].layout.user_key, state[store].layout.value
            beginning = [list(state[store].entries(*key)) for key in [*KEYS[1:3], ("a",)]]
            shown.append((types, [sorted(map(repr, found)) for found in beginning]))
        found = statemigrate.status(pipeline.checkpoint, migrations=None)
        counted.append(
            [(each.store, each.kind, each.in_target, each.left) for each in found.stores]
        )
    assert exported[0] == exported[1]
    assert len(exported[0]) == entries
    assert shown[0] == shown[1]
    assert sorted(counted[0]) == sorted(counted[1])


def test_status_counts_entries_of_each_family_and_says_what_is_next(tallies):
    _, paged, folder = tallies
    held = {name: set() for name in FORMATS}
    for families in paged.entries(FORMATS).values():
        for name, entries in families.items():
            held[name] |= entries.keys()
    status = statemigrate.status(paged.checkpoint, migrations=folder)
    (store,) = status.stores
    (family,) = store.families
    assert (status.engine, status.batch) == ("paged", 1)
    assert (store.store, store.kind, store.target, store.head) == (
        "tally",
        "value",
        AMOUNTS,
        AMOUNTS,
    )
    assert (family.name, family.revision) == ("tally", CENTS)
    assert family.values == len(held["tally"]) == sum(family.partitions.values()) > 0
    assert store.in_target == len(held[FAMILIES[AMOUNTS]]) == 30 - family.values > 2
    assert store.next_action == f"statemigrate backfill {paged.checkpoint}"
    retired = statemigrate.backfill(paged.checkpoint, migrations=folder, retire=True)
    assert (retired.dropped, retired.later, dict(retired.kept)) == ((), (), {"tally": store.left})


def test_the_logical_view_is_that_of_the_same_input_without_pages(tallies, tmp_path):
    plain, paged, folder = tallies
    wanted = {key: value for family in FORMATS for key, value in plain.state(family).items()}
    with statemigrate.open_state(paged.checkpoint, migrations=folder) as state:
        found = {key: value for (key,), value in state["tally"].entries()}
        assert {key: state["tally"].get(key) for key in ("k0", "k7", "k29")} == {
            key: found[key] for key in ("k0", "k7", "k29")
        }
        assert state["tally"].get("k30") is None
    assert found.keys() == wanted.keys()
    for key, value in found.items():
        cents = wanted[key].get("cents")
        amount = wanted[key]["amount"] if cents is None else Decimal(cents).scaleb(-2)
        assert (value["n"], value["amount"], value["moved"]) == (wanted[key]["n"], amount, 1)
    parts = {"migrations": folder, "targets": {"tally": CENTS}}
    texts = []
    for pipeline in (plain, paged):
        statemigrate.export("tally", pipeline.checkpoint, tmp_path / "out.jsonl", **parts)
        records = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
        texts.append(
            sorted((r["key"]["key"], r["value"]["n"], r["value"]["cents"]) for r in records)
        )
    assert texts[0] == texts[1]


def test_a_dry_run_tries_the_entries_that_are_left(tallies):
    plain, paged, folder = tallies
    reports = [
        statemigrate.dry_run("tally", each.checkpoint, migrations=folder) for each in (paged, plain)
    ]
    (family,) = reports[0].families
    (of_plain,) = reports[1].families
    left = statemigrate.status(paged.checkpoint, migrations=folder).left
    assert (reports[0].engine, reports[0].in_target) == ("paged", 30 - left)
    assert (family.family, family.tried, family.failed) == ("tally", left, 0)
    assert [each.field for each in family.fields] == [each.field for each in of_plain.fields]
    estimate = reports[0].backfill
    held = [page for page in paged.entries(FORMATS).values() if "tally" in page]
    assert (estimate.values, estimate.batches) == (left, 1)
    assert 0 < estimate.seconds < left * reports[0].seconds
    assert f"; {len(held):,} pages, 10,000 a batch" in estimate.basis
    few = statemigrate.dry_run("tally", paged.checkpoint, migrations=folder, pace=Pace(keys=1))
    assert few.backfill.batches == len(held)


def test_what_does_not_migrate_is_listed_as_on_spark(tallies, tmp_path):
    plain, paged, folder = tallies
    (script,) = (folder / "versions").glob("*.py")
    odd = '    if value["n"] == 1 and value["cents"] % 2:\n        raise ValueError("odd")\n'
    edited = script.read_text().replace("def upgrade(value):\n", f"def upgrade(value):\n{odd}")
    other = Scripts(tmp_path / "other").write(edited)
    parts = {"migrations": other, "accept_edited": [AMOUNTS]}
    on_spark, in_pages = (
        {
            each.key: each
            for each in statemigrate.status(pipeline.checkpoint, failed="tally", **parts)
        }
        for pipeline in (plain, paged)
    )
    assert in_pages
    assert all("odd" in each.cause and each.value["cents"] % 2 for each in in_pages.values())
    # What no row has touched lies in an older family: on pages less, as they migrate whole.
    left = paged.entries(FORMATS)
    unmoved = {(key,) for page in left.values() for key in page.get(FAMILIES[CENTS], {})}
    assert in_pages == {key: each for key, each in on_spark.items() if key in unmoved}


def test_scripts_that_are_missing_or_do_not_know_a_family_are_told_as_on_spark(tallies, tmp_path):
    plain, paged, folder = tallies
    errors = []
    other = Scripts(tmp_path / "other").write(
        (folder / "versions" / "amounts.py").read_text().replace(AMOUNTS, "cccc55556666")
    )
    for pipeline in (plain, paged):
        told = []
        for scripts in (None, other):
            with pytest.raises(StartupError) as raised:
                statemigrate.get("tally", pipeline.checkpoint, "k1", migrations=scripts)
            told.append(str(raised.value).replace(str(pipeline.checkpoint), "checkpoint"))
        with pytest.raises(CheckpointError, match="no store talli") as raised:
            statemigrate.get("talli", pipeline.checkpoint, "k1", migrations=folder)
        told.append((raised.value.expected, raised.value.found))
        errors.append(told)
    assert errors[0] == errors[1]


def record_path(pipeline):
    return pipeline.checkpoint / "statemigrate" / "pages.json"


def record_of(pipeline):
    return json.loads(record_path(pipeline).read_text())["body"]


@pytest.fixture
def stored(spark, tmp_path_factory, tallies):
    """Makes checkpoints with the pages that are given, and a record that differs as is said."""
    record = record_of(tallies[1])

    def made(kept, **parts):
        pipeline = StoredAsGiven(spark, tmp_path_factory.mktemp("stored"))
        pipeline.store(kept)
        record_path(pipeline).parent.mkdir()
        record_path(pipeline).write_bytes(sealed({**record, **parts}))
        return pipeline

    return made


VERBS = {
    "status": ["status", "--checkpoint"],
    "get": ["get", "tally", "k1", "--checkpoint"],
    "export": ["export", "tally", "--output", "out.jsonl", "--checkpoint"],
    "dry-run": ["dry-run", "tally", "--checkpoint"],
    "retire": ["backfill", "--retire"],
}
"""What is typed, without the checkpoint behind it."""


def stopped_with(problem, pipeline, folder, verbs):
    for verb in verbs:
        words = ["--migrations", str(folder), *VERBS[verb], str(pipeline.checkpoint)]
        result = CliRunner().invoke(main, words)
        output = " ".join(result.output.split())
        assert (result.exit_code, problem in output) == (1, True), (verb, output)
        assert "next:" in output.lower(), output


def turned(data):
    """The same bytes with one bit of the last one turned."""
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.long
def test_pages_that_are_damaged_or_newer_or_elsewhere_stop_verbs(
    stored, tallies, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    _, paged, folder = tallies
    pages = paged.stored_pages()
    first, second = sorted(pages)[:2]
    swapped = {**pages, first: pages[second], second: pages[first]}
    damaged = stored({number: turned(data) for number, data in pages.items()})
    stopped_with("a page of state is damaged", damaged, folder, VERBS)
    newer = stored({number: data[:4] + b"\x63\x00" + data[6:] for number, data in pages.items()})
    stopped_with("found: version 99", newer, folder, ["status", "get"])
    stopped_with("is in the place of another", stored(swapped), folder, ["export", "dry-run"])
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.long
def test_a_record_that_does_not_fit_its_pages_stops_verbs(stored, tallies):
    _, paged, folder = tallies
    pages, record = paged.stored_pages(), record_of(paged)
    other = stored(pages, pages=5)
    stopped_with("another number of pages", other, folder, ["status", "export"])
    tally = record["stores"]["tally"]
    without = stored(pages, stores={"tally": {**tally, "families": tally["families"][:1]}})
    stopped_with("disagree about tally", without, folder, ["status", "export"])
    path = record_path(without)
    path.write_text(path.read_text().replace('"pages":4', '"pages":3'))
    stopped_with("not what was written", without, folder, ["status", "get"])
    path.unlink()
    stopped_with("not the record of what is in them", without, folder, ["status", "get"])


@pytest.mark.long
def test_get_opens_the_page_of_its_key_alone(stored, tallies):
    _, paged, folder = tallies
    pages = paged.stored_pages()
    (home,) = (n for n, each in paged.entries(FORMATS).items() for f in each.values() if "k7" in f)
    others = stored({n: data if n == home else turned(data) for n, data in pages.items()})
    found = statemigrate.get("tally", others.checkpoint, "k7", migrations=folder)
    assert found == statemigrate.get("tally", paged.checkpoint, "k7", migrations=folder)
    assert found["n"] == 1
