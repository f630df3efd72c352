import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle

import statemigrate
from statemigrate.errors import LineageError, ScriptError
from statemigrate.formats import Avro, Struct
from statemigrate.migration import BASE
from statemigrate.scripts import ScriptFolder

A = Struct("a BIGINT")
B = Struct("b STRING")


def finish(path: Path, upgrade: str = "return value", downgrade: str | None = None) -> Path:
    text = path.read_text()
    text = text.replace(
        'raise NotImplementedError("return the value in the format `new`")', upgrade
    )
    if downgrade:
        text = text.replace(
            'raise NotImplementedError("return the value in the format `old`")', downgrade
        )
    path.write_text(text)
    return path


def files_in(folder: ScriptFolder) -> set[str]:
    return {str(p.relative_to(folder.directory)) for p in folder.directory.rglob("*")}


def test_a_new_folder_holds_a_template_a_readme_and_no_scripts(folder):
    assert files_in(folder) == {"script.py.mako", "README.md", "heads.txt", "versions"}
    assert folder.lineages() == {}
    assert folder.heads() == ()
    assert folder.history() == ()


def test_making_a_folder_twice_leaves_it_as_it_is(folder):
    folder.new("auctions", "first", old=A, new=B)
    (folder.directory / "script.py.mako").write_text("my own")
    ScriptFolder.create(folder.directory)
    assert (folder.directory / "script.py.mako").read_text() == "my own"
    assert len(list(folder.versions.glob("*.py"))) == 1


