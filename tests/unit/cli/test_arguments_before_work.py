"""What is wrong with a command's words is said before Spark is started."""

import json
from pathlib import Path

import pytest
from support.offset_logs import checkpoint, put
from support.script_files import script

PROPERTIES = json.dumps(
    {"timeMode": "None", "stateVariables": [{"stateName": "auctions"}, {"stateName": "seen"}]}
)
OPERATOR = {
    "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateExec"},
    "stateStoreInfo": [
        {
            "storeName": "default",
            "numColsPrefixKey": 0,
            "numPartitions": 2,
            "stateSchemaFilePaths": ["file:/c/state/0/_stateSchema/default/0_0"],
        }
    ],
    "operatorPropertiesJson": PROPERTIES,
}


@pytest.fixture
def native(run, tmp_path, monkeypatch) -> str:
    """A checkpoint of Spark's own state, with scripts for its two stores and for another one."""

    def start():
        raise AssertionError("Spark was started")

    monkeypatch.setattr("statemigrate.cli.session.local_session", start)
    for number, store in enumerate(("auctions", "seen", "other")):
        script(Path("migrations"), f"r{number}", store=store)
    root = checkpoint(tmp_path / "c")
    put(root / "state/0/_metadata/v2/0", f"v2\n{json.dumps(OPERATOR)}")
    return str(root)


NOWHERE = [
    ["dry-run", "auctions", "--html", "no/such/report.html"],
    ["dry-run", "auctions", "--junit", "no/such/report.xml"],
    ["status", "--failed=auctions", "--output", "no/such/values.jsonl"],
]


@pytest.mark.parametrize("words", NOWHERE, ids=lambda words: words[0] + words[2])
def test_a_file_in_a_folder_that_does_not_exist(run, native, words):
    error = run(*words, "--checkpoint", native, code=2).stderr
    assert f"Invalid value for '{words[2]}': there is no directory no/such" in error


def test_a_file_that_is_a_folder(run, native):
    error = run("dry-run", "auctions", "--html", ".", "--checkpoint", native, code=2).stderr
    assert "Invalid value for '--html': . is a directory" in error


def test_a_file_to_export_to_in_a_folder_that_does_not_exist(run, native):
    to = ["--output", "no/such/values.jsonl"]
    error = run("export", "auctions", *to, "--checkpoint", native, code=1).stderr
    assert "found: no no/such" in error


@pytest.mark.parametrize(
    "words", [["get", "other", "1"], ["export", "other", "--output=x.avro"], ["dry-run", "other"],
              ["status", "--failed", "other"]], ids=lambda words: words[0],
)  # fmt: skip
def test_a_store_that_the_checkpoint_does_not_have(run, native, words):
    error = run(*words, "--checkpoint", native, code=1).stderr
    assert error.startswith(f"Error: the checkpoint {native} has no store other [SM-STATE-033]\n")
    assert "expected: one of auctions, seen\n" in error


@pytest.mark.parametrize("words", [["dry-run"], ["status", "--failed"]])
def test_a_store_without_scripts(run, native, words):
    error = run(*words, "nothing", "--checkpoint", native, code=1).stderr
    assert "is for store 'nothing'" in error


def test_a_target_that_is_no_revision(run, native):
    target = ["--target", "auctions=zz"]
    error = run("dry-run", "auctions", *target, "--checkpoint", native, code=1).stderr
    assert "Store 'auctions' has no revision 'zz'" in error


def test_what_is_right_gets_as_far_as_the_state(run, native):
    # Which this checkpoint lacks: nothing is wrong with the words.
    error = run("get", "auctions", "1", "--checkpoint", native, code=1).stderr
    assert "[SM-CHECKPOINT-013]" in error
    assert "state/0/_stateSchema/default/0_0 does not say what" in error
