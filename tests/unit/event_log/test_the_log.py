"""What the log of a checkpoint keeps, and what it makes of starts that came to nothing."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import pytest
from support.object_store import MemoryFiles, ObjectStore

from statemigrate.commands.current import log, read_log
from statemigrate.errors import CheckpointError, CorruptFileError, StorageError
from statemigrate.event_log import events as code
from statemigrate.event_log.events import (
    CODE_VERSION,
    FORMAT,
    Event,
    Stamp,
    StoreChange,
    Verb,
    code_version,
)
from statemigrate.event_log.log import (
    LARGEST,
    LOG,
    Facts,
    Note,
    StoreRevision,
    append,
    document_after,
    names,
    read_event,
    require_writable,
)
from statemigrate.files import LocalFiles
from statemigrate.files.documents import sealed

ORDER = ("base", "aaaa", "bbbb")
OLD, NEW = StoreRevision("base", ("t",), ORDER), StoreRevision("aaaa", ("t@aaaa", "t"), ORDER)
DRAINED = StoreRevision("aaaa", ("t@aaaa",), ORDER)
NEWEST = StoreRevision("bbbb", ("t@bbbb", "t@aaaa"), ORDER)
NOTHING = Facts()


def stamp(version: str | None = "v1") -> Stamp:
    return Stamp(version, "kim", "0.1.0", "4.3.0")


def start(files, batch, standing, facts=NOTHING, version="v1", store="t"):
    Note(stamp(version), {store: standing}).start(files, batch, facts)


def told(files, committed):
    """Oldest first, without what is the same in all."""
    return [
        (each.verb, each.batch, each.change, each.before, each.revision, each.outcome, each.code)
        for each in reversed(read_log(files, committed).entries)
    ]


@pytest.fixture(params=["disk", "bucket"])
def files(request, tmp_path):
    return (
        LocalFiles(tmp_path / "checkpoint")
        if request.param == "disk"
        else MemoryFiles(ObjectStore(), "checkpoint")
    )


def test_starts_are_noted_once_and_restarts_add_nothing(files):
    start(files, 0, OLD)
    start(files, 0, OLD)
    start(files, 7, OLD, Facts({"t": OLD}, 6))
    start(files, 9, NEW, Facts({"t": OLD}, 8), "v2")
    start(files, 12, NEW, Facts({"t": NEW}, 11), "v2")
    start(files, 13, NEW, Facts({"t": NEW}, 12), "v3")
    start(files, 20, OLD, Facts({"t": NEW}, 19), "v1")
    assert told(files, 25) == [
        ("start", 0, "first", None, "base", "done", "v1"),
        ("start", 9, "upgrade", "base", "aaaa", "done", "v2"),
        ("start", 13, "none", "aaaa", "aaaa", "done", "v3"),
        ("start", 20, "downgrade", "aaaa", "base", "done", "v1"),
    ]


def test_a_start_without_a_batch_is_never_said_to_have_changed_anything(files):
    start(files, 0, OLD)
    start(files, 5, NEW, Facts({"t": OLD}, 4), "v2")
    assert [each[5] for each in told(files, 4)] == ["done", "no batch yet"]
    # It failed, and the old code goes on.
    start(files, 5, OLD, Facts({"t": OLD}, 4), "v1")
    assert told(files, 9) == [
        ("start", 0, "first", None, "base", "done", "v1"),
        ("start", 5, "upgrade", "base", "aaaa", "no batch", "v2"),
        ("start", 5, "downgrade", "aaaa", "base", "done", "v1"),
    ]


def begin(files, batch, version="v1", whole=True, **stores):
    Note(stamp(version), stores, is_whole_query=whole).start(files, batch, NOTHING)


def outcomes(files, committed, store):
    """Oldest first: revision and outcome of what the log says of a store."""
    entries = reversed(read_log(files, committed).entries)
    return [(each.revision, each.outcome) for each in entries if each.store == store]


@pytest.fixture
def embedded(files):
    files.put("statemigrate/versions/000000000.json", b"")
    return files


def test_a_start_whose_batch_was_run_by_code_without_the_store_is_not_said_to_have_run(embedded):
    begin(embedded, 0, maps=OLD, lists=OLD)
    begin(embedded, 6, "v2", maps=NEW, lists=NEW)
    begin(embedded, 6, "v3", lists=NEW)
    assert outcomes(embedded, 9, "maps") == [("base", "done"), ("aaaa", "no batch")]
    assert outcomes(embedded, 9, "lists")[1:] == [("aaaa", "no batch"), ("aaaa", "done")]


def test_a_start_with_nothing_new_but_a_store_less_is_noted(embedded):
    begin(embedded, 0, maps=OLD, lists=OLD)
    begin(embedded, 6, maps=NEW, lists=OLD)
    begin(embedded, 6, lists=OLD)
    assert outcomes(embedded, 9, "maps") == [("base", "done"), ("aaaa", "no batch")]
    # And so is the one after it, although the log has had all of that before.
    begin(embedded, 10, maps=NEW, lists=OLD)
    begin(embedded, 12, maps=NEW, lists=OLD)
    assert outcomes(embedded, 12, "maps")[2:] == [("aaaa", "done")]


def test_a_start_of_other_stores_altogether_runs_the_batch_of_a_whole_query(embedded):
    begin(embedded, 0, maps=OLD)
    begin(embedded, 6, maps=NEW)
    begin(embedded, 6, lists=OLD)
    assert outcomes(embedded, 9, "maps") == [("base", "done"), ("aaaa", "no batch")]


def test_a_start_without_stores_runs_the_batch_of_a_whole_query(embedded):
    begin(embedded, 0, maps=OLD)
    begin(embedded, 6, maps=NEW)
    begin(embedded, 6)
    assert outcomes(embedded, 9, "maps") == [("base", "done"), ("aaaa", "no batch")]


def test_what_a_start_that_came_to_nothing_said_is_not_found_to_have_gone_back(embedded):
    begin(embedded, 0, maps=OLD, lists=OLD)
    begin(embedded, 6, maps=NEW, lists=OLD)
    begin(embedded, 6, lists=OLD)
    stores = {"maps": OLD, "lists": OLD}
    note = Note(stamp(), stores, is_whole_query=True)
    note.start(embedded, 9, Facts(stores, 8))
    assert [each.verb for each in read_log(embedded, 8).entries if each.verb == "found"] == []


def test_a_family_that_a_command_left_before_it_was_killed_is_found_at_the_next_start(embedded):
    """Back at the revision that the log has, with another one's family still there."""
    half = StoreRevision("base", ("t", "t@aaaa"), ORDER)
    begin(embedded, 0, maps=OLD)
    note = Note(stamp(), {"maps": NEWEST}, is_whole_query=True)
    note.start(embedded, 3, Facts({"maps": half}, 2))
    entries = read_log(embedded, 2).entries
    assert [(each.verb, each.families, each.outcome) for each in entries] == [
        ("start", NEWEST.families, "no batch yet"),
        ("found", half.families, "done"),
        ("start", ("t",), "done"),
    ]


