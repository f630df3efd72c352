"""How many requests each verb, and a batch of each engine, makes to a bucket: a budget for each.

The state is 40 keys in two partitions, after five batches.
"""

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from control_pipeline import ControlPipeline
from native_pipeline import NativePipeline
from paged_pipeline import TallyPages
from pipelines import Pipeline
from tally import AmountsTally, CentsTally, batch

from statemigrate import backfill, fork, get, migrated, rewrite, status
from statemigrate.commands.adopt import adopt
from statemigrate.commands.rewrite import verify

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[2] / "docs" / "file-systems.md"
BATCHES = 5
VERBS = ("list", "head", "get", "put", "copy", "delete")
MEASURED = {
    "batch, Spark alone": (45, 62, 1, 7, 5, 5),
    "batch, native": (46, 73, 4, 6, 5, 5),
    "batch, paged": (48, 65, 1, 7, 5, 5),
    "batch, embedded": (29, 44, 3, 5, 3, 3),
    "native: check at the start": (67, 66, 22, 0, 0, 0),
    "native: status": (80, 82, 22, 0, 0, 0),
    "native: get": (86, 88, 23, 0, 0, 0),
    "native: prepare, plan": (25, 19, 4, 0, 0, 0),
    "native: prepare": (54, 39, 4, 7, 0, 0),
    "native: backfill, plan of ten chunks": (360, 359, 71, 27, 20, 21),
    "paged: status": (124, 135, 42, 0, 0, 0),
    "paged: get": (130, 138, 43, 0, 0, 0),
    "embedded: status": (5, 15, 6, 0, 0, 0),
    "embedded: get": (6, 14, 1, 0, 0, 0),
    "embedded: backfill, stopped": (18, 36, 6, 14, 0, 0),
    "fork": (84, 81, 28, 21, 0, 1),
    "rewrite, plan": (46, 46, 7, 0, 0, 0),
    "rewrite": (284, 293, 70, 24, 0, 2),
    "verify": (145, 171, 63, 0, 0, 0),
}
"""Requests by `VERBS`, as they were measured; of a batch the median of several."""
_ALIKE = {"create": "put", "delete many": "delete"}


def budget(measured):
    """What may be asked for: a tenth more, and three for what comes by chance."""
    return measured * 1.1 + 3


class Ledger:
    """What was asked for in each thing that was done."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.counts = {}

    def do(self, name, work, *args, **options):
        first = len(self.proxy.requests)
        done = work(*args, **options)
        self.counts[name] = self.counted(first, len(self.proxy.requests))
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
        each = [self.counted(*between) for between in pairwise(at[1:])]
        self.counts[name] = Counter({verb: median(one[verb] for one in each) for verb in VERBS})

    def counted(self, first, last):
        verbs = (each.verb for each in self.proxy.requests[first:last])
        return Counter(_ALIKE.get(verb, verb) for verb in verbs)


def test_no_verb_and_no_batch_asks_a_bucket_more_than_its_budget(
    spark, s3_proxy, proxied, tmp_path, scripts
):
    ledger = Ledger(s3_proxy)
    folder = scripts.write()
    known = {"migrations": folder, "spark": spark}
    rows = [batch(f"b{n}", range(40)) for n in range(BATCHES)]

    plain = NativePipeline(spark, tmp_path / "plain", checkpoint_directory=f"{proxied}/plain")
    plain.feed(*rows)
    ledger.batches("batch, Spark alone", plain, lambda: plain.deploy_natively(CentsTally()))
    place, forked, new = plain.checkpoint, f"{proxied}/fork", f"{proxied}/new"
    ledger.do("native: prepare, plan", adopt, place)
    ledger.do("fork", fork, place, forked)
    ledger.do("rewrite, plan", rewrite, forked, new, **known)
    ledger.do("rewrite", rewrite, forked, new, apply=True, **known)
    assert ledger.do("verify", verify, forked, new, spark=spark).problems == ()
    ledger.do("native: prepare", adopt, place, apply=True, wait=0.1)
    ledger.do("native: status", status, place, **known)
    ledger.do("native: get", get, "tally", place, "k3", **known)
    name = "native: backfill, plan of ten chunks"
    assert ledger.do(name, backfill, place, keys_per_chunk=4, **known).chunks == 10
    control = ControlPipeline(spark, tmp_path / "plain", checkpoint_directory=place)
    control.feed(*rows)
    checked = {"migrations": folder, "checkpoint": place}
    made = ledger.do("native: check at the start", migrated, AmountsTally(), **checked)
    ledger.batches("batch, native", control, lambda: control.deploy_natively(made))

    paged = TallyPages(spark, tmp_path / "paged", checkpoint_directory=f"{proxied}/paged")
    paged.feed(*rows)
    ledger.batches("batch, paged", paged, lambda: paged.deploy_natively(CentsTally()))
    ledger.do("paged: status", status, paged.checkpoint, **known)
    ledger.do("paged: get", get, "tally", paged.checkpoint, "k3", **known)

    place = f"{proxied}/embedded"
    embedded = Pipeline(spark, tmp_path / "embedded", checkpoint_directory=place)
    embedded.feed(*rows)
    ledger.batches("batch, embedded", embedded, lambda: embedded.deploy(CentsTally()))
    ledger.do("embedded: status", status, place, **known)
    ledger.do("embedded: get", get, "tally", place, "k3", **known)
    ledger.do("embedded: backfill, stopped", backfill, place, **known)

    assert ledger.counts.keys() == MEASURED.keys()
    over = {
        (name, verb): (ledger.counts[name][verb], measured)
        for name, each in MEASURED.items()
        for verb, measured in zip(VERBS, each, strict=True)
        if ledger.counts[name][verb] > budget(measured)
    }
    assert over == {}


def test_the_page_has_what_was_measured():
    rows = re.findall(r"^\| ([^|]+?) +((?:\| +\d+ +){7})\|$", PAGE.read_text(), re.MULTILINE)
    told = {name: tuple(map(int, re.findall(r"\d+", numbers))) for name, numbers in rows}
    assert told == {name: (sum(each), *each) for name, each in MEASURED.items()}
