"""A checkpoint that was moved is made to name its own files, and what cannot go on is refused."""

import itertools
import json
import shutil

import pytest
from support.offset_logs import (
    METADATA,
    checkpoint,
    lines,
    old_operator,
    operator,
    put,
    run_batch,
    tree,
)

from statemigrate.checkpoint.operators.metadata import OperatorFile, is_at, is_local, operator_files
from statemigrate.errors import CheckpointError
from statemigrate.files import LocalFiles
from statemigrate.native.adoption import adopt, undo_adoption
from statemigrate.native.adoption_files import plan_relocation
from statemigrate.native.chunks import CHUNKS

V2 = "state/0/_metadata/v2/0"
ENVELOPE = [{"name": "revision", "type": "string"}, {"name": "payload", "type": "binary"}]
FUNCTION = "applyInPandasWithState"


@pytest.fixture
def moved(tmp_path):
    """A copy whose metadata name the place it was copied from, which is gone."""
    root = checkpoint(tmp_path / "old")
    shutil.copytree(root, tmp_path / "new")
    shutil.rmtree(root)
    return tmp_path / "new"


def schemas(root):
    """The schema files that the metadata name."""
    text = (root / V2).read_text()
    document = json.loads(text.removeprefix("v2\n"))
    return document["stateStoreInfo"][0]["stateSchemaFilePaths"]


def refused(root):
    before = tree(root)
    with pytest.raises(CheckpointError) as caught:
        adopt(str(root), apply=True, wait=0)
    assert tree(root) == before
    return caught.value


def test_adopting_a_moved_checkpoint_makes_it_name_its_own_files_and_says_so(moved, tmp_path):
    before = tree(moved)
    would = adopt(str(moved))
    assert tree(moved) == before
    assert (would.state, would.relocated) == ("would prepare", (V2,))
    assert would.moved_from == (f"file:{tmp_path}/old",)
    done = adopt(str(moved), apply=True, wait=0)
    assert (done.state, done.relocated) == ("prepared", (V2,))
    assert schemas(moved) == [f"file:{moved}/state/0/_stateSchema/default/0_0"]
    assert not (moved / "state/0/_metadata/v2/.0.crc").exists()
    assert lines(moved)[2] == ['{"logOffset": 2}', "-"]
    (kept,) = (moved / "statemigrate/adoption/moved").glob(f"*/{V2}")
    assert kept.read_bytes() == before[V2]


def test_only_the_paths_are_changed(moved):
    before = json.loads((moved / V2).read_text().removeprefix("v2\n"))
    adopt(str(moved), apply=True, wait=0)
    after = json.loads((moved / V2).read_text().removeprefix("v2\n"))
    before["stateStoreInfo"][0]["stateSchemaFilePaths"] = schemas(moved)
    assert after == before


def test_a_query_that_needs_no_room_is_only_made_to_name_its_files(moved):
    for number in (1, 2):
        put(moved / "offsets" / str(number), f"v2\n{METADATA}\norders:x")
    before = lines(moved)
    assert adopt(str(moved)).state == "would relocate"
    done = adopt(str(moved), apply=True, wait=0)
    assert (done.state, done.relocated, done.files) == ("relocated", (V2,), ())
    assert lines(moved) == before
    assert adopt(str(moved)).state == "nothing needed"


def test_one_that_was_adopted_before_it_was_moved_too(tmp_path):
    root = checkpoint(tmp_path / "old")
    adopt(str(root), apply=True, wait=0)
    root.rename(tmp_path / "new")
    done = adopt(str(tmp_path / "new"), apply=True, wait=0)
    assert (done.state, done.relocated) == ("relocated", (V2,))
    with pytest.raises(CheckpointError, match="was prepared already"):
        adopt(str(tmp_path / "new"))
    assert undo_adoption(str(tmp_path / "new"), apply=True, wait=0).state == "undone"


def test_a_crash_between_any_two_steps_can_be_finished(moved):
    before = tree(moved)
    for after in itertools.count(1):
        shutil.rmtree(moved)
        for name, data in before.items():
            if data is not None:
                (moved / name).parent.mkdir(parents=True, exist_ok=True)
                (moved / name).write_bytes(data)
        whole = (
            len(list(itertools.islice(plan_relocation(LocalFiles(moved)).steps(), after))) == after
        )
        adopt(str(moved), apply=True, wait=0)
        assert schemas(moved) == [f"file:{moved}/state/0/_stateSchema/default/0_0"]
        if not whole:
            break
    assert after > 3


