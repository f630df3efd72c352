"""State that Spark cannot load is a problem with a store, a partition and a file."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from support.spark_checkpoints import aggregation, variables

from statemigrate.checkpoint.shape import describe
from statemigrate.checkpoint.stores.files import LARGEST_SMALL, Snapshot, written_snapshot
from statemigrate.errors import CheckpointError, CorruptFileError, RewriteError, StorageError
from statemigrate.files import LocalFiles
from statemigrate.rewrite.verify_findings import LoadedState


def loaded(root: Path) -> LoadedState:
    return LoadedState(LocalFiles(root), describe(LocalFiles(root)))


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def changelogs(root: Path) -> Path:
    """All versions from the first are changelogs."""
    for each in variables(root).glob("state/0/*/1.zip"):
        each.unlink()
    return root


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1])


def archived(manifest: bytes) -> bytes:
    """A snapshot of a store without tables, with a file that RocksDB alone reads."""
    return written_snapshot(Snapshot(families={"default": 0, "count": 1}), {"MANIFEST-1": manifest})


def without_tables(root: Path) -> Path:
    for each in variables(root).glob("state/0/*/1.zip"):
        each.write_bytes(archived(b"manifest"))
    return root


def altered(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        files = {each: archive.read(each) for each in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    path.write_bytes(path.read_bytes().replace(b"manifest", b"manifesT"))


def swollen(path: Path) -> None:
    """A gigabyte and more of nothing, by what the archive says of it."""
    data = bytearray(archived(b"manifest"))
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = (LARGEST_SMALL + 1).to_bytes(4, "little")
    path.write_bytes(data)


DAMAGES: dict[str, tuple[Callable[..., Path], str, Callable[[Path], None]]] = {
    "a delta is gone": (aggregation, "state/0/1/3.delta", Path.unlink),
    "a delta is cut": (aggregation, "state/0/1/3.delta", cut),
    "a delta is altered": (aggregation, "state/0/1/3.delta", flipped),
    "a changelog is gone": (changelogs, "state/0/1/3.changelog", Path.unlink),
    "a changelog is altered": (changelogs, "state/0/1/3.changelog", flipped),
    # What the first partition has in place of RocksDB's tables is none.
    "a table is gone": (variables, "state/0/0/SSTs/000000-x.sst", Path.unlink),
    "a snapshot is no archive": (variables, "state/0/0/1.zip", cut),
    "a table is none of RocksDB's": (
        variables,
        "state/0/0/SSTs/000000-x.sst",
        lambda path: path.write_bytes(b"none"),
    ),
    "a small file of RocksDB's is altered": (without_tables, "state/0/1/1.zip", altered),
    "the small files of RocksDB are not small": (without_tables, "state/0/1/1.zip", swollen),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_is_named_by_store_partition_and_file(tmp_path: Path, name: str) -> None:
    make, file, damage = DAMAGES[name]
    root = make(tmp_path / "checkpoint")
    state = loaded(root)
    damage(root / file)
    (operator,) = state.shape.operators
    with pytest.raises(CorruptFileError) as caught, state.loading(operator):
        raise PySparkException("An error occurred while calling o128.collectToPython")
    partition = int(file.split("/")[2])
    assert (caught.value.data["store"], caught.value.data["partition"]) == ("default", partition)
    assert str(root / file) in caught.value.summary
    assert isinstance(caught.value.__cause__, PySparkException)


def test_where_the_files_are_sound_it_is_said_what_spark_says(tmp_path: Path) -> None:
    state = loaded(aggregation(tmp_path / "checkpoint"))
    (operator,) = state.shape.operators
    with pytest.raises(CheckpointError) as caught, state.loading(operator):
        raise PySparkException("no memory left\nat org.apache.spark")
    assert caught.value.found == "no memory left"
    assert caught.value.data["path"].endswith("state/0")


def test_a_snapshot_without_tables_is_sound(tmp_path: Path) -> None:
    root = variables(tmp_path / "checkpoint")
    sink = io.BytesIO()
    document = {"sstFiles": [], "numKeys": 0, "columnFamilyMapping": {"default": 0, "count": 1}}
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("metadata", f"v1\n{json.dumps(document)}")
    for partition in range(2):
        (root / f"state/0/{partition}/1.zip").write_bytes(sink.getvalue())
    assert list(loaded(root).damage(0)) == []


def test_an_error_of_this_package_is_passed_on_as_it_is(tmp_path: Path) -> None:
    state = loaded(aggregation(tmp_path / "checkpoint"))
    (operator,) = state.shape.operators
    with pytest.raises(RewriteError, match="as it is"), state.loading(operator):
        raise RewriteError("SM-REWRITE-002", "as it is")


class Thrown:
    """What Java throws where an answer of a bucket ends before it is whole."""

    def getClass(self) -> "Thrown":
        return self

    def getName(self) -> str:
        return "org.apache.http.ConnectionClosedException"

    def getMessage(self) -> str:
        return "Premature end of Content-Length delimited message body"

    def getCause(self) -> None:
        return None


def broken_off() -> PySparkException:
    error = PySparkException("Job aborted")
    error._origin = Thrown()  # type: ignore[attr-defined]
    return error


def test_what_a_store_broke_off_is_read_again(tmp_path: Path) -> None:
    state = loaded(aggregation(tmp_path / "checkpoint"))
    (operator,) = state.shape.operators
    failures = [broken_off(), broken_off()]

    def read() -> str:
        if failures:
            raise failures.pop()
        return "whole"

    assert state.whole(operator, read) == "whole"


def test_what_a_store_breaks_off_each_time_is_no_problem_of_the_state(tmp_path: Path) -> None:
    state = loaded(aggregation(tmp_path / "checkpoint"))
    (operator,) = state.shape.operators
    attempts = []

    def read() -> None:
        attempts.append(None)
        raise broken_off()

    with pytest.raises(StorageError) as caught:
        state.whole(operator, read)
    assert len(attempts) == 4
    assert "Premature end" in str(caught.value.found)


def test_damage_is_named_also_where_reading_it_broke_off(tmp_path: Path) -> None:
    root = aggregation(tmp_path / "checkpoint")
    state = loaded(root)
    cut(root / "state/0/1/3.delta")
    (operator,) = state.shape.operators
    attempts = []

    def read() -> None:
        attempts.append(None)
        raise broken_off()

    with pytest.raises(CorruptFileError):
        state.whole(operator, read)
    assert len(attempts) == 1
