"""A run without input gets a batch, so that what is empty is dropped."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import parquet
from support.offset_logs import checkpoint

from statemigrate.deployment import DeploymentSettings, StoredFamily
from statemigrate.formats import Struct
from statemigrate.native.chunks import ChunkFiles
from statemigrate.native.control_source import ask_to_retire
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
