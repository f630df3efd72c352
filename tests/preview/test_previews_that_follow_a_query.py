"""`preview --watch`: batch after batch of a running query, from the state that was reached."""

import json
import os
import signal
import subprocess
import sys

import previewed_code as code
import pytest
from previewed_query import Query, events, fields, named

from statemigrate.errors import CheckpointError, StatemigrateError

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def feed(query, number, rows=None):
    lines = list(events(number)) if rows is None else [json.dumps(each) for each in rows]
    (query.inputs[0] / f"{number}.json").write_text("\n".join(lines))
    query.run()


def followed(query, function, numbers, old=True, **options):
    """The previews of a query that commits another batch after each of them."""
    made, waiting = [], list(numbers)

    def watch(found):
        made.append(found)
        if waiting:
            feed(query, waiting.pop(0))
            return True
        return False

    before = options.pop("batches", 2)
    # The query goes on, so its checkpoint changes meanwhile.
    found = query.follow(function, before, old, watch, **options)
    assert found == made[-1]
    return made


@pytest.mark.parametrize(
    "function", [code.minutes, code.minutes_until_now], ids=["at once", "each"]
)
def test_harmless_code_makes_no_difference_however_long_it_is_followed(spark, tmp_path, function):
    query = Query(spark, tmp_path, function, "update")
    made = followed(query, function, [5, 6, 7])
    batches = [batch.batch for found in made for batch in found.batches]
    assert batches == list(range(batches[0], batches[0] + len(batches))), (
        "none twice, none left out"
    )
    assert len(made) == 4
    for found in made:
        assert (found.noise, found.unexpected) == ((), ())
        assert all(batch.stores[0].rows for batch in found.batches)


def test_a_fault_that_shows_in_a_later_batch_is_found_and_stays_in_the_state(spark, tmp_path):
    query = Query(spark, tmp_path, code.processed, "update", batches=3)
    rows = [{"k": "k1", "v": 7, "id": 900, "at": "2026-01-01T00:09:00Z"}]
    plain = [{"k": "k1", "v": 1, "id": 901, "at": "2026-01-01T00:09:30Z"}]
    made = []

    def watch(found):
        made.append(found)
        if len(made) == 1:
            feed(query, 10, rows)
        elif len(made) == 2:
            feed(query, 11, plain)
        return len(made) < 3

    # The batches before have no 7 in them.
    query.inputs[0].joinpath("9.json").write_text(json.dumps(plain[0]))
    query.run()
    query.follow(code.processed_wrongly, 1, True, watch)
    assert [fields(each) & {("total", "sum")} for each in made] == [
        set(),
        {("total", "sum")},
        {("total", "sum")},
    ]
    # The last batch has nothing wrong in it: the mistake is in the state that the code has reached.
    (example,) = made[2].batches[-1].stores[0].examples
    assert example.after["sum"] == example.before["sum"] + 1


def test_batches_that_are_gone_end_it(spark, tmp_path):
    query = Query(spark, tmp_path, code.processed, "update", batches=3)

    def watch(found):
        last = found.batches[-1].batch
        for number in (5, 6):
            feed(query, number)
        for folder in ("offsets", "commits"):
            (query.checkpoint / folder / str(last)).unlink()
        return True

    with pytest.raises(CheckpointError) as raised:
        query.follow(code.processed, 1, False, watch)
    assert raised.value.code == "SM-PREVIEW-024"


def test_a_bundle_is_not_followed(spark, tmp_path):
    query = Query(spark, tmp_path, code.processed, "update", batches=3)
    saved = tmp_path / "bundle"
    query.save(saved, batches=1)
    with pytest.raises(StatemigrateError) as raised:
        query.follow(code.processed, None, False, lambda _: True, place=saved)
    assert raised.value.code == "SM-PREVIEW-023"


def test_the_command_prints_each_preview_until_it_is_interrupted(spark, tmp_path):
    query = Query(spark, tmp_path, code.processed, "update", batches=3)
    command = [sys.executable, "-m", "statemigrate", "preview", str(query.checkpoint), "--json"]
    command += ["--watch", "--batches", "1", "--code", named(code.processed)]
    command += ["--output-mode", "update"]
    folders = os.pathsep.join(sys.path)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": folders}
    ) as running:
        try:
            assert running.stdout is not None
            first = json.loads(running.stdout.readline())
            feed(query, 5)
            second = json.loads(running.stdout.readline())
            running.send_signal(signal.SIGINT)
            assert running.wait(60) == 0
        finally:
            running.kill()
    last = first["batches"][-1]["batch"]
    assert [each["batch"] for each in second["batches"]] == [last + 1]
    assert first["expected"]
    assert second["expected"]
