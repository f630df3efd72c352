"""What cannot be rewritten yet is refused by name, by the plan."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from rewrite_shapes import CONF, aggregation, buffers, checkpoint, operator, struct

from statemigrate.checkpoint.operators.shapes import FamilyShape, NoPrefix, TimestampPostfix
from statemigrate.checkpoint.stores.provider import PROVIDERS
from statemigrate.errors import CheckpointError, RewriteError, UnsupportedError
from statemigrate.files.local import LocalFiles
from statemigrate.rewrite.column_pairing import store_families as families_of
from statemigrate.rewrite.origin import OldCheckpoint, Target
from statemigrate.rewrite.questions import RewriteAnswers
from statemigrate.rewrite.rewrite_plan import make_plan
from statemigrate.rewrite.script_ways import RewriteScripts
from statemigrate.rewrite.sources import RewriteOptions
from statemigrate.rewrite.spark_reader import StateReader

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
ON_ROCKSDB = {PROVIDER: PROVIDERS["rocksdb"].class_name}
TOTALS = aggregation(struct("k STRING"), buffers(("sum", "long")))


def with_families(*names, encoder=None):
    """An operator of version 2 whose store has these families."""
    shape = operator("transformWithStateInPandasExec", struct("k STRING"), struct("n INT"))
    (store,) = shape.stores
    families = tuple(
        FamilyShape(name, struct("k STRING"), struct("n INT"), encoder or NoPrefix())
        for name in names
    )
    stores = (replace(store, has_families=True, families=families),)
    return replace(shape, metadata_version=2, stores=stores)


@pytest.mark.parametrize(
    ("shape", "conf", "problem"),
    [
        (TOTALS, {**ON_ROCKSDB, ENCODING: "avro"}, "Avro encoding for transformWithState alone"),
        (with_families("total", "$index_total"), ON_ROCKSDB, "keeps something"),
        (with_families("total"), {}, "needs RocksDB"),
        (aggregation(struct("k STRING COLLATE UNICODE_CI"), struct("n INT")), {}, "k"),
    ],
    ids=["avro", "unknown family", "hdfs", "collated"],
)
def test_it_is_refused(shape, conf, problem):
    old = checkpoint(shape)
    with pytest.raises(UnsupportedError, match=problem):
        make_plan(old, None, RewriteOptions(conf=conf))


def test_rows_in_avro_are_written_in_the_other_encoding_if_asked_for():
    old = checkpoint(TOTALS)
    conf = {**CONF, **ON_ROCKSDB, ENCODING: "avro"}
    old = replace(old, offsets={n: replace(e, pinned=conf) for n, e in old.offsets.items()})
    with pytest.raises(UnsupportedError) as caught:
        make_plan(old, None)
    assert f"--conf {ENCODING}=unsaferow" in caught.value.next_action
    plan = make_plan(old, None, RewriteOptions(conf={ENCODING: "unsaferow"}))
    assert plan.changed_conf == {ENCODING: ("avro", "unsaferow")}


def test_what_sinks_have_noted_goes_along():
    old = checkpoint(TOTALS)
    sinks = {"0": {"name": "totals"}}
    commits = {n: replace(e, version=3, sinks=sinks) for n, e in old.commits.items()}
    plan = make_plan(replace(old, commits=commits), None)
    assert {each.version for each in plan.new.commits.values()} == {3}
    assert all(each.sinks == sinks for each in plan.new.commits.values())


def test_a_codec_that_is_not_known_is_refused_with_the_plan():
    codec = {"spark.sql.streaming.stateStore.compression.codec": "brotli"}
    with pytest.raises(UnsupportedError, match="codec = brotli is not understood"):
        make_plan(checkpoint(TOTALS), None, RewriteOptions(conf=codec))


def test_a_setting_that_spark_does_not_pin_is_refused():
    with pytest.raises(UnsupportedError, match="is not pinned") as caught:
        make_plan(checkpoint(TOTALS), None, RewriteOptions(conf={"spark.executor.memory": "1g"}))
    assert "leave out --conf" in caught.value.next_action


def test_a_checkpoint_in_which_no_state_is_seen_is_asked_about():
    (question,) = make_plan(checkpoint(), None).questions
    assert question.answer == f"--accept {question.acceptance}"
    answers = RewriteAnswers(frozenset({question.acceptance}))
    assert make_plan(checkpoint(), None, answers=answers).questions == ()


def test_a_place_within_the_old_checkpoint_is_refused(tmp_path):
    origins = (("the old checkpoint", LocalFiles(tmp_path / "old")),)
    target = Target(LocalFiles(tmp_path / "old" / "new"), "", str(tmp_path / "old"), origins)
    with pytest.raises(RewriteError, match="is within the old checkpoint"):
        target.check()
    Target(LocalFiles(tmp_path / "old-2"), "", str(tmp_path / "old"), origins).check()


@pytest.mark.parametrize("name", ["n w", "new#1", "new%20", "new[1]"])
def test_a_place_that_spark_could_not_read_back_is_refused_before_anything_is_written(
    tmp_path, name
):
    target = Target(LocalFiles(tmp_path / name), "", str(tmp_path / "old"))
    with pytest.raises(CheckpointError, match="state readers cannot open") as caught:
        target.check()
    assert "another name" in caught.value.next_action
    assert not list(tmp_path.iterdir())


def test_an_old_place_that_spark_cannot_open_is_refused_where_only_spark_reads_it(tmp_path):
    reader = StateReader(LocalFiles(tmp_path / "o ld"), 1, None)
    with pytest.raises(CheckpointError, match="state readers cannot open"):
        reader.rows(TOTALS, next(place for _, place in families_of(TOTALS)))


def test_a_query_that_went_on_meanwhile_is_refused_before_anything_is_published(tmp_path):
    plan = make_plan(checkpoint(TOTALS), None)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "4").write_text("v1")
    origin = OldCheckpoint(LocalFiles(tmp_path), "an id")
    origin.confirm(plan)
    (tmp_path / "offsets" / "5").write_text("v1")
    with pytest.raises(RewriteError, match="has gone on while its state was rewritten") as caught:
        origin.confirm(plan)
    assert "stop the query" in caught.value.next_action


def join(*parts, encoder):
    """A join whose sides have these families in one store."""
    key = struct("field0 STRING, __event_time BIGINT")
    shape = operator("symmetricHashJoin", key, struct("v INT, matched BOOLEAN"))
    (store,) = shape.stores
    (family,) = store.families
    families = tuple(
        replace(family, name=f"{side}-{part}", encoder=encoder, is_list=part != "keyToNumValues")
        for side in ("left", "right")
        for part in parts
    )
    stores = (replace(store, has_families=True, families=families),)
    return replace(shape, metadata_version=2, stores=stores)


TIMED = join("keyWithTsToValues", "tsWithKey", encoder=TimestampPostfix())
NUMBERED = join("keyToNumValues", "keyWithIndexToValue", encoder=NoPrefix())


def test_a_join_of_state_format_4_keeps_it_and_has_no_scripts():
    options = RewriteOptions(conf=ON_ROCKSDB)
    assert make_plan(checkpoint(TIMED), [TIMED], options).operators[0].change == "kept"
    for old, new in ((TIMED, NUMBERED), (NUMBERED, TIMED)):
        with pytest.raises(UnsupportedError, match="state format goes to 4, or from there"):
            make_plan(checkpoint(old), [new], options)
    scripts = RewriteScripts({"join-0.left": SimpleNamespace(is_open=True)})
    with pytest.raises(UnsupportedError, match=r"join-0\.left is of a join of state format 4"):
        make_plan(checkpoint(TIMED), [TIMED], options, scripts=scripts)
