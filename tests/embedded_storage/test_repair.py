"""`statemigrate doctor --repair` of a stopped query of the embedded engine, without Spark."""

import json
import shutil

import pytest
from click.testing import CliRunner
from support.histories import lives
from support.histories.commands import Command, to_json
from support.histories.lives import Deployment
from support.histories.values import lineage

from statemigrate.cli.main import main
from statemigrate.commands.repair import repair
from statemigrate.embedded.continuation import require_committed
from statemigrate.embedded.layout import DirectoryLock, Layout
from statemigrate.errors import CheckpointError, CheckpointInUseError, CorruptFileError
from statemigrate.scripts import ScriptFolder

STORES = ("notes", "lists")
KEYS = 6
DEPLOYED = Deployment(STORES, "base", partitions=2, snapshot_every=3, retain=10, backfill=False)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A stopped query after eight batches in two partitions."""
    monkeypatch.setattr(ScriptFolder, "lineages", lambda _: {s: lineage(s) for s in STORES})
    for folder in ("checkpoint", "working", "input", "output"):
        (tmp_path / folder).mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text(
        '{"id":"2b9f2f0e-0000-4000-8000-000000000000"}'
    )
    for turn in range(8):
        feed(tmp_path, turn)
    lives.run(str(tmp_path), DEPLOYED.to_json())
    return tmp_path


def feed(place, turn):
    number = len(list((place / "input").iterdir()))
    rows = {
        key: [Command("notes", "put", (turn,)), Command("lists", "append", (turn,))]
        for key in range(turn, turn + KEYS)
    }
    (place / "input" / str(number)).write_text(json.dumps(to_json(rows)))


def entries(place, where="looked"):
    shutil.rmtree(place / where, ignore_errors=True)
    return sorted(map(tuple, lives.look(str(place), str(place / where))["entries"]))


def repaired(place, **options):
    return repair(place / "checkpoint", working_directory=place / "working", **options)


def manifest(place):
    return require_committed(Layout.of(place / "checkpoint"))


def files(place):
    return {
        path.relative_to(place): path.read_bytes()
        for path in (place / "checkpoint").rglob("*")
        if path.is_file() and path.name != "lock"
    }


def durable(place, number, reference):
    return reference.file.within(Layout.of(place / "checkpoint").partition(number))


def lose_last(place):
    """The files of which every way to the last version of a partition needs one."""
    state = manifest(place).partitions[1]
    durable(place, 1, state.snapshot).unlink()
    durable(place, 1, state.snapshot.step).unlink()


def test_nothing_is_found_where_nothing_is_damaged_and_nothing_is_changed(place):
    before = files(place)
    found = repaired(place, apply=True)
    assert (found.findings, found.did, found.is_whole, found.batch) == ((), (), True, 7)
    assert files(place) == before


def test_what_it_finds_is_said_first_and_changes_nothing(place):
    lost = durable(place, 0, manifest(place).partitions[0].changelogs[-1])
    lost.unlink()
    before = files(place)
    found = repaired(place)
    assert [(each.subject, each.found, each.needed) for each in found.findings] == [
        (str(lost), "missing", True)
    ]
    assert "working copy" in found.findings[0].remedy
    assert (found.is_whole, found.did) == (False, ())
    assert files(place) == before


@pytest.mark.long(weight=1 / 4)
def test_the_proven_copies_bring_back_a_version_of_which_every_file_is_gone(place):
    before = entries(place)
    for folder in (place / "checkpoint/statemigrate/partitions").iterdir():
        shutil.rmtree(folder)
    found = repaired(place, apply=True)
    assert found.is_whole
    assert [line.split(" ")[:7] for line in found.did] == [
        ["partition", number, "was", "made", "from", "the", "working"] for number in "01"
    ]
    shutil.rmtree(place / "working")
    assert entries(place) == before
    assert repaired(place).is_whole
    # And the query goes on from there.
    feed(place, 8)
    (place / "working").mkdir(exist_ok=True)
    lives.run(str(place), DEPLOYED.to_json())
    assert manifest(place).version == 8
    # Of its log, what was done.
    result = CliRunner().invoke(main, ["history", "--checkpoint", str(place / "checkpoint")])
    assert "found and repaired" in result.output


@pytest.mark.long(weight=1 / 4)
def test_without_a_working_copy_older_versions_make_up_for_the_newest_snapshot(place):
    before = entries(place)
    shutil.rmtree(place / "working")
    for number, state in enumerate(manifest(place).partitions):
        assert len(state.all_snapshots) == 1
        durable(place, number, state.snapshot).unlink()
    found = repaired(place)
    assert all("older version" in each.remedy for each in found.findings if each.needed)
    assert repaired(place, apply=True).is_whole
    shutil.rmtree(place / "working")
    assert entries(place) == before


@pytest.mark.long(weight=1 / 4)
def test_where_nothing_makes_the_last_version_the_newest_whole_one_is_named_and_gone_back_to(place):
    shutil.rmtree(place / "working")
    lose_last(place)
    found = repaired(place, apply=True)
    assert (found.is_whole, found.did) == (False, ())
    assert "--back-to 6" in found.next_action
    with pytest.raises(CheckpointError, match="is not one to go back to"):
        repaired(place, back_to=7, apply=True)
    before = files(place)
    planned = repaired(place, back_to=6)
    assert "batches 7 to 7 run again" in planned.findings[0].remedy
    assert files(place) == before
    done = repaired(place, back_to=6, apply=True)
    assert (done.is_whole, done.batch) == (True, 6)
    after = files(place)
    # What was taken out is still there.
    assert {data for name, data in before.items() if name not in after} <= set(after.values())
    # Batch 7 runs again, with the same result.
    lives.run(str(place), DEPLOYED.to_json())
    assert manifest(place).version == 7
    wanted = {(store, key): turn for turn in range(8) for key in range(turn, turn + KEYS)
              for store in ("notes",)}  # fmt: skip
    assert len([each for each in entries(place) if each[0] == "notes"]) == len(wanted)


@pytest.mark.parametrize("how", ["missing", "altered"])
def test_a_lost_manifest_leads_back_to_the_version_before(place, how):
    name = f"checkpoint/statemigrate/versions/7-{manifest(place).epoch}.json"
    if how == "missing":
        (place / name).unlink()
    else:
        (place / name).write_bytes(b"{" + (place / name).read_bytes())
    found = repaired(place)
    assert [each.found for each in found.findings if each.needed] == [how]
    assert "--back-to 6" in found.findings[0].remedy
    assert repaired(place, back_to=6, apply=True).is_whole
    lives.run(str(place), DEPLOYED.to_json())
    assert manifest(place).version == 7


@pytest.mark.parametrize("deletions", [1, 2])
def test_going_back_that_ends_on_the_way_goes_on(place, monkeypatch, deletions):
    from statemigrate.files import LocalFiles

    shutil.rmtree(place / "working")
    lose_last(place)
    to = repaired(place).next_action.partition("--back-to ")[2].split(" ")[0]
    delete, left = LocalFiles.delete, [deletions]

    def ending(files, names):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        delete(files, names)

    monkeypatch.setattr(LocalFiles, "delete", ending)
    with pytest.raises(KeyboardInterrupt):
        repaired(place, back_to=int(to), apply=True)
    monkeypatch.setattr(LocalFiles, "delete", delete)
    assert repaired(place, back_to=int(to), apply=True).is_whole
    lives.run(str(place), DEPLOYED.to_json())
    assert manifest(place).version == 7


@pytest.mark.long(weight=1 / 4)
def test_what_only_older_versions_need_is_said_and_stops_nothing(place):
    layout = Layout.of(place / "checkpoint")
    named = {each.file.name for each in manifest(place).partitions[0].all_changelogs}
    older = sorted(layout.partition(0).glob("*.changelog"))
    lost = next(each for each in older if each.name not in named)
    lost.unlink()
    found = repaired(place)
    assert [(each.subject, each.needed) for each in found.findings] == [(str(lost), False)]
    assert found.is_whole


def test_a_running_query_is_not_repaired(place):
    layout = Layout.of(place / "checkpoint")
    held = DirectoryLock(layout.lock, "the checkpoint")
    with pytest.raises(CheckpointInUseError):
        repaired(place)
    held.release()


def test_the_command_says_first_then_does_and_its_exit_code_tells(place):
    lost = durable(place, 0, manifest(place).partitions[0].changelogs[-1])
    lost.unlink()
    command = [
        "doctor",
        "--repair",
        str(place / "checkpoint"),
        "--working-directory",
        str(place / "working"),
    ]
    said = CliRunner().invoke(main, command)
    assert said.exit_code == 1
    assert f"statemigrate doctor {place / 'checkpoint'} --repair --apply" in said.output
    done = CliRunner().invoke(main, [*command, "--apply", "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.output)
    assert (document["is_whole"], document["batch"], document["engine"]) == (True, 7, "embedded")
    assert [each["repaired"] for each in document["findings"]] == [True]


def test_readers_use_the_base_too(place):
    state = manifest(place).partitions[0]
    before = entries(place)
    if len(state.all_snapshots) == 1:
        # One that is not read back comes with few writes: as long as the base is the only one,
        # nothing else is named.
        durable(place, 0, state.snapshot).unlink()
        with pytest.raises(CorruptFileError):
            entries(place)
    assert repaired(place, apply=True).is_whole
    assert entries(place) == before
