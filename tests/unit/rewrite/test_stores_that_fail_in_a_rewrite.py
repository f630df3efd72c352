"""A store that fails while Spark reads for a rewrite is an error that names it."""

from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from statemigrate.errors import StorageError
from statemigrate.native import retrying
from statemigrate.rewrite import run


class Broken(PySparkException):
    """What Spark makes of an error of a store."""

    def __init__(self, name, message):
        super().__init__("Job aborted")
        self._origin = SimpleNamespace(
            getMessage=lambda: message,
            getClass=lambda: SimpleNamespace(getName=lambda: name),
            getCause=lambda: None,
        )


@pytest.mark.parametrize(
    ("error", "code", "asked"),
    [
        (Broken("java.net.SocketException", "reset"), "SM-STORAGE-008", 4),
        (Broken("org.apache.hadoop.fs.s3a.AWSServiceIOException", "503"), "SM-STORAGE-007", 1),
    ],
)
def test_a_store_that_fails_while_a_rewrite_reads_is_named(
    tmp_path, monkeypatch, error, code, asked
):
    monkeypatch.setattr(retrying, "_PAUSE", 0.0)
    reads = []

    class Run:
        def surveyed(self):
            reads.append(1)
            raise error

    monkeypatch.setattr(run, "_runs", lambda *_: [Run()])
    monkeypatch.setattr(run, "rewriting_session", lambda *_: None)
    plan = SimpleNamespace(operators=(), new=None)
    origin = SimpleNamespace(location=f"{tmp_path}/old")
    with pytest.raises(StorageError, match=f"reading {tmp_path}/old failed") as caught:
        run.run_plan(plan, origin, None, None)
    assert (caught.value.code, len(reads)) == (code, asked)
    assert "run the same again" in caught.value.next_action