def test_of_two_operators_one_is_not_said_to_have_run_the_batch_of_the_other(files):
    begin(files, 4, whole=False, maps=NEW)
    begin(files, 4, whole=False, lists=NEW)
    assert outcomes(files, 9, "maps") == [("aaaa", "done")]
    # Code of the same operator, which has another store left.
    begin(files, 10, "v2", whole=False, maps=NEWEST, more=NEW)
    begin(files, 10, "v3", whole=False, more=NEW)
    assert outcomes(files, 12, "maps")[1:] == [("bbbb", "no batch")]


def retiring(files, batch, version="v1"):
    note = Note(stamp(version), {"t": DRAINED}, dropped={"t": ("t",)})
    note.start(files, batch, NOTHING)


def test_what_the_first_batch_of_a_start_drops_is_noted_with_it_once(files):
    start(files, 0, NEW)
    # It is killed before that batch is committed, twice.
    for _ in range(3):
        retiring(files, 6)
    entries = read_log(files, 5).entries
    assert [(each.verb, each.batch, each.families, each.outcome) for each in entries] == [
        ("retire", 6, DRAINED.families, "no batch yet"),
        ("start", 0, NEW.families, "done"),
    ]
    assert entries[0].details == {"dropped": "t"}
    start(files, 7, DRAINED, Facts({"t": DRAINED}, 6))
    assert [each.verb for each in read_log(files, 9).entries] == ["retire", "start"]


def test_a_family_that_was_made_and_never_filled_is_dropped_without_a_word(files):
    start(files, 0, DRAINED)
    retiring(files, 6)
    assert [each.verb for each in read_log(files, 6).entries] == ["start"]


def test_what_a_replaced_start_was_to_drop_is_not_said_to_be_dropped(files):
    start(files, 0, NEW)
    retiring(files, 6, "v2")
    start(files, 6, NEW, Facts({"t": NEW}, 5))
    # And tried again.
    retiring(files, 6, "v2")
    entries = [(each.verb, each.code, each.outcome) for each in read_log(files, 6).entries]
    assert entries == [
        ("retire", "v2", "done"),
        ("start", "v2", "done"),
        ("start", "v1", "no batch"),
        ("retire", "v2", "no batch"),
        ("start", "v2", "no batch"),
        ("start", "v1", "done"),
    ]


