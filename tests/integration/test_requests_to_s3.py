"""How many requests each verb, and a batch of each engine, makes to a bucket: a budget a kind."""

from collections import Counter
from itertools import pairwise
from statistics import median

import pytest
from control_pipeline import ControlPipeline
from native_pipeline import NativePipeline
from paged_pipeline import TallyPages
from pipelines import Pipeline
from tally import AmountsTally, CentsTally, batch

from statemigrate import adopt, backfill, fork, get, migrated, rewrite, status, verify

pytestmark = pytest.mark.integration

BATCHES = 7


class Ledger:
    """What was asked for in each thing that was done."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.counts = {}

    def do(self, name, work, *args, **options):
        with self.proxy.counting() as counts:
            done = work(*args, **options)
        self.counts[name] = counts
        return done

    def batches(self, name, pipeline, run):
        """The median batch of those that ``run`` makes, from one call of the sink to the next."""
        at, sink = [], pipeline.sink

        def noting(rows, number):
            at.append(len(self.proxy.requests))
            sink(rows, number)

        pipeline.sink = noting
        run()
        pipeline.sink = sink
        each = [Counter(r.verb for r in self.proxy.requests[a:b]) for a, b in pairwise(at[1:])]
        verbs = set().union(*each)
        self.counts[name] = Counter({verb: median(one[verb] for one in each) for verb in verbs})


def test_show(spark, s3_proxy, proxied, tmp_path, scripts):
    folder = scripts.write()
    ledger = Ledger(s3_proxy)
    rows = [batch(f"b{n}", range(40)) for n in range(BATCHES)]

    plain = NativePipeline(spark, tmp_path / "plain", checkpoint_directory=f"{proxied}/plain")
    plain.feed(*rows)
    ledger.batches("batch, Spark alone", plain, lambda: plain.deploy_natively(CentsTally()))
    place = plain.checkpoint
    ledger.do("dry adopt", adopt, place)
    ledger.do("fork", fork, place, f"{proxied}/fork")
    ledger.do("rewrite plan", rewrite, f"{proxied}/fork", f"{proxied}/new", migrations=folder, spark=spark)
    ledger.do("rewrite", rewrite, f"{proxied}/fork", f"{proxied}/new", migrations=folder, apply=True, spark=spark)
    ledger.do("verify", verify, f"{proxied}/fork", f"{proxied}/new", spark=spark)
    ledger.do("adopt", adopt, place, apply=True, wait=0.1)
    ledger.do("status", status, place, migrations=folder, spark=spark)
    ledger.do("get", get, "tally", place, "k3", migrations=folder, spark=spark)
    ledger.do("backfill plan", backfill, place, migrations=folder, keys_per_chunk=4, spark=spark)
    control = ControlPipeline(spark, tmp_path / "plain", checkpoint_directory=place)
    control.feed(*rows)
    made = ledger.do("start check", migrated, AmountsTally(), migrations=folder, checkpoint=place)
    ledger.batches("batch, native", control, lambda: control.deploy_natively(made))

    embedded = Pipeline(spark, tmp_path / "embedded", checkpoint_directory=f"{proxied}/embedded")
    embedded.feed(*rows)
    ledger.batches("batch, embedded", embedded, lambda: embedded.deploy(CentsTally()))
    ledger.do("embedded status", status, embedded.checkpoint, migrations=folder, spark=spark)
    ledger.do("embedded get", get, "tally", embedded.checkpoint, "k3", migrations=folder, spark=spark)
    ledger.do("embedded backfill", backfill, embedded.checkpoint, migrations=folder, spark=spark)

    paged = TallyPages(spark, tmp_path / "paged", checkpoint_directory=f"{proxied}/paged")
    paged.feed(*rows)
    ledger.batches("batch, paged", paged, lambda: paged.deploy_natively(CentsTally()))
    ledger.do("paged status", status, paged.checkpoint, migrations=folder, spark=spark)
    ledger.do("paged get", get, "tally", paged.checkpoint, "k3", migrations=folder, spark=spark)
    for name, counts in ledger.counts.items():
        print(name, sum(counts.values()), dict(counts))
