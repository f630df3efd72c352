"""No look leaves values out, or shows older ones, where Spark lists other families than it has."""

import re
from collections import Counter
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from native_pipeline import NativePipeline
from pyspark.errors import StreamingQueryException
from tally import (
    AMOUNTS,
    CENTS,
    FAMILIES,
    AmountsTally,
    CentsTally,
    Expected,
    batch,
)

from statemigrate import (
    RewriteOptions,
    browse,
    diff,
    doctor,
    dry_run,
    fork,
    migrated,
    plan,
    rewrite,
    sql,
    status,
)
from statemigrate.commands.forgotten_families import restore_forgotten
from statemigrate.errors import CheckpointError, StartupError
from statemigrate.state import Project
from statemigrate.state.open import require_store

pytestmark = [pytest.mark.spark, pytest.mark.long]
NEW = FAMILIES[AMOUNTS]
THREE = RewriteOptions(partitions=3)
ALL, SOME, FEW, MORE = (
    batch("all", range(8)),
    batch("some", range(5)),
    batch("few", range(3)),
    batch("more", [1, 6]),
)


def amounts(pipeline, folder):
    return migrated(AmountsTally(), migrations=folder, checkpoint=pipeline.checkpoint)


def read(pipeline, folder, spark):
    """The tally of each key, from the table."""
    rows = sql("SELECT * FROM tally", pipeline.checkpoint, migrations=folder, spark=spark)
    found = rows.table.to_pylist()
    assert len({row["key"] for row in found}) == len(found)
    return {row["key"]: (row["n"], int(row["amount"].scaleb(2)), row["last"]) for row in found}


def computed(*batches):
    model = Expected()
    for each in batches:
        model.process(each, CENTS)
    return {key: tuple(value[:3]) for key, value in model.values.items()}


def refused(look):
    with pytest.raises(CheckpointError) as caught:
        look()
    assert caught.value.data["family"] == NEW
    return caught.value.code


def looks(pipeline, folder, spark):
    """All that reads or copies rows, and what each is refused with."""
    checkpoint, new = pipeline.checkpoint, pipeline.root / "rewritten"
    named = {"migrations": folder, "spark": spark}
    last = {"before": 1, "after": 2}
    codes = {
        "sql": refused(lambda: sql("SELECT count(*) FROM tally", checkpoint, **named)),
        "diff": refused(lambda: diff(checkpoint, **last, **named)),
        "rewrite": refused(lambda: rewrite(checkpoint, new, options=THREE, apply=True, **named)),
        "plain rewrite": refused(
            lambda: rewrite(checkpoint, new, options=THREE, migrations=None, spark=spark)
        ),
    }
    assert not new.exists()
    return codes


def verdicts(pipeline, folder, spark):
    found = plan(pipeline.checkpoint, migrations=folder, spark=spark)
    return {each.name: each.verdict for each in found.items}


def begin_batch_1(pipeline):
    """Plain code commits a batch, starts again, and is killed in the next one, its first."""
    pipeline.feed(ALL)
    pipeline.deploy_natively(CentsTally())
    pipeline.feed(SOME)
    pipeline.fail_on.add(1)
    with pytest.raises(StreamingQueryException, match="refuses batch 1"):
        pipeline.deploy_natively(CentsTally())


def test_what_other_code_wrote_in_a_batch_run_again_is_read_at_once(spark, scripts, tmp_path):
    pipeline, folder = NativePipeline(spark, tmp_path / "again"), scripts.write()
    begin_batch_1(pipeline)
    pipeline.feed(FEW)
    pipeline.deploy_natively(amounts(pipeline, folder))
    assert pipeline.variables() == {"tally"}, "Spark lists what has begun the batch"
    named = {"migrations": folder, "spark": spark}
    checkpoint, wanted = pipeline.checkpoint, computed(ALL, SOME, FEW)
    assert read(pipeline, folder, spark) == wanted
    (store,) = status(checkpoint, **named).stores
    assert (store.in_target, [each.values for each in store.families]) == (5, [3])
    assert dry_run("tally", checkpoint, **named).in_target == 5
    assert "unknown" not in verdicts(pipeline, folder, spark).values()
    (changed,) = diff(checkpoint, before=1, after=2, **named).stores
    assert changed.counts == {"added": 0, "removed": 0, "changed": len(FEW)}
    rewritten = {}
    for name, options in (("as it is", {"migrations": None}), ("migrated", {"migrations": folder})):
        pipeline.checkpoint_directory = tmp_path / name.replace(" ", "-")
        rewrite(checkpoint, pipeline.checkpoint, options=THREE, apply=True, spark=spark, **options)
        assert pipeline.variables() == {"tally", NEW}
        assert read(pipeline, folder, spark) == wanted
        rewritten[name] = pipeline.checkpoint_directory
    pipeline.checkpoint_directory = forked = tmp_path / "forked"
    fork(checkpoint, forked)
    assert read(pipeline, folder, spark) == wanted
    pipeline.feed(MORE)
    for each in (checkpoint, forked, *rewritten.values()):
        pipeline.checkpoint_directory = each
        pipeline.deploy_natively(amounts(pipeline, folder))
        assert pipeline.variables() == {"tally", NEW}
        assert read(pipeline, folder, spark) == computed(ALL, SOME, FEW, MORE)