def early(files, batch, **stores):
    """What a start left that named only what was new to the log."""
    changes = tuple(each.after(store, None) for store, each in stores.items())
    append(files, Event.now("start", batch, changes, stamp()), "")


def test_of_starts_in_an_early_log_nobody_knows_whether_the_unnamed_store_was_there(embedded):
    early(embedded, 0, maps=OLD, lists=OLD)
    early(embedded, 6, maps=NEW, lists=NEW)
    early(embedded, 6, lists=NEWEST)
    assert outcomes(embedded, 5, "maps") == [("base", "done"), ("aaaa", "no batch yet")]
    assert outcomes(embedded, 9, "maps") == [("base", "done"), ("aaaa", "unknown")]
    assert outcomes(embedded, 9, "lists")[1:] == [("aaaa", "no batch"), ("bbbb", "done")]
    # This release does not know what the last start had, and says what this one has.
    begin(embedded, 9, maps=NEW, lists=NEWEST)
    begin(embedded, 9, maps=NEW, lists=NEWEST)
    assert outcomes(embedded, 9, "maps")[2:] == [("aaaa", "done")]


def test_what_a_release_without_a_log_did_is_found_at_the_next_start(files):
    start(files, 30, NEW, Facts({"t": NEW}, 29))
    assert told(files, 40)[0] == ("found", 29, "first", None, "aaaa", "done", None)
    start(files, 50, NEW, Facts({"t": NEWEST}, 49))
    assert told(files, 60)[2:] == [
        ("found", 49, "upgrade", "aaaa", "bbbb", "done", None),
        ("start", 50, "downgrade", "bbbb", "aaaa", "done", "v1"),
    ]


def test_a_family_that_went_untold_is_found_at_the_next_start(files):
    start(files, 0, NEW)
    start(files, 6, DRAINED, Facts({"t": DRAINED}, 5))
    entries = read_log(files, 9).entries
    assert [(each.verb, each.families) for each in entries] == [
        ("found", ("t@aaaa",)),
        ("start", ("t@aaaa", "t")),
    ]


def test_stores_of_two_operators_do_not_take_each_other_for_new(files):
    for batch in (0, 4, 8):
        start(files, batch, OLD, store="one")
        start(files, batch, NEW, store="two")
    assert [each.store for each in read_log(files, 9).entries] == ["two", "one"]


def test_of_two_that_write_at_one_moment_both_are_kept(files):
    event = Event.now("adopt", 3, (), stamp())
    for _ in range(2):
        files.put(*document_after(None, event))
    append(files, event, "")
    found = [name.rpartition("/")[2].partition("-")[0] for name in names(files)]
    assert found == ["000000000", "000000000", "000000001"]


def test_the_log_is_read_back_as_it_was_written(files):
    change = StoreChange("t", "upgrade", "base", "aaaa", ("t@aaaa", "t"))
    event = Event.now("backfill", 5, (change,), stamp(), {"migrated": "12"})
    append(files, event, "")
    assert read_event(files, names(files)[0]) == event
    assert read_log(files, 5).since == event.time


def damaged(files):
    start(files, 0, OLD)
    start(files, 5, NEW)
    name = names(files)[-1]
    files.replace(name, files.get(name)[:-20])
    return name


def test_a_damaged_document_is_named_and_hides_no_other(files, caplog):
    name = damaged(files)
    found = read_log(files, 9)
    assert [each.revision for each in found.entries] == ["base"]
    assert [type(each) for each in found.damaged] == [CorruptFileError]
    assert name in found.damaged[0].summary
    # And it ends no start: what it said is noted again.
    start(files, 9, NEW, Facts({"t": NEW}, 8))
    assert name in caplog.text
    assert [each.revision for each in read_log(files, 9).entries] == ["aaaa", "aaaa", "base"]


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"verb": "drop"},
        {"batch": "5"},
        {"time": "today"},
        {"time": "2026-01-01T00:00:00"},
        {"stores": [{"store": "t"}]},
        {"details": {"rows": 5}},
        {"by": None},
    ],
    ids=str,
)
def test_what_is_no_event_is_refused(tmp_path, change):
    files = LocalFiles(tmp_path)
    good = Event.now("adopt", 3, (), stamp()).to_json()
    files.put(f"{LOG}/a.json", sealed(good))
    assert read_event(files, f"{LOG}/a.json").to_json() == json.loads(json.dumps(good))
    files.put(f"{LOG}/b.json", sealed({**good, **change}))
    with pytest.raises(CorruptFileError, match=r"b\.json"):
        read_event(files, f"{LOG}/b.json")


