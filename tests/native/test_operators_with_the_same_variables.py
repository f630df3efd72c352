"""A query with two processors whose state variables have the same name."""

import json

import pytest
from native_pipeline import NativePipeline
from tally import CentsTally, batch

from statemigrate import RewriteOptions, rewrite
from statemigrate.commands.rewrite import verify
from statemigrate.files import sealed

pytestmark = [pytest.mark.spark, pytest.mark.long]


class ByTwoKeys(NativePipeline):
    """One tally by key, and another one by name."""

    def result(self, processor, stream=None):
        rows = self.stream()
        by_name = rows.selectExpr("name AS key", "cents", "key AS name")
        one, other = (
            each.groupBy("key").transformWithState(processor(), self.output, "Update", "None")
            for each in (rows, by_name)
        )
        return one.union(other)


def rewritten(spark, checkpoint, new):
    options = RewriteOptions(partitions=3)
    rewrite(checkpoint, new, options=options, migrations=None, apply=True, spark=spark)
    return verify(checkpoint, new, migrations=None, spark=spark)


def test_each_operator_goes_on_with_its_own_rows(spark, tmp_path):
    query, new = ByTwoKeys(spark, tmp_path / "query"), tmp_path / "new"
    query.feed(batch("first", range(6)))
    query.deploy_natively(CentsTally)
    found = rewritten(spark, query.checkpoint, new)
    assert found.problems == ()
    made = [(each.operator, each.name, each.total.count) for each in found.report.families]
    assert made == [(0, "tally", 6), (1, "tally", 1)]
    query.checkpoint_directory = new
    query.feed(batch("first", range(6)))
    query.handed.clear()
    query.deploy_natively(CentsTally)
    rows = sorted((key, n) for _, rows in query.handed for key, n, *_ in rows)
    assert rows == [("first", 12), *((f"k{number}", 2) for number in range(6))]


def test_rows_of_the_one_do_not_pass_for_those_of_the_other(spark, tmp_path):
    query, new = ByTwoKeys(spark, tmp_path / "query"), tmp_path / "new"
    query.feed(batch("first", range(6)))
    query.deploy_natively(CentsTally)
    assert rewritten(spark, query.checkpoint, new).problems == ()
    path = new / "statemigrate" / "rewrite.json"
    report = json.loads(path.read_text())["body"]
    for family, other in zip(report["families"], (1, 0), strict=True):
        family["operator"] = family["old_operator"] = other
    path.write_bytes(sealed(report))
    found = verify(query.checkpoint, new, migrations=None, spark=spark)
    assert sum(each.startswith(("old tally", "new tally")) for each in found.problems) == 4
