"""What cannot be rewritten yet is refused by name, by the plan."""

from dataclasses import replace

import pytest
from rewrite_shapes import CONF, aggregation, buffers, checkpoint, operator, struct

from statemigrate.checkpoint.operators.shapes import FamilyShape, NoPrefix, TimestampPostfix
from statemigrate.errors import UnsupportedError
from statemigrate.rewrite.plan.options import PROVIDERS, RewriteOptions
from statemigrate.rewrite.plan.plan import make_plan

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
ON_ROCKSDB = {PROVIDER: PROVIDERS["rocksdb"]}
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
        (TOTALS, {**ON_ROCKSDB, ENCODING: "avro"}, "Avro encoding cannot be written"),
        (with_families("total", "$ttl_total"), ON_ROCKSDB, "variables that expire"),
        (with_families("total"), {}, "needs RocksDB"),
        (with_families("a", encoder=TimestampPostfix()), ON_ROCKSDB, "join of state format 4"),
        (aggregation(struct("k STRING COLLATE UNICODE_CI"), struct("n INT")), {}, "k"),
    ],
    ids=["avro", "expiring", "hdfs", "join", "collated"],
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


def test_column_families_after_the_first_batch_wait_for_one_more():
    old = checkpoint(with_families("total"))
    first = replace(old, batch=0, offsets={0: old.offsets[4]}, commits={0: old.commits[4]})
    with pytest.raises(UnsupportedError, match="its first batch only"):
        make_plan(first, None, RewriteOptions(conf=ON_ROCKSDB))


def test_what_sinks_have_noted_is_not_left_behind():
    old = checkpoint(TOTALS)
    commits = {n: replace(e, version=3, sinks={"0": {}}) for n, e in old.commits.items()}
    with pytest.raises(UnsupportedError, match="what sinks have noted"):
        make_plan(replace(old, commits=commits), None)
