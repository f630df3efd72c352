"""A run without input gets a batch, so that what is empty is dropped."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import parquet
from support.offset_logs import checkpoint

from statemigrate.checkpoint.logs import Offsets
from statemigrate.deployment import DeploymentSettings, StoredFamily
from statemigrate.files import LocalFiles
from statemigrate.formats import Struct
from statemigrate.native.chunks import CHUNKS, ChunkFiles
from statemigrate.native.control_source import ask_to_retire, takes_keys
from statemigrate.native.deployed_variables import DEPLOYED, Deployed
from statemigrate.native.deployment_check import ObservedCheckpoint

EMPTY = StoredFamily("tally", "base", Struct("n BIGINT"), "nothing")


@pytest.fixture
def files(tmp_path: Path) -> ChunkFiles:
    made = ChunkFiles(str(checkpoint(tmp_path / "c")))
    made.create()
    return made


def asked(files: ChunkFiles) -> list[str]:
    found = Path(files.path).rglob("*.parquet")
    return sorted(str(path.relative_to(files.path)) for path in found)


def test_it_asks_for_no_key_and_is_no_chunk_of_a_plan(files: ChunkFiles) -> None:
    files.ask_for_batch(7)
    files.ask_for_batch(7)
    assert asked(files) == ["empty/7.parquet"]
    assert parquet.read_table(f"{files.path}/empty/7.parquet").num_rows == 0
    assert files.written() == set()
    assert files.withdraw() == 0
    assert asked(files) == [], "a new plan makes batches of its own"


def test_a_chunk_that_waits_makes_a_batch_by_itself(files: ChunkFiles) -> None:
    chunk = Path(files.path) / "aa" / "part-0.parquet"
    chunk.parent.mkdir()
    chunk.write_bytes(b"PAR1")
    files.ask_for_batch(7)
    assert asked(files) == ["aa/part-0.parquet"]
    assert files.withdraw() == 1


@pytest.mark.parametrize(
    ("drained", "settings", "expected"),
    [
        ({"tally": (EMPTY,)}, DeploymentSettings(), ["empty/3.parquet"]),
        ({"tally": (EMPTY,)}, DeploymentSettings(retire_drained=False), []),
        ({"tally": ()}, DeploymentSettings(), []),
    ],
    ids=["empty", "kept", "nothing"],
)
def test_a_batch_is_asked_for_where_it_drops_something(
    files: ChunkFiles, drained: Any, settings: DeploymentSettings, expected: list[str]
) -> None:
    seen = ObservedCheckpoint(files.checkpoint, "query", 3)
    code = SimpleNamespace(**{DEPLOYED: Deployed(settings, {}, drained=drained, observed=seen)})
    ask_to_retire(files, code)
    assert asked(files) == expected


def test_a_function_has_no_family_to_drop(files: ChunkFiles) -> None:
    ask_to_retire(files, lambda: None)
    assert asked(files) == []


def control(offset: int) -> Offsets:
    """The line of the stream, and that of its backfill source."""
    return Offsets(named=False, lines=('{"logOffset":3}', f'{{"logOffset":{offset}}}'))


def log_of(root: Path, *paths: str) -> LocalFiles:
    folder = root / "sources" / "1"
    folder.mkdir(parents=True)
    for number, path in enumerate(paths):
        entry = {"path": f"file://{root}/{CHUNKS}/{path}", "timestamp": 1, "batchId": number}
        (folder / str(number)).write_text(f"v1\n{json.dumps(entry)}")
    return LocalFiles(root)


@pytest.mark.parametrize("folder", ["", "chunks/empty", "statemigrate/control/chunks/empty"])
def test_a_batch_takes_keys_if_one_of_its_chunks_has_them(tmp_path: Path, folder: str) -> None:
    files = log_of(tmp_path / folder, "empty/2.parquet", "aa/part-0.parquet", "empty/5.parquet")
    found = {
        (since, until): takes_keys(files, ["1"], control(since), control(until))
        for since in range(-1, 3)
        for until in range(since, 3)
    }
    assert {pair for pair, has in found.items() if has} == {(-1, 1), (-1, 2), (0, 1), (0, 2)}
    assert not takes_keys(files, [], control(-1), control(2))


def test_what_a_source_has_taken_and_no_log_names_may_have_keys(tmp_path: Path) -> None:
    files = log_of(tmp_path, "empty/2.parquet")
    assert takes_keys(files, ["1"], control(0), control(1))
    other = Offsets(named=False, lines=('{"logOffset":3}', '{"topic":{"0":1}}'))
    assert takes_keys(files, ["1"], control(0), other)
