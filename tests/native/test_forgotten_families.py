"""What plain code made Spark forget comes back: every key beside a twin that never forgot it."""

import json
from pathlib import Path

import pytest
from native_pipeline import NativePipeline
from paged_pipeline import FORMATS, PagedPipeline
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from support.sessions import spark_version
from tally import AMOUNTS, CENTS, CentsTally, Expected, Scripts, batch

from statemigrate import fork, migrated
from statemigrate.commands.forgotten_families import restore_forgotten
from statemigrate.commands.repair import repair
from statemigrate.commands.rewrite import verify
from statemigrate.errors import RewriteError, StartupError
from statemigrate.pages.record import VARIABLE
from statemigrate.state.project import Project

pytestmark = pytest.mark.spark

OLD, NEW = "n BIGINT", "n BIGINT, text STRING"
KINDS = {"total": "value", "marks": "list", "seen": "map"}
REVISIONS = {"total": AMOUNTS, "marks": "cccc33334444", "seen": "dddd44445555"}
TOTAL, MARKS, SEEN = (f"{store}@{revision}" for store, revision in REVISIONS.items())
SCRIPT = f'''
from statemigrate.formats import Struct

revision = "{{revision}}"
down_revision = None
branch_labels = ("{{store}}",)
store = "{{store}}"
old = Struct("{OLD}")
new = Struct("{NEW}")


def upgrade(value):
    return {{{{"n": value["n"], "text": "was " + str(value["n"])}}}}


def downgrade(value):
    return {{{{"n": value["n"]}}}}
'''
NAMED = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def write_scripts(directory: Path) -> Path:
    folder = Scripts(directory).folder
    for store, revision in REVISIONS.items():
        text = SCRIPT.format(store=store, revision=revision)
        (folder.versions / f"{store}.py").write_text(f'"""Change {store}."""\n{text}')
    return directory


class Old(StatefulProcessor):
    """A sum, a list and a map a key; rows say what is done to them."""

    ddl = OLD

    def init(self, handle):
        self.total = handle.getValueState("total", self.ddl)
        self.marks = handle.getListState("marks", self.ddl)
        self.seen = handle.getMapState("seen", "item BIGINT", self.ddl)

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            if row.name == "add":
                before = self.total.get()
                self.total.update(self.made((before[0] if before else 0) + row.cents))
                self.marks.appendValue(self.made(row.cents))
                self.seen.updateValue((row.cents,), self.made(row.cents))
            elif row.name == "remove":
                self.seen.removeKey((row.cents,))
            else:
                self.total.clear()
                self.marks.clear()
        yield Row(key=key[0], n=0, cents=0, last="", moved=0)

    def made(self, n):
        return (n,)

    def close(self):
        pass


class New(Old):
    """Written for the newer formats."""

    ddl = NEW

    def made(self, n):
        return (n, f"made {n}")


FIRST = [(f"k{n}", n + 1, "add") for n in range(12)]
# Ten keys are migrated, two are not.
MIGRATED = [(f"k{n}", 100, "add") for n in range(10)]
# Code without the wrapper adds to k0 and k1, ends k2, ends k3 after it has added to it, and k10.
PLAIN = [
    [("k0", 7, "add"), ("k1", 7, "add"), ("k2", 0, "end"), ("k3", 7, "add"), ("k2", 3, "remove")],
    [("k3", 0, "end"), ("k3", 7, "remove"), ("k10", 0, "end"), ("k4", 5, "remove")],
]
AFTER = [("k5", 1000, "add"), ("k11", 1000, "add"), ("k0", 1000, "add")]


class Query(NativePipeline):
    def made(self, folder, code=New, **settings):
        return migrated(code(), migrations=folder, checkpoint=self.checkpoint, **settings)

    def step(self, processor, rows):
        self.feed(rows)
        self.deploy_natively(processor)

    def all_values(self):
        """By store and key what is there, whatever the family; and the families of each key."""
        found, where = {}, {}
        listed = self.variables()
        for store, kind in KINDS.items():
            for family in (store, f"{store}@{REVISIONS[store]}"):
                for key, value in (self.state(family, kind) if family in listed else {}).items():
                    if kind == "map":
                        found.setdefault((store, key), {}).update(value)
                        for item in value:
                            where.setdefault((store, key, item), []).append(family)
                    else:
                        found[store, key] = value
                        where.setdefault((store, key), []).append(family)
        return found, where


@pytest.fixture
def folder(tmp_path):
    return write_scripts(tmp_path / "migrations")


def started(spark, root, folder):
    query = Query(spark, root)
    query.step(Old(), FIRST)
    query.step(query.made(folder), MIGRATED)
    return query


