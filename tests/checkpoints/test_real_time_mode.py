"""State of aggregations in real-time mode is laid out as that of any other aggregation."""

import subprocess
import sys
from pathlib import Path

import pytest
import real_time_job

from statemigrate import open_state

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def queries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("queries")
    job = Path(real_time_job.__file__)
    subprocess.run([sys.executable, str(job), str(folder)], check=True, stdout=subprocess.DEVNULL)
    return folder


def rows(checkpoint):
    with open_state(checkpoint, migrations=None) as state:
        assert state.stores == ("aggregation-0",)
        found = state["aggregation-0"].to_arrow().drop_columns(["_batch"])
    return sorted(found.to_pylist(), key=repr), found.schema


@pytest.mark.parametrize("query", [each.__name__ for each in real_time_job.QUERIES])
def test_each_row_is_in_the_partition_and_form_that_batches_give_it(queries, query):
    found = (queries / query / "real-time" / "state" / "0" / "_metadata" / "metadata").read_text()
    assert "StatefulStreamlineAggregate" in found
    (real_time, columns), (batches, others) = (
        rows(queries / query / each) for each in ("real-time", "batches")
    )
    assert columns == others
    assert len(real_time) > (0 if query == "without_keys" else 5)
    assert real_time == batches