def test_a_later_releases_document_is_named_and_hides_no_other(files):
    start(files, 0, OLD)
    event = Event.now("adopt", 3, (), stamp())
    files.put(f"{LOG}/{1:09}-{'a' * 32}.json", sealed({**event.to_json(), "format": 2}))
    start(files, 5, NEW)
    found = read_log(files, 9)
    assert [each.revision for each in found.entries] == ["aaaa", "base"]
    (error,) = found.damaged
    assert "format 2, which a newer release of statemigrate wrote" in str(error.found)


def test_a_verb_more_would_be_a_format_more():
    """An older release takes a verb that it does not have for damage."""
    starts, commands = {"start", "found", "retire", "backfill"}, {"adopt", "undo adopt", "relocate"}
    assert {*get_args(Verb)} == starts | commands | {"rewrite", "seed", "fork"}
    assert FORMAT == 1


def test_that_the_log_can_be_written_is_tried_without_an_event(files):
    require_writable(files)
    require_writable(files)
    assert read_log(files, 0).entries == ()
    start(files, 0, OLD)
    require_writable(files)
    assert [name.rpartition("/")[2][:9] for name in names(files)] == ["000000000"]


def test_a_document_that_is_too_large_or_no_file_is_damage(tmp_path):
    files = LocalFiles(tmp_path)
    start(files, 0, OLD)
    (tmp_path / LOG / f"000000005-{'a' * 32}.json").write_bytes(b" " * (LARGEST + 1))
    (tmp_path / LOG / f"000000006-{'b' * 32}.json").symlink_to("/etc/passwd")
    (tmp_path / LOG / "notes.txt").write_text("not ours")
    found = read_log(files, 0)
    assert (len(found.entries), len(found.damaged)) == (1, 2)


def test_a_log_that_cannot_be_written_stops_the_start(tmp_path):
    (tmp_path / LOG).mkdir(parents=True)
    (tmp_path / LOG).chmod(0o500)
    if os.access(tmp_path / LOG, os.W_OK):
        # Root may write anywhere; a file in the folder's place stops it too.
        (tmp_path / LOG).rmdir()
        (tmp_path / LOG).write_text("")
    with pytest.raises(StorageError) as caught:
        start(LocalFiles(tmp_path), 0, OLD)
    assert LOG in str(caught.value)
    assert "nothing was done yet" in str(caught.value.next_action)


def test_what_is_no_checkpoint_has_no_log(tmp_path):
    with pytest.raises(CheckpointError, match="not the checkpoint"):
        log(tmp_path / "nowhere")


def test_the_newest_events_alone_do_not_tell_when_the_log_begins(files):
    for batch in range(4):
        start(files, batch, OLD, version=f"v{batch}")
    assert (len(read_log(files, 9, 2).entries), read_log(files, 9, 2).since) == (2, None)
    assert read_log(files, 9, 4).since is not None


def git(folder, *words):
    who = ("-c", "user.name=kim", "-c", "user.email=kim@example.org")
    done = subprocess.run(
        [shutil.which("git"), "-C", str(folder), *who, *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    monkeypatch.delenv(CODE_VERSION, raising=False)
    git(tmp_path, "init", "-q")
    (tmp_path / "job.py").write_text("")
    (tmp_path / ".gitignore").write_text("env\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_the_version_of_the_code_is_its_commit_and_tells_of_changes(checkout):
    commit = git(checkout, "rev-parse", "HEAD")
    assert code_version(checkout / "job.py") == commit
    assert code_version(checkout) == commit
    (checkout / "job.py").write_text("changed = True\n")
    assert code_version(checkout / "job.py") == f"{commit}-dirty"


def test_what_is_installed_within_a_checkout_is_not_of_its_commit(checkout):
    (checkout / "env").mkdir()
    (checkout / "env" / "library.py").write_text("")
    assert code_version(checkout / "env" / "library.py") is None
    assert code_version(Path("/nowhere/job.py")) is None
    assert code_version(len) is None


def test_the_environment_says_the_version_where_there_is_no_git(checkout, monkeypatch):
    monkeypatch.setattr(code.shutil, "which", lambda _: None)
    assert code_version(checkout) is None
    monkeypatch.setenv(CODE_VERSION, " release-7 ")
    assert code_version(checkout) == "release-7"
    assert Stamp.of(checkout).code == "release-7"
