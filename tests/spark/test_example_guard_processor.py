"""The example of a million guarded keys, small: every list and every row that was let out."""

import importlib.util
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from stored_state import families

from statemigrate import BackfillOptions, open_state

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).parents[2] / "examples" / "guard_processor"
OLD, NEW = "guarded", "guarded@9c5693d9c47b"
UNKNOWN = datetime(2020, 1, 1, tzinfo=UTC)
ACCOUNTS = range(2_000)
ROWS_A_CHUNK, PARTITIONS = 60, 4


class Messages:
    """Writes files of messages, and computes what they leave behind: no Spark, no statemigrate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "messages"
        self.folder.mkdir()
        self.number = 0
        self.old: dict[int, list[dict]] = {}
        self.new: dict[int, list[dict]] = {}
        self.released: Counter = Counter()

    def pay(self, account: int) -> dict:
        self.number += 1
        made_at = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(microseconds=self.number)
        payer = {"name": f"payer {account}", "iban": f"DE{account:020d}"}
        payment = {
            "id": f"p{self.number}",
            "payer": payer,
            "cents": self.number * 7,
            "made_at": made_at if self.number % 5 else None,
        }
        self.guarded(account).append(payment)
        return {"number": self.number, "account": account, "release": False, "payment": payment}

    def release(self, account: int) -> dict:
        self.number += 1
        held = self.old.pop(account, []) + self.new.pop(account, [])
        self.released.update(
            (account, place, payment["id"], payment["cents"]) for place, payment in enumerate(held)
        )
        return {"number": self.number, "account": account, "release": True}

    def guarded(self, account: int) -> list[dict]:
        """The list of an account, in the family it is in after this message."""
        if account in self.old and self.migrates:
            self.new[account] = self.old.pop(account)
        return (self.new if self.migrates else self.old).setdefault(account, [])

    migrates = False

    def feed(self, messages: list[dict]) -> None:
        lines = [json.dumps(message, default=datetime.isoformat) for message in messages]
        # The lines of a file say nothing of the order: a message's number does.
        temporary = self.folder / f".{self.number}"
        temporary.write_text("\n".join(reversed(lines)))
        temporary.rename(self.folder / f"{self.number}.json")


@pytest.mark.long
def test_what_is_guarded_is_wrapped_while_the_query_answers(spark, tmp_path):
    messages = Messages(tmp_path)
    first_deployment(messages, tmp_path)
    assert families(tmp_path / "checkpoint") == {OLD: messages.old}
    assert released(spark, tmp_path) == messages.released

    messages.migrates = True
    messages.feed(touching(messages))
    touched = run("after", tmp_path, backfill=BackfillOptions(enabled=False))
    assert [batch.touched for batch in touched] == [len(ACCOUNTS) * 4 // 10]
    stored = families(tmp_path / "checkpoint")
    assert stored[OLD] == messages.old, "untouched"
    assert stored[NEW] == {account: wrapped(held) for account, held in messages.new.items()}
    assert logical(tmp_path) == everything(messages)
    assert released(spark, tmp_path) == messages.released

    left = len(messages.old)
    progress = backfilled_beside_live_messages(messages, tmp_path)
    assert sum(batch.touched + batch.backfilled for batch in progress) == left
    assert all(batch.backfilled <= ROWS_A_CHUNK * PARTITIONS for batch in progress)
    answered = [batch for batch in progress if batch.rows]
    assert [batch.rows for batch in answered] == [20, 20]
    assert answered[0] is progress[0], "the first batch has the messages"
    assert all(batch.left > 0 for batch in answered), "answered before the backfill's end"
    assert families(tmp_path / "checkpoint") == {NEW: everything(messages)}
    assert logical(tmp_path) == everything(messages)
    assert released(spark, tmp_path) == messages.released


def first_deployment(messages: Messages, folder: Path) -> None:
    held = [messages.pay(n) for place in range(3) for n in ACCOUNTS if place <= n % 3]
    messages.feed(held)
    run("before", folder)
    more = [messages.release(n) for n in ACCOUNTS[9::10]]
    more += [messages.pay(n) for n in ACCOUNTS[19::20]]
    more += [messages.pay(n) for n in ACCOUNTS[::7]]
    messages.feed(more)
    run("before", folder)


def touching(messages: Messages) -> list[dict]:
    """Each thing that may happen to a list which is not migrated, and some new accounts."""
    sent = [messages.pay(n) for n in ACCOUNTS[::10]]
    sent += [messages.release(n) for n in ACCOUNTS[1::10]]
    sent += [each for n in ACCOUNTS[2::10] for each in (messages.release(n), messages.pay(n))]
    sent += [each for n in ACCOUNTS[3::10] for each in (messages.pay(n), messages.release(n))]
    return sent + [messages.pay(n) for n in range(2_000, 2_050)]


def backfilled_beside_live_messages(messages: Messages, folder: Path) -> list:
    """Restart with a few messages waiting, and send some more while the backfill is under way."""
    small = BackfillOptions(initial_rows=ROWS_A_CHUNK, maximum_rows=ROWS_A_CHUNK)
    messages.feed(a_few(messages, 4))
    query = module("after").start(str(folder), small)
    try:
        while len(query.progress) < 2:
            assert not query.awaitTermination(0.01)
        messages.feed(a_few(messages, 5))
        query.processAllAvailable()
    finally:
        query.stop()
    messages.new |= messages.old
    messages.old = {}
    return query.progress


def a_few(messages: Messages, first: int) -> list[dict]:
    releases = [messages.release(n) for n in ACCOUNTS[first::200]]
    return releases + [messages.pay(n) for n in ACCOUNTS[first + 2 :: 200]]


def run(name: str, folder: Path, **options) -> list:
    query = module(name).start(str(folder), **options)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return query.progress


def module(name: str):
    spec = importlib.util.spec_from_file_location(f"guard_{name}", EXAMPLE / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def wrapped(held: list[dict]) -> list[dict]:
    return [
        {
            "name": f"payment {payment['id']}",
            "object": payment,
            "timestamp": payment["made_at"] or UNKNOWN,
        }
        for payment in held
    ]


def everything(messages: Messages) -> dict[int, list[dict]]:
    return {account: wrapped(held) for account, held in (messages.old | messages.new).items()}


def logical(folder: Path) -> dict[int, list[dict]]:
    with open_state(folder / "checkpoint", migrations=EXAMPLE / "migrations") as state:
        return {key[0]: held for key, held in state["guarded"].entries()}


def released(spark, folder: Path) -> Counter:
    rows = spark.read.parquet(str(folder / "released")).collect()
    return Counter((row.account, row.position, row.id, row.cents) for row in rows)
