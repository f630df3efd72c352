"""What each verb tells of two operators on pages, one after the other, by their names."""

import json

import pytest
from click.testing import CliRunner
from tally import AMOUNTS, CENTS, Scripts
from two_paged import SEEN, Counts, Model, NewCounts, NewTally, Tally, TwoPaged, write_scripts

from statemigrate import (
    backfill,
    dry_run,
    export,
    fork,
    get,
    migrated,
    open_state,
    status,
)
from statemigrate.cli import main
from statemigrate.commands.backfill import retire
from statemigrate.commands.current import log
from statemigrate.commands.quarantine import quarantine
from statemigrate.errors import CheckpointError
from statemigrate.files.open import open_files
from statemigrate.pages.record import records

pytestmark = [pytest.mark.spark, pytest.mark.long(weight=1 / 3)]
KEYS, NAMES = 20, 7


def rows(numbers):
    return [(f"k{number}", 3 * number + 7, f"n{number % NAMES}") for number in numbers]


@pytest.fixture(scope="module")
def half_way(spark, tmp_path_factory):
    """Both began in the older formats; of the tally some pages are migrated, of the counts none."""
    root = tmp_path_factory.mktemp("half")
    folder = write_scripts(Scripts(root / "migrations"))
    query, model = TwoPaged(spark, root / "two"), Model()
    query.feed(model.add(rows(range(KEYS))))
    query.deploy_natively((Tally(), Counts()))
    query.feed(model.add(rows([3])))
    query.deploy_natively((migrated(NewTally(), migrations=folder), Counts()))
    return query, model, folder


@pytest.fixture
def run(half_way):
    """Types a command; the output in one line."""
    _, _, folder = half_way

    def one(*words, code=0):
        result = CliRunner().invoke(main, ["--migrations", str(folder), *map(str, words)])
        assert result.exit_code == code, result.output
        return " ".join(result.output.split())

    return one


def exported(query, store, folder, place, **options):
    export(store, query.checkpoint, place, migrations=folder, **options)
    found = map(json.loads, place.read_text().splitlines())
    return {next(iter(each["key"].values())): each["value"] for each in found}


def as_text(values):
    """As JSON has them."""
    return json.loads(json.dumps(values, default=str))


def test_export_get_and_a_reader_have_every_key_of_the_operator_that_is_named(
    half_way, tmp_path, run
):
    query, model, folder = half_way
    place = tmp_path / "out.jsonl"
    tallies = exported(query, "tally", folder, place, operator="tallies")
    assert tallies == as_text(model.new_tallies())
    # What is migrated goes back in the view alone, and says so.
    back = {"targets": {"tally": CENTS}, "operator": "tallies"}
    olds = exported(query, "tally", folder, place, **back)
    assert {value["moved"] for value in olds.values()} == {0, 101}
    assert {key: {**value, "moved": 0} for key, value in olds.items()} == model.old_tallies()
    counts = exported(query, "counts", folder, place, operator="counts")
    assert counts == model.new_counts()
    for key, value in model.new_tallies().items():
        assert get("tally", query.checkpoint, key, migrations=folder, operator="tallies") == value
    for number, name in enumerate(("tallies", "counts")):
        with open_state(query.checkpoint, migrations=folder, operator=name) as state:
            assert list(state.stores) == [("tally", "counts")[number]]
    assert get("counts", query.checkpoint, "k3", migrations=folder, operator="counts") is None
    with pytest.raises(CheckpointError, match="no store tally"):
        get("tally", query.checkpoint, "k3", migrations=folder, operator="counts")
    told = run("get", "counts", query.checkpoint, "n3", "--operator", "counts")
    assert json.loads(told) == model.new_counts()["n3"]
    assert "--operator tallies or counts" in run("get", "counts", query.checkpoint, "n3", code=1)


