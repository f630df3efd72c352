"""A query whose checkpoint is in a bucket is previewed there, and from a bundle of it."""

import json
from typing import Annotated

import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from statemigrate import EmbeddedOptions, EmbeddedQuery, NewCode, preview
from statemigrate.files.open import open_files
from statemigrate.preview.bundle import open_bundle

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(900)]
CHECKPOINT = ""
Orders = Annotated[DataFrame, "k STRING, v BIGINT"]


class Totals(StatefulProcessor):
    """Keeps a sum of each key."""

    step = 0

    def init(self, handle):
        self.total = handle.getValueState("total", "sum BIGINT, k STRING")

    def handleInputRows(self, key, rows, timerValues):
        total = self.total.get()[0] if self.total.exists() else 0
        total += sum(row.v + (self.step if row.v == 7 else 0) for row in rows)
        self.total.update((total, key[0]))
        yield Row(k=key[0], sum=total)

    def close(self):
        pass


class WrongTotals(Totals):
    """Adds one too many to every seven."""

    step = 1


def embedded(orders: Orders, processor=None):
    return EmbeddedQuery(
        orders, by="k", processor=processor or Totals(), outputStructType="k STRING, sum BIGINT",
        checkpoint=CHECKPOINT, sink=lambda rows, batch: None,
        options=EmbeddedOptions(partitions=2, snapshot_every=2),
    )  # fmt: skip


def wrong_embedded(orders: Orders):
    return embedded(orders, WrongTotals())


def sums(orders: Orders):
    return orders.groupBy("k").agg(F.sum("v").alias("sum"), F.max("k").alias("name"))


def wrong_sums(orders: Orders):
    return sums(orders.withColumn("v", F.expr("if(v = 7, 8, v)")))


def started(engine, orders):
    if engine == "embedded":
        return embedded(orders).start(availableNow=True)
    writer = sums(orders).writeStream.format("noop").outputMode("update")
    return writer.option("checkpointLocation", CHECKPOINT).trigger(availableNow=True).start()


@pytest.fixture(params=["embedded", "spark"])
def query(spark, s3, tmp_path, monkeypatch, request):
    """A query that has run four batches over files, and a function that previews it."""
    place = f"{s3.uri}/{tmp_path.name}-{request.param}"
    checkpoint = f"{place}/checkpoint"
    monkeypatch.setitem(globals(), "CHECKPOINT", checkpoint)
    inputs = open_files(f"{place}/input", spark)
    for batch in range(4):
        rows = [{"k": f"person{n % 19}", "v": n % 11 + batch} for n in range(60)]
        inputs.put(f"{batch}.json", "\n".join(map(json.dumps, rows)).encode())
        orders = spark.readStream.schema(Orders.__metadata__[0]).json(f"{place}/input")
        assert started(request.param, orders).awaitTermination(180)
    code = {"embedded": ("embedded", "wrong_embedded"), "spark": ("sums", "wrong_sums")}
    names = [f"{__name__}:{name}" for name in code[request.param]]

    def previewed(which, of=checkpoint, **options):
        mode = "update" if request.param == "spark" else None
        target = NewCode(names[which], mode=mode, old_code=names[0])
        if of == checkpoint:
            options["batches"] = 2
        return preview(of, target=target, migrations=None, spark=spark, **options)

    previewed.files = open_files(checkpoint, spark)
    # Spark's state has the name that is the largest in a column of that name.
    previewed.mask = ["k", "max"] if request.param == "spark" else ["k"]
    return previewed


def listed(files):
    return {each.name: each.tag for each in files.list(recursive=True) if each.kind == "file"}


def check(found):
    assert (found.noise, found.unexpected) == ((), ())
    assert [each.batch for each in found.batches] == [2, 3]
    assert all(each.rows for batch in found.batches for each in batch.stores)


def check_wrong(found):
    changed = {name for _, *_, fields in found.totals() for name in fields}
    assert changed == {"sum"}


def test_a_checkpoint_in_a_bucket_is_previewed(query):
    before = listed(query.files)
    check(query(0))
    check_wrong(query(1))
    assert listed(query.files) == before, "a preview writes nothing there"


@pytest.mark.parametrize(
    "options",
    [{}, {"mask": ()}, {"sample": 0.5, "sample_by": ["k"]}],
    ids=["as it is", "masked", "sampled"],
)
def test_a_bundle_of_a_checkpoint_in_a_bucket_is_previewed(query, tmp_path, options):
    before = listed(query.files)
    place = tmp_path / "saved"
    if "mask" in options:
        options = {"mask": query.mask}
    query(0, save=place, **options)
    assert listed(query.files) == before, "saving writes nothing there"
    bundle = open_bundle(place)
    assert (bundle.checkpoint, bundle.batches) == (query.files.location, (2, 3))
    check(query(0, of=place))
    check_wrong(query(1, of=place))
    if "mask" in options:
        whole = b"".join(each.read_bytes() for each in place.rglob("*") if each.is_file())
        assert b"person" not in whole