def test_a_copy_without_its_schemas_is_refused(moved):
    shutil.rmtree(moved / "state/0/_stateSchema")
    assert "moved without all of its files" in str(refused(moved))


def test_a_query_that_has_the_control_source_from_its_first_day_is_refused(tmp_path):
    root = checkpoint(tmp_path / "c", sources=1)
    (root / CHUNKS).mkdir(parents=True)
    for number in (3, 4):
        run_batch(root, number, '{"logOffset":3}', "-")
    assert "has the backfill source already" in str(refused(root))


@pytest.mark.parametrize("name", ["with space", "per%20cent", "a[1]", "q?"])
def test_a_path_that_the_next_step_refuses_is_refused_here(tmp_path, name):
    root = checkpoint(tmp_path / name)
    assert str(root) in str(refused(root))


@pytest.mark.parametrize("name", ["dedupe", "stateStoreSave"])
def test_state_that_nothing_migrates_is_refused(tmp_path, name):
    root = checkpoint(tmp_path / "c")
    old_operator(root, 0, name, {"type": "struct", "fields": []})
    shutil.rmtree(root / "state/0/_metadata/v2", ignore_errors=True)
    assert refused(root).found == name
    operator(root, 1)
    assert adopt(str(root)).state == "would prepare"


def test_a_query_without_state_is_refused(tmp_path):
    root = checkpoint(tmp_path / "c")
    shutil.rmtree(root / "state")
    assert refused(root).found == "no stateful operator"


def test_a_function_is_adopted_with_an_envelope_and_refused_with_a_bare_struct(tmp_path):
    for name, fields in (("bare", [{"name": "n", "type": "long"}]), ("envelope", ENVELOPE)):
        root = checkpoint(tmp_path / name)
        shutil.rmtree(root / "state")
        state = {"name": "groupState", "type": {"type": "struct", "fields": fields}}
        old_operator(root, 0, FUNCTION, {"type": "struct", "fields": [state]})
        if name == "envelope":
            assert adopt(str(root)).state == "would prepare"
        else:
            error = refused(root)
            assert "cannot be migrated in place" in str(error)
            assert f"`statemigrate rewrite {root} NEW --code " in error.next_action


@pytest.mark.parametrize(
    "content",
    [
        "",
        "v2",
        "v2\n{}",
        "v3\n{}",
        'v2\n{"stateStoreInfo":[{"stateSchemaFilePaths":["/elsewhere/schema"]}]}',
        'v2\n{"stateStoreInfo":[{"stateSchemaFilePaths":["file:/c/state/0/_stateSchema/../x"]}]}',
        "v2\n" + "[" * 100_000,
    ],
)
def test_metadata_that_are_not_spark_s_are_refused(tmp_path, content):
    root = checkpoint(tmp_path / "c")
    (root / V2).write_text(content)
    assert "does not describe a stateful operator as Spark does" in str(refused(root))


def test_metadata_too_large_to_be_spark_s_are_refused(tmp_path):
    root = checkpoint(tmp_path / "c")
    with (root / V2).open("ab") as file:
        file.truncate(17 * 1024 * 1024)
    assert "more than 16,777,216 bytes" in str(refused(root))


def test_which_texts_are_one_place():
    assert is_at("file:/a/b", "file:///a/b/")
    assert is_at("/a/b", "file:/a/b")
    assert not is_at("file:/a/b", "file:/a/c")
    assert is_local("file:/a")
    assert is_local("/a")
    assert not any(map(is_local, ("s3://b/a", "hdfs://h/a", "file://h/a")))
    assert not is_at("s3://one/a", "s3://two/a")
    assert not is_at("hdfs://host:8020/a", "/a")


def test_every_operator_s_files_are_found(tmp_path):
    root = checkpoint(tmp_path / "c")
    operator(root, 2)
    put(root / "state/2/_metadata/v2/7", (root / "state/2/_metadata/v2/0").read_text())
    found = operator_files(LocalFiles(root))
    assert [each.path for each in found] == [V2, *(f"state/2/_metadata/v2/{n}" for n in (0, 7))]
    assert all(isinstance(each, OperatorFile) for each in found)
    assert {root for each in found for root in each.roots} == {f"file:{root}"}