def test_status_retire_and_a_dry_run_count_the_operator_that_is_named(half_way, run):
    query, _, folder = half_way
    named = {"migrations": folder, "operator": "tallies"}
    (store,) = status(query.checkpoint, **named).stores
    assert (store.store, store.target) == ("tally", AMOUNTS)
    assert 0 < store.left < KEYS
    assert store.left + store.in_target == KEYS
    assert store.next_action == (f"statemigrate backfill {query.checkpoint} --operator tallies")
    retired = retire(query.checkpoint, **named)
    assert (retired.dropped, retired.later, dict(retired.kept)) == ((), (), {"tally": store.left})
    (family,) = dry_run("tally", query.checkpoint, **named).families
    assert (family.family, family.tried, family.failed) == ("tally", store.left, 0)
    told = run("backfill", "--retire", query.checkpoint, "--operator", "tallies", code=1)
    assert f"status --checkpoint {query.checkpoint} --operator tallies" in told
    told = run("status", query.checkpoint, "--operator", "tallies")
    assert f"statemigrate backfill {query.checkpoint} --operator tallies" in told
    named["operator"] = "counts"
    (store,) = status(query.checkpoint, **named).stores
    assert (store.store, store.target, store.in_target) == ("counts", CENTS, NAMES)
    assert f"--checkpoint {query.checkpoint} --operator counts" in store.next_action
    # The scripts lead further than the code that runs.
    retired = retire(query.checkpoint, **named)
    assert (retired.dropped, retired.later, dict(retired.kept)) == ((), (), {"counts": NAMES})
    (family,) = dry_run("counts", query.checkpoint, **named).families
    assert (family.family, family.tried, family.failed) == ("counts", NAMES, 0)


def test_what_does_not_migrate_is_listed_of_the_operator_that_is_named(half_way, scripts):
    query, model, _ = half_way
    other = write_scripts(scripts)
    for name in ("amounts", "counts"):
        script = other / "versions" / f"{name}.py"
        odd = '    if value["n"] == 3:\n        raise ValueError("three")\n'
        script.write_text(
            script.read_text().replace("def upgrade(value):\n", f"def upgrade(value):\n{odd}")
        )
    parts = {"migrations": other, "accept_edited": [AMOUNTS, SEEN]}
    found = list(quarantine("counts", query.checkpoint, operator="counts", **parts))
    wanted = {name: {"n": n} for name, n in model.counts.items() if n == 3}
    assert {each.key[0]: each.value for each in found} == wanted
    assert len(wanted) > 1
    assert all("three" in each.cause for each in found)
    assert list(quarantine("tally", query.checkpoint, operator="tallies", **parts)) == []


def test_log_and_current_tell_of_each_operator_by_its_own_stores(half_way):
    query, _, folder = half_way
    found = {
        (each.verb, each.batch, each.store, each.before, each.revision)
        for each in log(query.checkpoint).entries
        if each.verb == "start"
    }
    assert found == {
        ("start", 0, "tally", None, CENTS),
        ("start", 0, "counts", None, CENTS),
        ("start", 1, "tally", CENTS, AMOUNTS),
    }
    (store,) = status(
        query.checkpoint, migrations=folder, operator="tallies", revisions=True
    ).stores
    assert (store.store, store.revision, store.older) == ("tally", AMOUNTS, (CENTS,))
    (store,) = status(query.checkpoint, migrations=folder, operator="counts", revisions=True).stores
    assert (store.store, store.revision, store.older) == ("counts", CENTS, ())


@pytest.mark.long
def test_forks_of_the_last_and_of_an_earlier_batch_go_on_as_the_original_would(
    spark, half_way, tmp_path
):
    query, model, folder = half_way
    backfill(query.checkpoint, keys_per_chunk=1, migrations=folder, operator="tallies")
    first = Model()
    first.add(rows(range(KEYS)))
    for name, options in (("last", {}), ("first", {"at_batch": 0})):
        new = tmp_path / name
        fork(query.checkpoint, new, **options)
        assert records(open_files(new)).keys() == {"tallies", "counts"}
        forked = TwoPaged(spark, query.root, checkpoint_directory=new)
        if options:
            old = {"targets": {"tally": CENTS}, "operator": "tallies"}
            with open_state(new, migrations=folder, **old) as state:
                found = {key[0]: value for key, value in state["tally"].entries()}
            assert found == first.old_tallies()
            assert forked.values("counts", None, "counts") == first.old_counts()
        else:
            assert forked.values("tally", folder, "tallies") == model.new_tallies()
            assert forked.values("counts", None, "counts") == model.old_counts()
        # What came after the earlier batch comes by once more.
        forked.deploy_natively(
            (migrated(NewTally(), migrations=folder), migrated(NewCounts(), migrations=folder))
        )
        assert forked.values("tally", folder, "tallies") == model.new_tallies()
        assert forked.values("counts", folder, "counts") == model.new_counts()
        # The plan of the backfill goes along with the last batch alone.
        (store,) = status(new, migrations=folder, operator="tallies").stores
        assert (store.left == 0) == (not options)
