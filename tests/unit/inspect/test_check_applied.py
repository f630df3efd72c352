"""`check` compares scripts with what was applied, by `applied.json` and by a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.script_files import script

from statemigrate.commands.applied import record_applied
from statemigrate.deployment import StoredStore
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest
from statemigrate.embedded.versions import manifest_name, publish_manifest
from statemigrate.errors import CheckpointError, CorruptFileError, ScriptError
from statemigrate.formats import Struct
from statemigrate.inspect.script_check import check
from statemigrate.native.deployment_check import StoreRecord, write_record
from statemigrate.scripts.loading import load
from statemigrate.state.open import applied_by

Applied = dict[str, dict[str, str]]
HEAD = "m/versions/a2.py"
KEY = Struct("id BIGINT").struct_type().jsonValue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    script(Path("m"), "a1")
    script(Path("m"), "a2", "a1")
    script(Path("m"), "b1", store="bids")
    return Path("m")


def checksum(folder: Path, revision: str) -> str:
    return load(folder / "versions" / f"{revision}.py").checksum


def present(folder: Path) -> Applied:
    """All scripts applied as they are."""
    sums = {revision: checksum(folder, revision) for revision in ("a1", "a2", "b1")}
    return {"auctions": {"a1": sums["a1"], "a2": sums["a2"]}, "bids": {"b1": sums["b1"]}}


def embedded(applied: Applied, version: int = 3) -> str:
    layout = Layout.of("embedded")
    stores = {store: StoredStore("value", (), checksums) for store, checksums in applied.items()}
    publish_manifest(layout, Manifest(version, KEY, (), stores, {}))
    (layout.checkpoint / "commits").mkdir(exist_ok=True)
    (layout.checkpoint / "commits" / str(version)).touch()
    return "embedded"


def native(applied: Applied) -> str:
    record = {store: StoreRecord((), 1, checksums) for store, checksums in applied.items()}
    write_record("native", record)
    return "native"


def recorded(folder: Path, applied: Applied) -> Path:
    path = folder / "applied.json"
    path.write_text(json.dumps({"format": 1, "applied": applied}))
    return path


def edited(before: str, now: str, source: str) -> str:
    return (
        f"{HEAD}: the script was edited after it was applied (expected checksum {before[:12]}, as "
        f"in {source}; found checksum {now[:12]}); next: restore the script and make the change "
        "in a new migration: `statemigrate new auctions -m MESSAGE`; if values migrate the same "
        "as before, deploy with accept_edited=('a2',), then "
        "`statemigrate check --checkpoint PATH --record`"
    )


def lines(folder: Path, checkpoint: str | None = None) -> list[str]:
    return [str(finding) for finding in check(folder, checkpoint=checkpoint).findings]


@pytest.mark.parametrize("made", [embedded, native])
def test_a_checkpoint_tells_what_was_applied(folder: Path, made) -> None:
    applied = present(folder)
    checkpoint = made(applied)
    assert applied_by(checkpoint) == applied
    assert lines(folder, checkpoint) == []
    script(folder, "a2", "a1", upgrade="return dict(value)")
    before, now = applied["auctions"]["a2"], checksum(folder, "a2")
    assert lines(folder, checkpoint) == [edited(before, now, checkpoint)]
    assert lines(folder) == []


def test_what_was_recorded_needs_no_checkpoint(folder: Path) -> None:
    applied = present(folder)
    recorded(folder, applied)
    assert lines(folder) == []
    path = script(folder, "a2", "a1", upgrade="return dict(value)")
    before, now = applied["auctions"]["a2"], checksum(folder, "a2")
    assert lines(folder) == [edited(before, now, "m/applied.json")]
    assert lines(folder, native(applied)) == [edited(before, now, "m/applied.json")]
    path.unlink()
    assert lines(folder) == [
        "auctions: revision a2 was applied, and no script has it any more (expected revision a2, "
        "as in m/applied.json; found only a1); next: restore the script from version control, as "
        "checkpoints hold values of that revision"
    ]
    script(folder, "a2", "a1")
    assert lines(folder) == []


def test_an_applied_store_may_not_vanish(folder: Path) -> None:
    recorded(folder, {"gone": {"g1": "0" * 64}})
    (finding,) = check(folder).findings
    assert (finding.store, finding.revision, finding.found) == (
        "gone",
        "g1",
        "no script of this store",
    )


def test_an_applied_script_that_does_not_import_is_found_once(folder: Path) -> None:
    recorded(folder, present(folder))
    script(folder, "a2", "a1", new="(")
    assert [finding.kind for finding in check(folder).findings] == ["script"]


def test_line_endings_and_trailing_spaces_are_no_edit(folder: Path) -> None:
    recorded(folder, present(folder))
    path = folder / "versions" / "a2.py"
    path.write_bytes(path.read_bytes().replace(b"\n", b"  \r\n"))
    assert lines(folder) == []


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": 2, "applied": {}}', '{"format": 1, "applied": {"a": 1}}'],
)
def test_an_applied_json_that_cannot_be_read_is_a_finding(folder: Path, text: str) -> None:
    (folder / "applied.json").write_text(text)
    (finding,) = check(folder).findings
    assert (finding.kind, finding.path) == ("applied", "m/applied.json")
    assert finding.summary == "it does not say what was applied"
    with pytest.raises(ScriptError, match="does not say what was applied"):
        record_applied(native({}), migrations=folder)
    assert (folder / "applied.json").read_text() == text


def test_recording_merges_and_the_checkpoint_outranks_the_file(folder: Path) -> None:
    now = present(folder)
    recorded(folder, {"auctions": {"a0": "0" * 64, "a2": "1" * 64}, "other": {"o1": "2" * 64}})
    path = record_applied(embedded(now), migrations=folder)
    assert path == folder / "applied.json"
    merged = {
        "auctions": {"a0": "0" * 64, **now["auctions"]},
        "bids": now["bids"],
        "other": {"o1": "2" * 64},
    }
    text = json.dumps({"applied": merged, "format": 1}, indent=2, sort_keys=True)
    assert path.read_text() == f"{text}\n"
    assert sorted(each.name for each in folder.glob("applied*")) == ["applied.json"]


def test_a_checkpoint_without_a_committed_batch_has_nothing_applied(folder: Path) -> None:
    checkpoint = embedded(present(folder), version=0)
    Path(checkpoint, "commits", "0").unlink()
    assert applied_by(checkpoint) == {}
    Path("plain/offsets").mkdir(parents=True)
    assert applied_by("plain") == {}


@pytest.mark.parametrize("path", ["nothing", "m", "file"])
def test_what_is_no_checkpoint_is_an_error(folder: Path, path: str) -> None:
    Path("file").touch()
    with pytest.raises(CheckpointError) as caught:
        check(folder, checkpoint=path)
    assert caught.value.summary == f"{path} is not the checkpoint of a streaming query"
    assert caught.value.data == {"path": path}
    with pytest.raises(CheckpointError):
        record_applied(path, migrations=folder)
    assert not (folder / "applied.json").exists()


def test_a_damaged_checkpoint_is_an_error(folder: Path) -> None:
    checkpoint = embedded(present(folder))
    (Layout.of(checkpoint).checkpoint / manifest_name(3, 1)).write_text("{}")
    with pytest.raises(CorruptFileError):
        check(folder, checkpoint=checkpoint)