@pytest.mark.usefixtures("without_empty_batches")
def test_variables_of_every_kind_are_read_in_a_batch_run_again(spark, tmp_path):
    pipeline = NativePipeline(spark, tmp_path / "kinds", time_mode="ProcessingTime")
    begin_batch_1(pipeline)
    pipeline.deploy_natively(EveryKind())
    assert own_variables(pipeline) == {"tally"}
    unlisted = tables(pipeline.checkpoint, spark)
    require_store(str(pipeline.checkpoint), "list")
    new = tmp_path / "rewritten"
    rewrite(pipeline.checkpoint, new, options=THREE, migrations=None, apply=True, spark=spark)
    keys = {key for key, _, _ in SOME}
    for name, rows in unlisted.items():
        assert {row["key"] for row in rows} == keys, name
        assert {row["_expires_at"] is None for row in rows} == {"lives" not in name}, name
        several = 1 if "value" in name else 2
        assert len(rows) == several * len(keys), name
    pipeline.checkpoint_directory = new
    assert own_variables(pipeline) == {"tally", *unlisted}
    assert without_places(tables(new, spark)) == without_places(unlisted)
    # Spark's own code goes on with them, and finds each under its kind.
    pipeline.feed(MORE)
    pipeline.deploy_natively(EveryKind())
    lists = pipeline.state("list", "list")
    assert {key: len(each) for key, each in lists.items()} == dict.fromkeys(keys, 2) | {
        key: 4 if key in keys else 2 for key, _, _ in MORE
    }


def killed_before_plain_code(spark, scripts, root):
    """Plain code has run a batch again that migrated code had begun, and passed over a family."""
    pipeline, folder = NativePipeline(spark, root), scripts.write()
    for processor, rows in ((CentsTally(), ALL), (None, SOME)):
        pipeline.feed(rows)
        pipeline.deploy_natively(processor or amounts(pipeline, folder))
    pipeline.feed(FEW)
    pipeline.fail_on.add(2)
    with pytest.raises(StreamingQueryException, match="refuses batch 2"):
        pipeline.deploy_natively(amounts(pipeline, folder))
    pipeline.deploy_natively(CentsTally())
    assert pipeline.variables() == {"tally", NEW}
    return pipeline, folder


def test_older_values_do_not_stand_beside_those_of_code_that_passed_over_them(
    spark, scripts, tmp_path
):
    pipeline, folder = killed_before_plain_code(spark, scripts, tmp_path / "passed")
    assert set(looks(pipeline, folder, spark).values()) == {"SM-STATE-037"}
    assert verdicts(pipeline, folder, spark)[NEW] == "unknown"


def test_a_fork_is_refused_what_its_checkpoint_is_refused(spark, scripts, tmp_path):
    pipeline, folder = killed_before_plain_code(spark, scripts, tmp_path / "forked")
    fork(pipeline.checkpoint, tmp_path / "fork")
    pipeline.checkpoint_directory = tmp_path / "fork"
    before = pipeline.all_state()
    with pytest.raises(StartupError) as caught:
        amounts(pipeline, folder)
    assert caught.value.code == "SM-START-024"
    assert caught.value.data["families"] == [NEW]
    assert refused(lambda: read(pipeline, folder, spark)) == "SM-STATE-037"
    with_three = {"options": THREE, "migrations": None, "spark": spark}
    again = refused(lambda: rewrite(tmp_path / "fork", tmp_path / "rewritten", **with_three))
    assert again == "SM-STATE-037"
    assert pipeline.all_state() == before


def test_what_spark_has_forgotten_is_not_left_out_and_comes_back(spark, scripts, tmp_path):
    pipeline, folder = NativePipeline(spark, tmp_path / "forgotten"), scripts.write()
    for processor, rows in ((CentsTally(), ALL), (None, SOME), (CentsTally(), FEW)):
        pipeline.feed(rows)
        pipeline.deploy_natively(processor or amounts(pipeline, folder))
    assert pipeline.variables() == {"tally"}
    assert set(looks(pipeline, folder, spark).values()) == {"SM-STATE-036"}
    assert verdicts(pipeline, folder, spark)[NEW] == "unknown"
    restored = tmp_path / "restored"
    said = restore_forgotten(pipeline.checkpoint, restored, Project(folder, spark=spark))
    done = doctor(
        pipeline.checkpoint,
        repair=True,
        apply=True,
        new=restored,
        accept=[each.acceptance for each in said.questions],
        wait=0,
        migrations=folder,
        spark=spark,
    )
    assert done.is_whole
    pipeline.checkpoint_directory = restored
    found = read(pipeline, folder, spark)
    assert found.keys() == computed(ALL).keys()
    untouched = {key: value for key, value in computed(ALL, SOME).items() if value[2] == "some"}
    newer = {key for key, _, _ in FEW}
    assert {key: found[key] for key in untouched.keys() - newer} == {
        key: untouched[key] for key in untouched.keys() - newer
    }