@pytest.fixture
def with_changelogs(spark):
    """Files that tell what each batch has deleted; Spark's default is a snapshot a batch."""
    spark.conf.set(CHANGELOGS, "true")
    yield
    spark.conf.unset(CHANGELOGS)


@pytest.fixture
def forgetful(spark, tmp_path, folder, with_changelogs):
    """A query whose wrapper was taken away half way."""
    query = started(spark, tmp_path / "forgetful", folder)
    for rows in PLAIN:
        query.step(Old(), rows)
    return query


@pytest.fixture
def twin(spark, tmp_path, folder, with_changelogs):
    """The same, whose wrapper stayed."""
    query = started(spark, tmp_path / "twin", folder)
    for rows in PLAIN:
        query.step(query.made(folder), rows)
    return query


def files_of(place):
    return {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}


def accepted(restoring):
    return [each.acceptance for each in restoring.questions]


@pytest.mark.long
def test_what_plain_code_made_spark_forget_comes_back_but_for_newer_values_and_deletions(
    spark, tmp_path, folder, forgetful, twin
):
    with pytest.raises(StartupError) as refused:
        forgetful.made(folder)
    (family,) = refused.value.data["families"]
    assert family.partition("@")[0] in KINDS
    assert refused.value.data["batch"] == 2
    before, new = files_of(forgetful.checkpoint), tmp_path / "new"
    said = restore_forgotten(forgetful.checkpoint, new, Project(folder, spark=spark))
    expected = {
        # k0 and k1 have newer values; k2 and k3 are deleted.
        TOTAL: (10, 6, 2, 2),
        MARKS: (10, 6, 2, 2),
        # Of each key the item 100 was migrated with the update, and the first one not.
        SEEN: (10, 10, 0, 0),
    }
    found = {each.source.name: (each.found.count, *counts(each)) for each in said.families}
    assert found == expected
    assert not new.exists()
    # Whether the code cleared a map that it did not see, no file tells.
    assert [each.name for each in said.questions] == [SEEN]
    done = restore_forgotten(
        forgetful.checkpoint,
        new,
        Project(folder, spark=spark),
        accept=accepted(said),
        apply=True,
    )
    assert done.report is not None
    assert files_of(forgetful.checkpoint) == before
    verified = verify(forgetful.checkpoint, new, migrations=folder, spark=spark)
    assert not verified.problems
    assert [each for each in verified.fine if each.startswith(f"{TOTAL}: 10 rows found")]
    repaired = Query(spark, forgetful.root, checkpoint_directory=new)
    compare(repaired, twin)
    document = json.loads((new / "statemigrate/restored.json").read_text())["body"]
    assert {each["family"]: each["restored"]["rows"] for each in document["families"]} == {
        name: restored for name, (_, restored, _, _) in expected.items()
    }
    for query in (repaired, twin):
        query.step(query.made(folder), AFTER)
    compare(repaired, twin)


def counts(found):
    return tuple(each.count for each in (found.restored, found.live, found.deleted))


def compare(repaired, twin):
    """Every key, but for the two to which plain code has added without seeing what was there.

    What that code wrote itself is in the older format until it is touched.
    """
    found, where = repaired.all_values()
    expected, _ = twin.all_values()
    undetermined = {(store, key) for store in ("total", "marks") for key in ("k0", "k1")}
    assert undetermined <= {*found}
    for values in (found, expected):
        for key in ("k0", "k1"):
            values["seen", key][7].pop("text", None)
    assert {key: v for key, v in found.items() if key not in undetermined} == {
        key: v for key, v in expected.items() if key not in undetermined
    }
    assert all(len(families) == 1 for families in where.values())


def remove(checkpoint, *names):
    for name in names:
        for path in checkpoint.glob(name):
            path.unlink()


