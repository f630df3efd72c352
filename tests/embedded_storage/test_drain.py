"""What a run does after its last batch, and when whoever waits for it is told that it has ended."""

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from statemigrate import BackfillOptions, EmbeddedOptions
from statemigrate.embedded.batches import Drain, LastBatchState, drains
from statemigrate.embedded.offline import release_ended
from statemigrate.embedded.query import RunningQuery

PLAN = SimpleNamespace(sources=(SimpleNamespace(name="old"),))


class Stopped:
    """A stopped query of three chunks, each of which waits until the test lets it end."""

    def __init__(self, *, fails: bool = False, waits: bool = False) -> None:
        self.fails = fails
        self.chunks = 0
        self.retired = False
        self.entered, self.may_go_on = threading.Event(), threading.Event()
        if not waits:
            self.may_go_on.set()

    def backfill(self, plans: Any, *, on_error: str, tick: Any) -> str:
        assert on_error == "quarantine"
        for number in range(3):
            self.entered.set()
            assert self.may_go_on.wait(60)
            if self.fails:
                raise ValueError("bad value")
            self.chunks += 1
            tick(number, 3)
        return "all three"

    def retire(self, plans: Any) -> None:
        self.retired = True


class Query:
    """Spark's query, that ends when the test says so."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    @property
    def isActive(self) -> bool:
        return not self.ended.is_set()

    def awaitTermination(self, timeout: float | None = None) -> bool:
        return self.ended.wait(60 if timeout is None else timeout)

    def exception(self) -> None:
        return None

    def stop(self) -> None:
        self.ended.set()


class Lock:
    held = True

    def release(self) -> None:
        self.held = False


def options(**given: Any) -> EmbeddedOptions:
    backfill = BackfillOptions(drain=True, on_error="quarantine")
    return EmbeddedOptions(backfill=backfill, **given)


def held(stopped: Stopped, *, left: int = 3, plan: Any = PLAN) -> Any:
    manifest = SimpleNamespace(is_counted=True, is_empty=lambda _name: left == 0)
    return LastBatchState(stopped, manifest, {"store": plan})  # type: ignore[arg-type]


def started(stopped: Stopped, lock: Lock, **given: Any) -> RunningQuery:
    drain = Drain(lambda: held(stopped, **given), options())
    batches = SimpleNamespace(error=None, close=lambda: None)
    return RunningQuery(Query(), batches, [lock], drain)  # type: ignore[arg-type, list-item]


def test_a_run_that_ended_is_drained_before_it_counts_as_ended() -> None:
    stopped, lock = Stopped(waits=True), Lock()
    running = started(stopped, lock)
    running.query.stop()
    assert stopped.entered.wait(60)
    release_ended()
    assert (running.awaitTermination(0), running.isActive, lock.held) == (False, True, True)
    stopped.may_go_on.set()
    assert running.awaitTermination()
    assert (stopped.chunks, stopped.retired, running.drained) == (3, True, "all three")
    assert (running.isActive, running.exception(), lock.held) == (False, None, False)


def test_what_does_not_migrate_is_told_to_whoever_waits() -> None:
    running = started(Stopped(fails=True), lock := Lock())
    running.query.stop()
    with pytest.raises(ValueError, match="bad value"):
        running.awaitTermination()
    assert str(running.exception()) == "bad value"
    assert not lock.held


def test_stopping_ends_a_drain_after_its_chunk() -> None:
    stopped, lock = Stopped(waits=True), Lock()
    running = started(stopped, lock)
    running.query.stop()
    assert stopped.entered.wait(60)
    stopping = threading.Thread(target=running.stop)
    stopping.start()
    stopping.join(0.1)
    assert (stopping.is_alive(), lock.held) == (True, True), "the chunk is being written"
    stopped.may_go_on.set()
    stopping.join(60)
    assert (stopped.chunks, stopped.retired, lock.held) == (1, False, False)
    assert (running.awaitTermination(), running.exception(), running.drained) == (True, None, None)


def test_a_run_that_was_stopped_is_not_drained() -> None:
    stopped = Stopped()
    running = started(stopped, Lock())
    running.stop()
    assert (stopped.chunks, running.drained) == (0, None)


PROGRAM = """
import atexit, sys, threading
sys.path.insert(0, sys.argv[1])
from test_drain import Lock, Stopped, started

stopped = Stopped(waits=True)
atexit.register(lambda: print(stopped.chunks, stopped.retired))
running = started(stopped, Lock())
running.query.stop()
assert stopped.entered.wait(60)
later = threading.Timer(0.5, stopped.may_go_on.set)
later.daemon = True
later.start()
"""


def test_a_program_that_waits_for_sparks_query_alone_does_not_end_in_a_drain() -> None:
    command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "3 True\n"


@pytest.mark.parametrize("retires", [True, False])
def test_what_is_empty_is_only_dropped(retires: bool) -> None:
    stopped = Stopped()
    drain = Drain(lambda: held(stopped, left=0), options(retire_drained=retires))
    drain.run()
    assert (stopped.chunks, stopped.retired, drain.error) == (0, retires, None)


def test_without_older_families_or_state_nothing_is_done() -> None:
    stopped = Stopped()
    Drain(lambda: held(stopped, plan=SimpleNamespace(sources=())), options()).run()
    nothing = Drain(lambda: None, options())
    nothing.run()
    assert (stopped.chunks, stopped.retired, nothing.error) == (0, False, None)


@pytest.mark.parametrize(
    ("trigger", "backfill", "expected"),
    [
        ({"availableNow": True}, BackfillOptions(drain=True), True),
        ({"once": True}, BackfillOptions(drain=True), True),
        ({"availableNow": True}, BackfillOptions(), False),
        ({"availableNow": True}, BackfillOptions(drain=True, enabled=False), False),
        ({"processingTime": "1 minute"}, BackfillOptions(drain=True), False),
        ({}, BackfillOptions(drain=True), False),
    ],
    ids=["availableNow", "once", "not-asked", "no-backfill", "processingTime", "no-trigger"],
)
def test_a_run_is_drained_that_ends_by_itself(
    trigger: dict[str, Any], backfill: BackfillOptions, *, expected: bool
) -> None:
    assert drains(EmbeddedOptions(backfill=backfill), trigger) is expected
