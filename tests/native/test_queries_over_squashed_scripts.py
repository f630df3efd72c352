"""A query that ran with two scripts goes on with the one that stands for both."""

import pytest
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline
from pipelines import Pipeline
from tally import (
    AMOUNTS,
    CENTS,
    NESTED,
    NESTED_SCRIPT,
    CentsTally,
    Expected,
    NestedTally,
    Scripts,
    batch,
)

from statemigrate import NamedCheckpoint, migrated, new

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.mark.parametrize(
    "made", [NativePipeline, PagedPipeline, Pipeline], ids=["spark", "pages", "embedded"]
)
def test_values_that_no_row_touched_before_the_squash_migrate_after_it(spark, tmp_path, made):
    pipeline = made(spark, tmp_path / "pipeline")
    folder = Scripts(tmp_path / "migrations").write(nested=NESTED_SCRIPT)
    expected = Expected()

    def deploy(rows, revision):
        processor = CentsTally() if revision == CENTS else NestedTally()
        if revision != CENTS:
            place = {"checkpoint": pipeline.checkpoint} if made is NativePipeline else {}
            processor = migrated(processor, migrations=folder, **place)
        pipeline.feed(rows)
        deploy = pipeline.deploy if made is Pipeline else pipeline.deploy_natively
        deploy(processor)
        expected.process(rows, revision)

    deploy(batch("first", range(12)), CENTS)
    deploy(batch("second", range(4)), NESTED)
    known = [NamedCheckpoint("orders", str(pipeline.checkpoint))]
    found = new("tally", squash=NESTED, apply=True, migrations=folder, checkpoints=known)
    assert (found.written, found.known) == (True, ("orders",))
    assert found.replaces == (AMOUNTS, NESTED)
    deploy(batch("third", range(2, 8)), NESTED)
    assert pipeline.handed_rows == expected.output
