"""Each change of the catalogue: Spark's reaction, the verdict of `plan`, and a guarded start."""

import changed_queries
import pytest
from changed_queries import CHANGES, Change
from fed_queries import Feed
from pyspark.errors import StreamingQueryException
from rewritten_queries import rows_of, session_with

from statemigrate import NewCode, fork, plan
from statemigrate.commands.lock import lock
from statemigrate.meaning import compare_code
from statemigrate.meaning.guard import stream_meaning

# A test takes a sixth of what other long ones take.
pytestmark = [pytest.mark.spark, pytest.mark.long(weight=1 / 6)]
ROWS = rows_of(*((f"k{n % 7}", n - 3, n) for n in range(40)))
GRAVITY = ["same", "goes on", "live", "unknown", "unnoticed", "rewrite", "cannot"]


@pytest.fixture(scope="module")
def session(spark):
    return session_with(spark, "rocksdb")


def gravest(items):
    return max((each.verdict for each in items), key=GRAVITY.index, default="same")


def streams(session, folder, function):
    feeds = [Feed(folder / f"input-{n}") for n in range(function.__code__.co_argcount)]
    return feeds, function(*(feed.stream(session) for feed in feeds))


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_start_refuses_what_spark_would_misread_and_takes_what_is_harmless(
    session, tmp_path, change: Change
):
    if not change.starts:
        pytest.skip("Spark itself refuses to start")
    meanings = [
        stream_meaning(streams(session, tmp_path, function)[1], mode)
        for function, mode in (
            (change.old, change.mode),
            (change.new, change.new_mode or change.mode),
        )
    ]
    found = [each for each in compare_code(*meanings) if each.asks]
    assert bool(found) == (change.verdict == "unnoticed"), found


class Deployed:
    """A checkpoint that old code has made, with its lock file."""

    def __init__(self, session, folder, change):
        self.session, self.checkpoint = session, folder / "checkpoint"
        self.folder, self.lock = folder, folder / "state.lock"
        run(session, folder, change.old, change.mode, self.checkpoint)
        lock(named(change.old), file=self.lock, mode=change.mode, spark=session)


def named(function):
    """A name under which `plan` finds the function."""
    name = f"query_{id(function)}"
    setattr(changed_queries, name, function)
    return f"changed_queries:{name}"


def run(session, folder, function, mode, checkpoint):
    feeds, result = streams(session, folder, function)
    for feed in feeds:
        feed.add(ROWS)
    writer = result.writeStream.format("noop").outputMode(mode)
    writer = writer.option("checkpointLocation", str(checkpoint))
    # One batch: in processing time Spark has another for ever, for timers.
    query = writer.trigger(once=True).start()
    query.awaitTermination(180)
    assert not query.isActive


@pytest.fixture(scope="module")
def deployed(session, tmp_path_factory):
    made = {}

    def of(change):
        key = (id(change.old), change.mode)
        if key not in made:
            made[key] = Deployed(session, tmp_path_factory.mktemp("deployed"), change)
        return made[key]

    return of


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_spark_starts_or_refuses_and_plan_says_what_that_means(
    session, deployed, tmp_path, change: Change
):
    old, mode = deployed(change), change.new_mode or change.mode
    target = NewCode(named(change.new), mode=mode, lock=old.lock)
    found = plan(old.checkpoint, target=target, migrations=None, spark=session)
    copy = tmp_path / "copy"
    fork(old.checkpoint, copy, new_id=True)
    try:
        run(session, old.folder, change.new, mode, copy)
        starts = True
    except StreamingQueryException:
        starts = False
    said = [(each.name, each.verdict, each.text) for each in found.items]
    assert (starts, gravest(found.items)) == (change.starts, change.verdict), said
    # Without a checkpoint, the lock file says as much.
    checked = lock(named(change.new), file=old.lock, check=True, mode=mode, spark=session)
    asked = [(each.name, each.verdict, each.text) for each in checked.changes if each.asks]
    assert bool(asked) == (change.verdict not in {"same", "goes on"}), asked
