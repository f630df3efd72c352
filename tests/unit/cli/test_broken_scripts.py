"""What one diagnoses with works while a script is unfinished, broken or one of two heads."""

import json
from pathlib import Path

import pytest
from support.script_files import script

FOLDER = Path("migrations")
SAME = "return value"


@pytest.fixture
def sound(run):
    """bids: two scripts in order."""
    script(FOLDER, "b1", store="bids")
    script(FOLDER, "b2", "b1", store="bids")
    return run


def unfinished(run):
    script(FOLDER, "a1")
    run("new", "auctions", "-m", "split the item")


def unimportable(run):
    script(FOLDER, "a1")
    script(FOLDER, "a2", "a1", new="(")


def two_headed(run):
    script(FOLDER, "a1")
    script(FOLDER, "a2", "a1")
    script(FOLDER, "a3", "a1")


def circular(run):
    script(FOLDER, "a1", "a2")
    script(FOLDER, "a2", "a1")


def orphaned(run):
    script(FOLDER, "a2", "a1")


BREAK = [unfinished, unimportable, two_headed, circular, orphaned]


@pytest.mark.parametrize("broken", BREAK)
def test_the_other_stores_verbs_go_on(sound, broken):
    broken(sound)
    for verb in (
        ["history", "bids"],
        ["history", "--show", "bids"],
        ["history", "--show", "b1"],
        ["history", "--show", "bids@-1"],
    ):
        assert "Wrong" not in sound(*verb).stdout
    Path("values.jsonl").write_text('{"a": 1}\n')
    sound("dry-run", "bids", "--from-file", "values.jsonl")
    sound("new", "bids", "-m", "more", "--to", "a BIGINT, b INT")


@pytest.mark.parametrize("broken", BREAK)
def test_every_script_is_listed_with_what_is_wrong_and_the_exit_code_says_so(sound, broken):
    broken(sound)
    files = {str(path) for path in (FOLDER / "versions").glob("*.py")}
    for words in (["history"], ["history", "--heads"]):
        listed = json.loads(sound(*words, "--json", code=1).stdout)
        faulty = [entry for entry in listed if entry["faults"]]
        assert {entry["store"] for entry in faulty} <= {"auctions"}
        assert {entry["path"] for entry in listed} <= files
    assert {entry["path"] for entry in json.loads(sound("history", "--json", code=1).stdout)} == (
        files
    )
    text = sound("history", code=1).stdout
    assert "Wrong: " in text
    assert "Next: " in text


def test_an_unfinished_script_stands_in_its_place(sound):
    unfinished(sound)
    (path,) = FOLDER.glob("versions/*_split_the_item.py")
    revision = path.name.partition("_")[0]
    today = json.loads(sound("history", "--json", code=1).stdout)[0]["created"][:10]
    lines = sound("history", "auctions", code=1).stdout.splitlines()
    assert [line.split() for line in lines[2:4]] == [
        [revision, "a1", "head,", "broken", "?", today, "split", "the", "item"],
        ["a1", "base", "no", "2026-01-01", "Change", "something"],
    ]
    assert lines[4:] == [
        f"  Wrong: {path}: `upgrade` is not written yet. [SM-SCRIPT-012]",
        "    expected: a function `upgrade(value)` that returns the value in the format `new`",
        "    found: raise NotImplementedError",
        "    Next: write `upgrade`; where only the format is recorded, set `old = None` instead",
    ]


def test_what_can_be_read_of_an_unfinished_script_is_shown(sound):
    unfinished(sound)
    for name in ("auctions", "auctions@head"):
        document = json.loads(sound("history", "--show", name, "--json", code=1).stdout)
        assert (document["down_revision"], document["message"]) == ("a1", "split the item")
        assert document["old"]["kind"] == "struct"
        assert (document["verdict"], document["reversible"]) == ("identical", None)
        assert [fault["next"] for fault in document["faults"]] == [
            "write `upgrade`; where only the format is recorded, set `old = None` instead",
        ]


def test_a_script_that_does_not_import_is_known_by_its_text(sound):
    unimportable(sound)
    (entry, _) = json.loads(sound("history", "auctions", "--json", code=1).stdout)
    assert (entry["revision"], entry["down_revision"], entry["head"]) == ("a2", "a1", True)
    assert "line 13: the script does not import" in entry["faults"][0]["summary"]
    assert "way back: ?" in sound("history", "--show", "a2", code=1).stdout


def test_both_heads_are_shown_and_the_fault_once(sound):
    two_headed(sound)
    text = sound("history", "auctions", code=1).stdout
    assert text.count("Store 'auctions' has two heads: a2 and a3.") == 1
    rows = [line.split()[0] for line in text.splitlines()[2:5]]
    assert rows == ["a3", "a2", "a1"]
    assert text.count("head, broken") == 2
    heads = json.loads(sound("history", "--heads", "--json", code=1).stdout)
    assert [(entry["store"], entry["revision"]) for entry in heads] == [
        ("auctions", "a3"),
        ("auctions", "a2"),
        ("bids", "b2"),
    ]
    assert "has two heads" in sound("history", "--show", "a2", code=1).stdout
    error = sound("history", "--show", "auctions", code=1).stderr
    assert "'head' means 2 of the scripts of store 'auctions', which form no chain." in error
    assert "found: a3, a2" in error
    sound("history", "--show", "a1")


def test_a_script_without_a_store_is_listed_by_itself(sound):
    script(FOLDER, "x1", without="store = 'auctions'\n")
    text = sound("history", code=1).stdout
    assert "(no store)\n" in text
    assert "`store` missing." in text
    sound("history", "bids")
    assert "`store` missing." in sound("history", "--show", "x1", code=1).stdout
