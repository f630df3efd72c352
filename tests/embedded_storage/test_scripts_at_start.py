"""The scripts that a query was started with are those of its first batch, whenever that comes."""

from unittest.mock import MagicMock

from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StringType, StructField, StructType

from statemigrate import EmbeddedOptions, migrated
from statemigrate.embedded import ProcessorQuery
from statemigrate.embedded import query as module
from statemigrate.processor import startup
from statemigrate.scripts import ScriptFolder

SCRIPT = """
from statemigrate import Struct

revision = "aaaa00000001"
down_revision = None
branch_labels = ("counts",)
depends_on = None
store = "counts"
old = None
new = Struct("n BIGINT")
"""


KEY = StructType([StructField("k", StringType())])


@migrated
class Counting(StatefulProcessor):
    def init(self, handle):
        self.counts = handle.getValueState("counts", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        yield from ()


def test_scripts_that_change_before_the_first_batch_are_not_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ScriptFolder.create(tmp_path / "migrations")
    (tmp_path / "migrations/versions/aaaa00000001_base.py").write_text(SCRIPT)
    read = []
    lineages = ScriptFolder.lineages
    monkeypatch.setattr(ScriptFolder, "lineages", lambda f: read.append(f) or lineages(f))
    started = MagicMock()
    monkeypatch.setattr(module, "RunningQuery", started)
    monkeypatch.setattr(module, "with_heartbeat", MagicMock())
    monkeypatch.setattr(module, "require_workers", MagicMock())
    monkeypatch.setattr(startup, "check_scripts", MagicMock())
    stream = MagicMock(schema=KEY)
    stream.sparkSession.sparkContext.master = "local[2]"
    query = ProcessorQuery(
        stream,
        by=("k",),
        processor=Counting(),
        output=KEY,
        checkpoint=f"file:{tmp_path}/cp",
        sink=MagicMock(),
        options=EmbeddedOptions(working_directory=str(tmp_path / "work")),
        compare=MagicMock(),
    )
    read.clear()
    query.start()
    _, batches, locks, *_ = started.call_args.args
    for lock in locks:
        lock.release()
    (tmp_path / "migrations/versions/aaaa00000001_base.py").write_text("another release's")
    plan = batches._planned(None)["counts"]
    assert plan.target.revision == "aaaa00000001"
    assert len(read) == 1