def test_a_folder_in_use_for_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ScriptError, match="in use for something else"):
        ScriptFolder.create(tmp_path)
    with pytest.raises(ScriptError, match="in use for something else"):
        ScriptFolder.create(tmp_path / "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_an_empty_folder_can_become_one(tmp_path):
    assert ScriptFolder.create(tmp_path).lineages() == {}


@pytest.mark.parametrize(("name", "found"), [("", "no script.py.mako"), ("x", "no such folder")])
def test_opening_anything_else_tells_to_init(tmp_path, name, found):
    with pytest.raises(ScriptError) as raised:
        ScriptFolder(tmp_path / name)
    assert raised.value.found == found
    assert f"`statemigrate --migrations {tmp_path / name} init`" in raised.value.next_action


def test_a_clone_without_the_empty_versions_folder_still_works(folder):
    folder.versions.rmdir()
    assert folder.lineages() == {}
    assert folder.new("auctions", "first", old=A, new=B).exists()


def test_the_first_script_starts_the_stores_branch(folder):
    path = finish(folder.new("auctions", "Split item", old=A, new=B))
    (migration,) = folder.lineage("auctions").migrations
    assert migration.down_revision is None
    assert (migration.old, migration.new) == (A, B)
    assert migration.message == "Split item"
    assert migration.path == str(path)
    assert path.name == f"{migration.revision}_auctions_split_item.py"
    assert len(migration.revision) == 12
    assert 'branch_labels = ("auctions",)' in path.read_text()


def test_the_next_script_follows_the_head_and_takes_its_format(folder):
    finish(folder.new("auctions", "one", old=A, new=B))
    finish(folder.new("bids", "other", old=B, new=A))
    first = folder.lineage("auctions").head
    path = finish(folder.new("auctions", "two"))
    lineage = folder.lineage("auctions")
    assert lineage.revisions[:2] == (BASE, first)
    last = lineage.migrations[-1]
    assert (last.down_revision, last.old, last.new) == (first, B, B)
    assert f'down_revision = "{first}"' in path.read_text()
    assert "branch_labels = None" in path.read_text()


def test_stores_have_lineages_of_their_own(folder):
    finish(folder.new("bids", "b", old=B, new=A))
    finish(folder.new("auctions", "a", old=A, new=B))
    lineages = folder.lineages()
    assert list(lineages) == ["auctions", "bids"]
    assert lineages["bids"].format_of(BASE) == B
    assert lineages["auctions"].format_of(BASE) == A


def test_a_baseline_only_records_a_format(folder):
    path = folder.new("auctions", "as it is", new=A, baseline=True)
    lineage = folder.lineage("auctions")
    assert lineage.revisions == (path.name.split("_")[0],)
    assert lineage.format_of(lineage.head) == A
    assert "def " not in path.read_text()


def test_a_baseline_must_be_the_first_script(folder):
    folder.new("auctions", "as it is", new=A, baseline=True)
    with pytest.raises(LineageError, match="already has the revision"):
        folder.new("auctions", "again", new=A, baseline=True)


def test_an_old_format_given_for_a_later_script_must_be_the_heads(folder):
    finish(folder.new("auctions", "one", old=A, new=B))
    with pytest.raises(LineageError) as raised:
        folder.new("auctions", "two", old=A)
    assert repr(B) in raised.value.expected
    assert raised.value.found == repr(A)
    assert len(list(folder.versions.glob("*.py"))) == 1


def test_a_script_cannot_follow_an_unfinished_one(folder):
    folder.new("auctions", "one", old=A, new=B)
    with pytest.raises(ScriptError, match="`upgrade` is not written yet"):
        folder.new("auctions", "two")


def test_an_unfinished_script_stops_its_own_store_only(folder):
    folder.new("auctions", "one")
    finish(folder.new("bids", "one", old=A, new=B))
    assert folder.lineage("bids").format_of(BASE) == A
    with pytest.raises(ScriptError, match="`old` is not filled in yet"):
        folder.lineage("auctions")
    with pytest.raises(ScriptError, match="`old` is not filled in yet"):
        folder.lineages()


def test_a_downgrade_left_as_generated_counts_as_none(folder):
    path = finish(folder.new("auctions", "one", old=A, new=B))
    assert folder.lineage("auctions").migrations[0].downgrade is None
    finish(path, downgrade="return {'a': 1}")
    downgrade = folder.lineage("auctions").migrations[0].downgrade
    assert downgrade({"b": "x"}) == {"a": 1}


@pytest.mark.parametrize("store", ["heads", "a@b", "../x", "a:b", "", "base"])
def test_a_store_name_alembic_would_misread_is_refused(folder, store):
    with pytest.raises(LineageError, match="cannot be the name of a store"):
        folder.new(store, "message")
    assert list(folder.versions.iterdir()) == []


def test_a_message_is_needed(folder):
    with pytest.raises(ScriptError, match="needs a message"):
        folder.new("auctions", "  \n ")


def test_an_unknown_store_lists_those_that_are_there(folder):
    finish(folder.new("auctions", "one", old=A, new=B))
    with pytest.raises(LineageError) as raised:
        folder.lineage("bids")
    assert raised.value.expected == "one of auctions"
    assert raised.value.next_action == "`statemigrate new bids -m MESSAGE`"


def test_nothing_but_scripts_is_written_to_the_folder(folder):
    path = finish(folder.new("auctions", "one", old=A, new=B))
    folder.lineages()
    assert files_in(folder) == {
        "script.py.mako",
        "README.md",
        "heads.txt",
        "versions",
        f"versions/{path.name}",
    }


def test_an_edit_of_the_same_size_and_time_is_seen(folder):
    path = finish(folder.new("auctions", "one", old=A, new=B), upgrade="return {'b': '1'}")
    before = path.stat()
    assert folder.lineage("auctions").migrations[0].upgrade({}) == {"b": "1"}
    path.write_text(path.read_text().replace("'1'", "'2'"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert folder.lineage("auctions").migrations[0].upgrade({}) == {"b": "2"}


@pytest.mark.parametrize("ending", ["\n", "  \r\n", "\r"])
def test_the_checksum_is_the_same_however_lines_end(folder, write, ending):
    path = write("a1")
    checksum = folder.lineage("auctions").migrations[0].checksum
    path.write_bytes(path.read_text().replace("\n", ending).encode() + 2 * ending.encode())
    assert folder.lineage("auctions").migrations[0].checksum == checksum


def test_a_path_runs_in_a_process_that_lacks_the_scripts(folder, tmp_path):
    path = finish(folder.new("auctions", "one", old=A, new=B), "return helper(value)")
    helper = "def helper(value):\n    return {'b': str(value['a'])}\n"
    path.write_text(f"{path.read_text()}\n\n{helper}")
    lineage = folder.lineage("auctions")
    data = tmp_path / "path.pickle"
    data.write_bytes(cloudpickle.dumps(lineage.path(BASE, lineage.head)))
    path.unlink()
    program = (
        "import pickle, sys; path = pickle.load(open(sys.argv[1], 'rb')); "
        "print(path.apply({'a': 7}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(data)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(statemigrate.__file__).parents[1])},
    )
    assert ran.stdout.strip() == "{'b': '7'}"


def test_a_lineage_survives_cloudpickle(folder):
    finish(folder.new("auctions", "one", old=A, new=B), "return {'b': str(value['a'])}")
    lineage = folder.lineage("auctions")
    copy = pickle.loads(cloudpickle.dumps(lineage))  # noqa: S301  made just above
    assert copy.revisions == lineage.revisions
    assert copy.formats == lineage.formats
    assert copy.path(BASE, lineage.head).apply({"a": 1}) == {"b": "1"}


def test_heads_and_history_list_newest_first(folder):
    finish(folder.new("auctions", "one", old=A, new=B), downgrade="return {'a': 1}")
    finish(folder.new("auctions", "two"))
    folder.new("bids", "as is", new=A, baseline=True)
    history = [(e.migration.store, e.migration.message, e.is_head) for e in folder.history()]
    assert history == [
        ("auctions", "two", True),
        ("auctions", "one", False),
        ("bids", "as is", True),
    ]
    assert [e.migration.message for e in folder.history("auctions")] == ["two", "one"]
    assert [e.migration.message for e in folder.heads()] == ["two", "as is"]
    assert folder.history()[1].to_json() == {
        "store": "auctions",
        "revision": folder.lineage("auctions").revisions[1],
        "down_revision": None,
        "message": "one",
        "created": folder.history()[1].created,
        "applied": None,
        "head": False,
        "baseline": False,
        "reversible": True,
        "drops": [],
        "lenses": None,
        "losses": None,
        "rewrites": [],
        "questions": [],
        "faults": [],
        "path": folder.lineage("auctions").migrations[0].path,
        "checksum": folder.lineage("auctions").migrations[0].checksum,
    }


def test_a_script_is_shown_by_store_revision_or_both(folder):
    finish(folder.new("auctions", "one", old=A, new=B))
    finish(folder.new("auctions", "two"))
    folder.new("bids", "as is", new=A, baseline=True)
    first, last = folder.lineage("auctions").migrations
    for target in ("auctions", "auctions@head", last.revision, last.revision[:8]):
        assert folder.show(target).migration.revision == last.revision
    for target in ("auctions@-1", "auctions@base+1", f"auctions@{first.revision}"):
        assert folder.show(target).migration.revision == first.revision
    shown = folder.show(first.revision)
    assert (shown.is_head, shown.comparison.verdict) == (False, "needs a transform")
    assert shown.to_json()["old"] == A.to_json()
    assert folder.show("bids").comparison is None


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("auctions@base", "No script made auctions@base"),
        ("zzz", "No script has the revision 'zzz'"),
        ("nothing@head", "is for store 'nothing'"),
        ("", "means scripts of 2 stores"),
    ],
)
def test_what_cannot_be_shown_says_why(folder, target, message):
    finish(folder.new("auctions", "one", old=A, new=B))
    folder.new("bids", "as is", new=A, baseline=True)
    with pytest.raises(LineageError, match=message):
        folder.show(target)


def test_an_avro_format_is_filled_in_too(folder):
    schema = {
        "type": "record",
        "name": "Bid",
        "doc": 'a "quoted" word and a \\ and """ three',
        "fields": [{"name": "price", "type": ["null", "long"], "default": None}],
    }
    finish(folder.new("bids", "one", old=A, new=Avro(schema)))
    finish(folder.new("bids", "two"))
    last = folder.lineage("bids").migrations[-1]
    assert last.old == last.new == Avro(schema)
