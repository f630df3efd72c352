"""Links planted in a checkpoint of Spark's own state are not followed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from statemigrate.errors import ForeignFileError
from statemigrate.native.chunks import ChunkFiles, PlanRecord
from statemigrate.native.deployment_check import StoreRecord, read_record, write_record
from statemigrate.state.open import applied_by, engine_of

PLAN = PlanRecord("plan", 1, 1, -1)
RECORD = {"words": StoreRecord(("words",), 0, {})}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """What the links lead to: somebody's directories and files."""
    home = tmp_path / "home"
    for name in ("documents", "pictures"):
        (home / name).mkdir(parents=True)
        (home / name / "file.json").write_text("mine")
    (home / "note").write_text("mine")
    return home


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    directory = tmp_path / "checkpoint"
    for name in ("offsets", "commits", "state", "statemigrate/control"):
        (directory / name).mkdir(parents=True)
    (directory / "metadata").write_text(json.dumps({"id": "query"}))
    return directory


def contents(directory: Path) -> dict[str, str]:
    files = (each for each in directory.rglob("*") if each.is_file())
    return {str(each.relative_to(directory)): each.read_text() for each in files}


def test_pausing_a_backfill_deletes_no_directory_behind_a_link(
    checkpoint: Path, home: Path
) -> None:
    before = contents(home)
    (checkpoint / "statemigrate/control/chunks").symlink_to(home)
    with pytest.raises(ForeignFileError, match="statemigrate/control/chunks"):
        ChunkFiles(str(checkpoint)).withdraw()
    assert contents(home) == before


def test_pausing_removes_a_link_that_stands_for_a_plan_and_not_what_is_behind(
    checkpoint: Path, home: Path
) -> None:
    before = contents(home)
    (checkpoint / "statemigrate/control/plan.json").symlink_to(home / "note")
    chunks = checkpoint / "statemigrate/control/chunks"
    (chunks / "plan").mkdir(parents=True)
    (chunks / "plan" / "part.json").write_text("{}")
    (chunks / "linked").symlink_to(home)
    (chunks / "plan" / "linked").symlink_to(home)
    assert ChunkFiles(str(checkpoint)).withdraw() == 1
    assert contents(home) == before
    assert [each.name for each in chunks.iterdir()] == ["linked"]


WRITES: dict[str, Callable[[str], object]] = {
    "statemigrate/control/plan.json": lambda path: ChunkFiles(path).write_plan(PLAN),
    "statemigrate/deployed.json": lambda path: write_record(path, RECORD),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_document_is_not_written_through_links(checkpoint: Path, home: Path, name: str) -> None:
    before = contents(home)
    for planted in (name, f"{name}.new"):
        (checkpoint / planted).symlink_to(home / "note")
    WRITES[name](str(checkpoint))
    assert contents(home) == before
    assert not (checkpoint / name).is_symlink()
    assert "mine" not in (checkpoint / name).read_text()


READS: dict[str, Callable[[str], object]] = {
    "statemigrate/control/plan.json": lambda path: ChunkFiles(path).plan(),
    "statemigrate/deployed.json": read_record,
    "metadata": lambda path: ChunkFiles(path).directory.query_id(),
    "commits/3": lambda path: ChunkFiles(path).log(),
    "offsets/3": lambda path: ChunkFiles(path).offsets(),
    "statemigrate/versions/x": engine_of,
    "statemigrate/versions/1": applied_by,
}


@pytest.mark.parametrize("name", READS)
def test_nothing_is_read_through_a_linked_directory(
    checkpoint: Path, home: Path, name: str
) -> None:
    place = checkpoint / name.split("/", maxsplit=1)[0]
    if place.is_dir():
        place.rename(checkpoint / "elsewhere")
        place.symlink_to(checkpoint / "elsewhere")
    else:
        place.rename(checkpoint / "elsewhere")
        place.symlink_to(home / "note")
    with pytest.raises(ForeignFileError, match=place.name):
        READS[name](str(checkpoint))


def test_a_checkpoint_that_is_a_link_itself_is_read(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "mounted").symlink_to(checkpoint)
    mounted = str(tmp_path / "mounted")
    write_record(mounted, RECORD)
    assert read_record(mounted) == RECORD
    assert read_record(checkpoint.as_uri()) == RECORD
    assert ChunkFiles(mounted).directory.query_id() == "query"
    assert ChunkFiles(mounted).plan() is None
