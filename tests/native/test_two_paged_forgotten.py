"""Pages of a named operator that other code forgot, and a plain operator beside named pages."""

import pytest
from support.sessions import spark_version
from tally import AMOUNTS
from two_paged import Counts, Model, NewTally, Tally, TwoPaged, write_scripts

from statemigrate import (
    StartupError,
    backfill,
    fork,
    get,
    migrated,
    with_backfill,
)
from statemigrate.commands.adopt import adopt, undo_adoption
from statemigrate.commands.forgotten_families import restore_forgotten
from statemigrate.commands.repair import repair
from statemigrate.commands.rewrite import verify
from statemigrate.errors import CheckpointError
from statemigrate.files.open import open_files
from statemigrate.native.operators import paged_names
from statemigrate.state.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.long]
KEYS = 8
NAMED = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
SINCE = pytest.mark.skipif(spark_version() < (4, 3), reason="sources have names since Spark 4.3")


def rows(numbers):
    return [(f"k{number}", 3 * number + 7, f"n{number % 3}") for number in numbers]


@pytest.fixture
def with_names(spark):
    spark.conf.set(NAMED, "true")
    yield
    spark.conf.unset(NAMED)


class WithNames(TwoPaged):
    """Each operator has a stream of its own, and each stream a name."""

    number = 0

    def __post_init__(self):
        super().__post_init__()
        self.apart = True

    def stream(self):
        # Spark wants each name once.
        self.number = self.number % 2 + 1
        reader = self.spark.readStream.name(f"rows_{self.number}").schema(self.rows)
        return reader.option("maxFilesPerTrigger", 1).parquet(f"{self.input}/*.parquet")


class Mixed(TwoPaged):
    """The counts on pages, and after them the tally without, of a stream with room for chunks."""

    backfilled = False

    def result(self, processor, stream=None):
        tally, counts = processor
        stream = self.stream()
        counted = self.paged(stream, counts, "name", self.names[1], self.numbers[1])
        if self.backfilled:
            mine = {"checkpoint": self.checkpoint, "operator": number(self)}
            stream = with_backfill(stream, "key", **mine)
        grouped = stream.groupBy("key")
        tallied = grouped.transformWithState(tally, self.output, "Update", self.time_mode)
        return counted.union(tallied)


class MixedWithNames(WithNames):
    """The tally without pages, the counts on them."""

    def paged(self, stream, processor, by, name, pages):
        if by == "name":
            return super().paged(stream, processor, by, name, pages)
        return stream.groupBy(by).transformWithState(
            processor, self.output, "Update", self.time_mode
        )


@SINCE
@pytest.mark.parametrize("names", [("tallies", "counts"), (None, "counts")])
def test_forgotten_pages_of_one_operator_are_had_again_from_the_last_batch_with_them(
    spark, tmp_path, with_names, names
):
    model = Model()
    query = WithNames(spark, tmp_path / "two", names=names)
    query.feed(model.add(rows(range(KEYS))))
    query.deploy_natively((Tally(), Counts()))
    before = {"tally": model.old_tallies(), "counts": model.old_counts()}
    query.feed(model.add(rows([1, 20])))
    plain = MixedWithNames(spark, query.root, names=names)
    plain.deploy_natively((Tally(), Counts()))
    variable = "statemigrate_pages" + ("_tallies" if names[0] else "")
    for operator in (None, names[0] or ""):
        said = repair(query.checkpoint, new=tmp_path / "new", operator=operator, spark=spark)
        assert [(each.subject, each.remedy) for each in said.findings] == [(variable, None)]
        assert "--at-batch 0`" in said.next_action
    with pytest.raises(StartupError):
        query.result((Tally(), Counts()))
    fork(query.checkpoint, tmp_path / "new", at_batch=0)
    back = WithNames(spark, query.root, checkpoint_directory=tmp_path / "new", names=names)
    assert back.values("tally", None, names[0] or "") == before["tally"]
    assert back.values("counts", None, "counts") == before["counts"]
    back.deploy_natively((Tally(), Counts()))
    assert back.values("tally", None, names[0] or "") == model.old_tallies()
    assert back.values("counts", None, "counts") == model.old_counts()