@pytest.mark.long
def test_a_family_comes_back_from_the_database_when_spark_keeps_no_batch_that_had_it(
    spark, tmp_path, folder
):
    query = started(spark, tmp_path / "forgetful", folder)
    before = query.state(TOTAL)
    for rows in PLAIN:
        query.step(Old(), rows)
    # Spark's default is a snapshot a batch, which has no word of deletions: k3 had a value after
    # one batch, and k2 had none after any.
    said = repair(query.checkpoint, migrations=folder, spark=spark)
    assert [each.subject for each in said.findings] == [MARKS, SEEN, TOTAL]
    assert said.findings[2].remedy == (
        "7 of 10 entries come back; 2 have a newer value, which stays, and 1 were deleted since"
    )
    # As Spark removes what belongs to batches that it does not keep.
    remove(
        query.checkpoint,
        *(f"{log}/{batch}" for log in ("commits", "offsets") for batch in (0, 1)),
        *(f"state/0/_metadata/v2/{batch}" for batch in (0, 1, 2)),
        *(f"state/0/*/{version}.zip" for version in (1, 2)),
    )
    with pytest.raises(StartupError) as refused:
        query.made(folder)
    assert refused.value.data["families"]
    said = restore_forgotten(query.checkpoint, tmp_path / "new", Project(folder, spark=spark))
    assert {each.source.name: (each.found.count, *counts(each)) for each in said.families} == {
        TOTAL: (10, 8, 2, 0),
        MARKS: (10, 8, 2, 0),
        SEEN: (10, 10, 0, 0),
    }
    assert {each.name for each in said.questions} == {TOTAL, MARKS, SEEN}
    with pytest.raises(RewriteError) as asked:
        repair(query.checkpoint, migrations=folder, apply=True, wait=0, spark=spark)
    assert asked.value.data["questions"] == [MARKS, SEEN, TOTAL]
    done = repair(
        query.checkpoint,
        new=tmp_path / "new",
        migrations=folder,
        accept=[each.acceptance for each in said.questions],
        apply=True,
        wait=0,
        spark=spark,
    )
    assert done.is_whole
    back = Query(spark, query.root, checkpoint_directory=tmp_path / "new")
    assert back.state(TOTAL) == {k: v for k, v in before.items() if k not in ("k0", "k1")}
    back.step(back.made(folder), AFTER)
    assert back.state(TOTAL)["k5"] == {"n": before["k5"]["n"] + 1000, "text": "made 1106"}


class Named(NativePipeline):
    """Whose source has a name, so that Spark lets others come and go."""

    def stream(self):
        reader = self.spark.readStream.name("tallies").schema(self.rows)
        return reader.option("maxFilesPerTrigger", 1).parquet(f"{self.input}/*.parquet")


class NamedPages(Named, PagedPipeline):
    pass


@pytest.mark.long
@pytest.mark.skipif(spark_version() < (4, 3), reason="sources have names since Spark 4.3")
def test_forgotten_pages_are_had_again_from_the_last_batch_with_them_whose_successors_run_again(
    spark, tmp_path, request
):
    # Where sources have no names Spark refuses the plain code for want of the pages' own source.
    spark.conf.set(NAMED, "true")
    request.addfinalizer(lambda: spark.conf.unset(NAMED))
    expected = Expected()
    expected.process(first := batch("n1", range(9)), CENTS)
    expected.process(second := batch("n2", range(3, 12)), CENTS)
    paged = NamedPages(spark, tmp_path / "paged")
    paged.feed(first)
    paged.deploy_natively(CentsTally())
    plain = Named(spark, paged.root)
    plain.feed(second)
    plain.deploy_natively(CentsTally())
    with pytest.raises(StartupError):
        paged.result(CentsTally())
    said = repair(paged.checkpoint, new=tmp_path / "new", spark=spark)
    assert [(each.subject, each.remedy) for each in said.findings] == [(VARIABLE, None)]
    assert "--at-batch 0`" in said.next_action
    fork(paged.checkpoint, tmp_path / "new", at_batch=0)
    back = NamedPages(spark, paged.root, checkpoint_directory=tmp_path / "new")
    back.deploy_natively(CentsTally())
    found = {
        key: value
        for families in back.entries(FORMATS).values()
        for key, value in families["tally"].items()
    }
    assert {"tally": found} == expected.stored(CENTS)


@pytest.mark.long
def test_a_family_that_spark_still_lists_after_plain_code_ran_a_killed_batch_comes_back_too(
    spark, tmp_path, folder
):
    query = started(spark, tmp_path / "forgetful", folder)
    before = query.state(TOTAL)
    query.step(query.made(folder), [("k0", 5, "add")])
    remove(query.checkpoint, "commits/2", "commits/.2.crc")
    # What has begun the batch declared the family, what runs it again does not.
    query.deploy_natively(Old())
    assert TOTAL in query.variables()
    with pytest.raises(StartupError):
        query.made(folder)
    new = tmp_path / "new"
    said = restore_forgotten(query.checkpoint, new, Project(folder, spark=spark))
    assert {each.source.name: (each.found.count, *counts(each)) for each in said.families} == {
        TOTAL: (10, 9, 1, 0),
        MARKS: (10, 9, 1, 0),
        SEEN: (10, 10, 0, 0),
    }
    restore_forgotten(
        query.checkpoint, new, Project(folder, spark=spark), accept=accepted(said), apply=True
    )
    assert not verify(query.checkpoint, new, migrations=folder, spark=spark).problems
    back = Query(spark, query.root, checkpoint_directory=new)
    back.made(folder)
    assert back.state(TOTAL) == {key: value for key, value in before.items() if key != "k0"}
    assert back.state("total")["k0"] == {"n": 5}
