"""`rewrite` on the command line, where no Spark is needed: plans for the code there is."""

import json
import time

import pytest
from support.spark_checkpoints import aggregation


@pytest.fixture
def planned(run, tmp_path):
    """The lines of a plan, where the last batch was begun so many seconds ago."""

    def plan(seconds, *arguments):
        old = aggregation(tmp_path / "old")
        begun = int((time.time() - seconds) * 1000)
        path = old / "offsets/3"
        path.write_text(path.read_text().replace('TimestampMs": 1', f'TimestampMs": {begun}'))
        return run("rewrite", str(old), str(tmp_path / "new"), *arguments).stdout

    return plan


WARNING = "Is the query stopped? Its last batch was begun"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "less than two minutes"), (130, "2 minutes"), (599, "9 minutes"), (-3600, "less than")],
)
def test_a_plan_for_a_query_that_may_still_run_says_so(planned, seconds, text):
    assert f"{WARNING} {text}" in planned(seconds)


@pytest.mark.parametrize(
    ("seconds", "text"), [(3000, "50 minutes"), (9000, "2 hours"), (300_000, "3 days")]
)
def test_a_plan_says_how_old_its_batch_is(planned, seconds, text):
    lines = planned(seconds).splitlines()
    assert lines[1].endswith(f"as of batch 3, begun {text} ago")
    assert not any(WARNING in line for line in lines)


def test_machines_are_told_when_the_batch_was_begun(planned):
    plan = json.loads(planned(100, "--json"))
    assert 99 < time.time() - plan["begun"] / 1000 < 200
    assert plan["warnings"][0].startswith(WARNING)