def asked(server, page):
    """The status and the text of a page."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", urlsplit(server.url).path + page)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def test_the_page_of_all_stores_says_which_cannot_be_read(spark, scripts, tmp_path):
    pipeline, folder = NativePipeline(spark, tmp_path / "browsed"), scripts.write()
    for processor, rows in ((CentsTally(), ALL), (None, SOME), (TwoVariables(), FEW)):
        pipeline.feed(rows)
        pipeline.deploy_natively(processor or amounts(pipeline, folder))
    with browse(pipeline.checkpoint, migrations=folder, spark=spark) as server:
        (first, page), (second, alone) = asked(server, ""), asked(server, "store?name=tally")
    assert (first, second) == (200, 400)
    rows = dict(re.findall(r'<bdi dir="ltr">(\w+)</bdi></a></th>(.*?)</tr>', page))
    assert rows.keys() == {"tally", "extra"}
    assert f'data-label="Rows">{len(FEW)}<' in rows["extra"]
    why = f"family {NEW} in {pipeline.checkpoint} has values that Spark has forgotten"
    assert f"Cannot be read: {why}" in rows["tally"]
    assert why in alone
    assert "--repair" in alone


def test_what_was_forgotten_and_deleted_hides_nothing(spark, scripts, tmp_path):
    pipeline, folder = NativePipeline(spark, tmp_path / "deleted"), scripts.write()
    for processor, rows in (
        (CentsTally(), ALL),
        (None, SOME),
        (CentsTally(), FEW),
        (GivingUp(), MORE),
    ):
        pipeline.feed(rows)
        pipeline.deploy_natively(processor or amounts(pipeline, folder))
    assert NEW not in verdicts(pipeline, folder, spark)
    found = sql("SELECT key FROM tally", pipeline.checkpoint, migrations=folder, spark=spark)
    assert {row["key"] for row in found.table.to_pylist()} >= {key for key, _, _ in MORE}


def test_a_variable_that_its_user_removed_stops_no_rewrite(spark, tmp_path):
    pipeline = NativePipeline(spark, tmp_path / "removed")
    for processor, rows in ((TwoVariables(), ALL), (CentsTally(), SOME)):
        pipeline.feed(rows)
        pipeline.deploy_natively(processor)
    assert pipeline.variables() == {"tally"}
    new = tmp_path / "rewritten"
    rewrite(pipeline.checkpoint, new, options=THREE, migrations=None, apply=True, spark=spark)
    before = pipeline.all_state()
    pipeline.checkpoint_directory = new
    assert pipeline.all_state() == before
    assert {key: value["n"] for key, value in before["tally"].items()} == {
        key: value[0] for key, value in computed(ALL, SOME).items()
    }


KINDS = ("value", "value_lives", "list", "list_lives", "map", "map_lives")


def own_variables(pipeline):
    """The variables that Spark lists, without its own timers."""
    return {name for name in pipeline.variables() if not name.startswith("$")}


def tables(checkpoint, spark):
    """All rows of the variables of `EveryKind` by their names."""
    found = {}
    for name in KINDS:
        statement = f"SELECT * FROM {name}"  # noqa: S608 - one of the names above
        rows = sql(statement, checkpoint, migrations=None, spark=spark)
        found[name] = rows.table.to_pylist()
    return found


def without_places(found):
    """The same with no word of the batch and the partition that rows are in."""
    return {
        name: Counter(
            repr({each: row[each] for each in row if each not in ("_batch", "_partition")})
            for row in rows
        )
        for name, rows in found.items()
    }


class EveryKind(CentsTally):
    """Has a value, a list and a map of two entries a key, each also with a time to live."""

    def init(self, handle):
        super().init(handle)
        self.values, self.lists, self.maps = [], [], []
        for suffix, lives in (("", None), ("_lives", 3_600_000)):
            self.values.append(handle.getValueState(f"value{suffix}", "n BIGINT", lives))
            self.lists.append(handle.getListState(f"list{suffix}", "n BIGINT", lives))
            self.maps.append(handle.getMapState(f"map{suffix}", "word STRING", "n INT", lives))

    def handleInputRows(self, key, rows, timer_values):
        for value in self.values:
            value.update((1,))
        for each in self.lists:
            each.appendList([(1,), (2,)])
        for each in self.maps:
            each.updateValue(("a",), (1,))
            each.updateValue(("b",), (2,))
        yield from super().handleInputRows(key, rows, timer_values)


class GivingUp(CentsTally):
    """Deletes what was forgotten, as the messages say."""

    def init(self, handle):
        super().init(handle)
        handle.deleteIfExists(NEW)


class TwoVariables(CentsTally):
    """Has a variable that later code does not declare."""

    def init(self, handle):
        super().init(handle)
        self.extra = handle.getValueState("extra", "n BIGINT")

    def handleInputRows(self, key, rows, timer_values):
        self.extra.update((1,))
        yield from super().handleInputRows(key, rows, timer_values)
