"""The example, killed at random: every account is right in the output and in the state."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bank import Bank
from example_lives import MIGRATIONS, Lives
from systems.kafka import Kafka
from systems.postgres import Postgres

from statemigrate import backfill, open_state, status

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.kill]

ACCOUNTS = range(300)
ROWS_BY_ADOPTION = ()
PANDAS_WITH_NAMED_SOURCES = ("--pandas", "--named-sources")
EMBEDDED = ("--engine", "embedded", "--named-sources")
WAYS = {
    "rows by adoption": ROWS_BY_ADOPTION,
    "pandas with named sources": PANDAS_WITH_NAMED_SOURCES,
    "embedded with named sources": EMBEDDED,
}


@pytest.fixture(scope="module")
def bank(kafka: Kafka) -> Bank:
    return Bank(kafka.uri)


@pytest.fixture
def lives(
    request: pytest.FixtureRequest, bank: Bank, postgres: Postgres, kafka: Kafka, tmp_path: Path
) -> Lives:
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"repeat with SEED={seed}")  # noqa: T201 - shown where the test fails
    database, chance = postgres.database(uuid.uuid4().hex), random.Random(seed)
    return Lives(tmp_path, bank, database, kafka.jars, request.param, chance)


@pytest.mark.parametrize("lives", WAYS.values(), ids=WAYS.keys(), indirect=True)
def test_every_account_is_right_whatever_was_killed(lives: Lives, spark) -> None:
    chance, bank = lives.chance, lives.bank
    bank.move(chance, 3000, ACCOUNTS)
    lives.kill_in_start("before")
    # The life before may have begun the batch of all that there was.
    lives.kill_in_batch("before", 1, lambda: bank.move(chance, 300, ACCOUNTS))
    lives.run_until("before", lives.is_caught_up)
    assert lives.balances() == bank.balances()
    if lives.flags == ROWS_BY_ADOPTION:
        adopt(lives.checkpoint)

    with payments(bank, chance):
        lives.kill_in_start("after")
        lives.kill_in_batch("after", 1, lambda: plan(lives, spark))
        lives.kill_in_batch("after", 2, lambda: None)
        lives.kill_in_batch("after", 1, lambda: plan(lives, spark))
    lives.run_until("after", lambda: lives.is_caught_up() and left(lives, spark) == 0)
    assert lives.balances() == bank.balances()
    assert state(lives, spark) == bank.values()

    # The old family is empty, and dropped; accounts that never moved before are new.
    bank.move(chance, 200, range(250, 350))
    lives.run_until("after", lives.is_caught_up)
    assert lives.balances() == bank.balances()
    assert state(lives, spark) == bank.values()
    assert lives.kills == 9


def test_without_the_connector_nothing_is_begun(bank: Bank, postgres: Postgres, tmp_path) -> None:
    database = postgres.database(uuid.uuid4().hex)
    lives = Lives(tmp_path, bank, database, (), ROWS_BY_ADOPTION, random.Random(0))
    assert "Failed to find data source: kafka" in lives.run_to_its_end("before")
    assert not lives.checkpoint.exists()
    assert lives.balances() == {}


@contextmanager
def payments(bank: Bank, chance: random.Random) -> Iterator[None]:
    """Live rows on some accounts, a few a second, while the block runs."""
    own, over = random.Random(chance.random()), threading.Event()

    def pay() -> None:
        while not over.wait(0.5):
            bank.move(own, 5, range(40))

    paying = threading.Thread(target=pay)
    paying.start()
    try:
        yield
    finally:
        over.set()
        paying.join()


def adopt(checkpoint: Path) -> None:
    """Make room for the backfill source, as the command does; the last batch may be half done."""
    command = Path(sys.executable).with_name("statemigrate")
    arguments = ["backfill", "--prepare", str(checkpoint), "--apply", "--stopped"]
    subprocess.run([command, *arguments], check=True, timeout=120)


def plan(lives: Lives, spark) -> None:
    """Plan the backfill, beside the running query; the embedded engine needs no plan."""
    if "embedded" not in lives.flags:
        backfill(lives.checkpoint, migrations=MIGRATIONS, keys_per_chunk=40, spark=spark)


def left(lives: Lives, spark) -> int:
    return status(lives.checkpoint, migrations=MIGRATIONS, spark=spark).left


def state(lives: Lives, spark) -> dict[object, object]:
    with open_state(lives.checkpoint, migrations=MIGRATIONS, spark=spark) as state:
        return {key[0]: value for key, value in state["accounts"].entries()}
