"""A restart with many guarded accounts: migrated bit by bit, and all before the first batch."""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import after
import before
from pyspark.sql import SparkSession

from statemigrate import BackfillOptions, open_state

# A one-shot migration: the same code, told to leave nothing for a second batch.
ONE_SHOT = BackfillOptions(initial_rows=10**9, minimum_milliseconds=1e9)
LIVE = 200  # messages a second while the backfill is under way


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a new folder for messages and checkpoints")
    parser.add_argument("--accounts", type=int, default=1_000_000)
    arguments = parser.parse_args()
    # Spark's workers import `before` and `after` too.
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    compare(arguments.folder, arguments.accounts)


def compare(folder, accounts):
    """Fill two checkpoints, restart each in its own way, and print the figures."""
    bit_by_bit, batches = restart(folder / "bit-by-bit", accounts, after.CHUNKS)
    one_shot, _ = restart(folder / "one-shot", accounts, ONE_SHOT)
    times = [batch.batch_ms / 1000 for batch in batches if batch.backfilled]
    print(f"to the first batch, one shot against bit by bit: {one_shot / bit_by_bit:.1f} times")
    print(f"{len(times)} batches with a chunk, {sum(times):.1f} s together")
    print(f"the longest {max(times):.1f} s, the median {statistics.median(times):.1f} s")


def restart(folder, accounts, backfill):
    """Deploy before, then after; the seconds to the first batch, and all batches."""
    fill(folder, accounts)
    feed(folder, 0, accounts)
    began = time.monotonic()
    query = after.start(folder, backfill)
    while not query.progress:
        query.awaitTermination(0.02)
    first = time.monotonic() - began
    print(f"{folder.name}: first batch after {first:.1f} s, {query.progress[0].left} to go")
    files = 1
    while query.progress[-1].left:
        feed(folder, files, accounts)
        files += 1
        shown = len(query.progress)
        query.awaitTermination(1)
        for batch in query.progress[shown:]:
            print(f"batch {batch.batch}: {batch.rows} messages, {batch.backfilled} backfilled, "
                  f"{batch.left} to go, {batch.batch_ms / 1000:.1f} s")  # fmt: skip
    query.processAllAvailable()
    query.stop()
    check(folder, accounts, files)
    return first, query.progress


def fill(folder, accounts):
    """Guard a payment of each account, with the first deployment."""
    began = time.monotonic()
    for start in range(0, accounts, 250_000):
        numbers = range(start, min(start + 250_000, accounts))
        write(folder, f"fill-{start}", (pay(number, 0) for number in numbers))
    query = before.start(folder)
    query.processAllAvailable()
    query.stop()
    print(f"{folder.name}: {accounts} accounts filled in {time.monotonic() - began:.1f} s")


def feed(folder, file, accounts):
    """Live messages: every other account is released, the others get a second payment."""
    live = range(file * LIVE, min((file + 1) * LIVE, accounts))
    write(folder, f"live-{file}", (pay(n, 1) if n % 2 else release(n) for n in live))


def pay(account, place):
    payer = {"name": f"payer {account % 1000}", "iban": f"DE{account:020d}"}
    made_at = f"2026-03-01T00:00:{place:02d}Z"
    payment = {"id": f"{account}-{place}", "payer": payer, "cents": account, "made_at": made_at}
    return {"number": place, "account": account, "release": False, "payment": payment}


def release(account):
    return {"number": 1, "account": account, "release": True}


def write(folder, name, messages):
    """Add a file of messages; Spark does not see it before it has its name."""
    (folder / "messages").mkdir(parents=True, exist_ok=True)
    temporary = folder / "messages" / f".{name}"
    with temporary.open("w") as lines:
        lines.writelines(json.dumps(message) + "\n" for message in messages)
    temporary.rename(folder / "messages" / f"{name}.json")


def check(folder, accounts, files):
    """Compare every account's payments with what the messages say they must be."""
    migrations = Path(__file__).with_name("migrations")
    live = range(min(files * LIVE, accounts))
    left = accounts - len(live[::2])
    with open_state(folder / "checkpoint", migrations=migrations) as state:
        for (account,), guarded in state["guarded"].entries():
            expected = [f"payment {account}-{place}" for place in range(1 + (account in live))]
            if account in live[::2] or [each["name"] for each in guarded] != expected:
                raise SystemExit(f"account {account} holds {guarded}")
            left -= 1
    if left:
        raise SystemExit(f"{left} accounts are missing")
    print(f"{folder.name}: every account holds the payments it should")


if __name__ == "__main__":
    main()