@SINCE
@pytest.mark.parametrize("name", [None, "counts"])
def test_a_forgotten_family_of_the_operator_beside_pages_comes_back(
    spark, tmp_path, scripts, with_names, name
):
    model, folder = Model(), write_scripts(scripts)
    query = MixedWithNames(spark, tmp_path / "two", names=(None, name))

    def tally():
        return migrated(
            NewTally(), migrations=folder, checkpoint=query.checkpoint, operator=number(query)
        )

    query.feed(model.add(rows(range(KEYS))))
    query.deploy_natively((Tally(), Counts()))
    query.feed(model.add(rows(range(4))))
    query.deploy_natively((tally(), Counts()))
    # Plain code sees none of the four.
    query.feed(model.add(rows([6])))
    query.deploy_natively((Tally(), Counts()))
    said = repair(query.checkpoint, new=tmp_path / "new", migrations=folder, spark=spark)
    assert [each.subject for each in said.findings] == [f"tally@{AMOUNTS}"]
    asked = restore_forgotten(query.checkpoint, tmp_path / "new", Project(folder, spark=spark))
    done = repair(
        query.checkpoint,
        new=tmp_path / "new",
        migrations=folder,
        accept=[each.acceptance for each in asked.questions],
        spark=spark,
        apply=True,
        wait=0,
    )
    assert done.is_whole
    assert not verify(query.checkpoint, tmp_path / "new", migrations=folder, spark=spark).problems
    back = MixedWithNames(
        spark, query.root, names=(None, name), checkpoint_directory=tmp_path / "new"
    )
    query.feed(model.add(rows([2, 7])))
    query = back
    back.deploy_natively((tally(), Counts()))
    assert back.values("counts", None, name or "") == model.old_counts()
    assert back.values("tally", folder, number(back)) == model.new_tallies()


def number(query):
    """Spark's number of the operator without pages."""
    (mine,) = {0, 1} - paged_names(open_files(query.checkpoint)).keys()
    return mine


def test_a_plain_operator_beside_named_pages_is_adopted_and_given_back(spark, tmp_path, scripts):
    model, folder = Model(), write_scripts(scripts)
    query = Mixed(spark, tmp_path / "two", names=(None, "counts"))

    def tally(**targets):
        code = NewTally() if not targets else Tally()
        return migrated(
            code,
            migrations=folder,
            checkpoint=query.checkpoint,
            operator=number(query),
            targets=targets,
        )

    query.feed(model.add(rows(range(KEYS))))
    query.deploy_natively((Tally(), Counts()))
    adopted = adopt(query.checkpoint, apply=True, wait=0.1)
    assert adopted.state == "prepared"
    query.backfilled = True
    query.feed(model.add(rows([1])))
    query.deploy_natively((tally(), Counts()))
    mine = number(query)
    backfill(query.checkpoint, migrations=folder, operator=mine, keys_per_chunk=3)
    query.deploy_natively((tally(), Counts()))
    assert query.values("tally", folder, mine) == model.new_tallies()
    assert query.values("counts", None, "counts") == model.old_counts()
    with pytest.raises(CheckpointError, match="would forget"):
        undo_adoption(query.checkpoint, apply=True, wait=0.1, spark=spark)
    query.deploy_natively((tally(tally="base"), Counts()))
    backfill(query.checkpoint, migrations=folder, operator=mine, targets={"tally": "base"})
    query.deploy_natively((tally(tally="base"), Counts()))
    undone = undo_adoption(query.checkpoint, apply=True, wait=0.1, spark=spark)
    assert undone.state == "undone"
    query.backfilled = False
    query.feed(model.add(rows([2, 30])))
    query.deploy_natively((Tally(), Counts()))
    assert query.values("counts", None, "counts") == model.old_counts()
    back = {key: {**each, "moved": 101} for key, each in model.old_tallies().items()}
    back["k30"]["moved"] = 0
    assert query.values("tally", None, mine) == back
    assert get("counts", query.checkpoint, "n1", migrations=None, operator="counts")
