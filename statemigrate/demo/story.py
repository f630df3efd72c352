"""The words of the demonstration: the title of each act, and what happens in it and why."""

from __future__ import annotations

from dataclasses import dataclass

from statemigrate.demo.demo_size import DemoOptions
from statemigrate.demo.stage import BatchOutcome, Crash
from statemigrate.demo.verdict import (
    Figures,
    PreviewedChange,
    PreviewFigures,
    RewriteFigures,
    RewritingFigures,
)
from statemigrate.errors import StatemigrateError

Text = tuple[str, str]


def events(options: DemoOptions, files: int) -> Text:
    """Before the first act."""
    return (
        "Events",
        f"An auction house: {options.persons:,} persons, {options.auctions:,} auctions and "
        f"{options.bids:,} bids, in {files} files. A stream keeps one value a person and one an "
        "auction, with the number, sum and maximum of its bids.",
    )


def first_deployment(first: int, files: int) -> Text:
    """The old processor."""
    return (
        "Act 1: the first deployment, killed",
        "The processor keeps flat values with money in cents. It gets "
        f"{first} of the {files} files, one a batch. In the middle of a batch, when a part of it "
        "is written but nothing is committed, every process of it gets SIGKILL. Whatever is lost "
        "or done twice here will show in the end.",
    )


def second_deployment() -> Text:
    """The new processor."""
    return (
        "Act 2: the second deployment, migrating",
        "The new processor groups fields into structs and keeps money as decimals; one script says "
        "how a value gets from one format to the other. It starts on the same checkpoint, runs the "
        "interrupted batch again and goes on. A value is migrated when one of its events comes; "
        "a backfill moves the others in small chunks. When the old family is empty it is dropped.",
    )


def second_deployment_on_pages() -> Text:
    """The new processor, where many keys are in one page."""
    return (
        "Act 2: the second deployment, migrating",
        "The new processor groups fields into structs and keeps money as decimals; one script says "
        "how a value gets from one format to the other. It starts on the same checkpoint, runs the "
        "interrupted batch again and goes on. It is a batch processor: it gets the events and the "
        "values of many keys of a page as tables. A page is migrated whole when an event of any of "
        "its keys comes; a backfill touches the other pages, some a batch.",
    )


def adoption() -> Text:
    """Making room for the backfill source."""
    return (
        "Between the acts: preparation",
        "The first deployment was plain Spark, and its checkpoint knows of one source. The "
        "backfill is a second one: `statemigrate backfill --prepare` makes room for it in the "
        "offset log of "
        "the stopped query, and keeps the original.",
    )


def retirement() -> Text:
    """The next restart."""
    return (
        "Act 3: an ordinary restart",
        "The same code, started again with the last file. It finds the old family empty in the "
        "committed state, reads it no more and drops it.",
    )


def comparison() -> Text:
    """The check."""
    return (
        "At last: is everything there, once?",
        "Spark SQL computes every key's value again from all events, without any state. The state "
        "of the stream and its last output must be the same, key by key and field by field.",
    )


def first_aggregation(first: int, files: int) -> Text:
    """The old aggregation."""
    return (
        "Act 1: the first deployment, killed",
        "An ordinary aggregation of Spark's: the number, sum and maximum of the bids by auction "
        "and bidder, in the HDFS-backed state store. It gets "
        f"{first} of the {files} files, one a batch. In the middle of a batch every process of it "
        "gets SIGKILL. `statemigrate rewrite` refuses what it left, and says what to do.",
    )


def finishing() -> Text:
    """The same code, to the end of its batch."""
    return (
        "Between the acts: the same code again",
        "It runs the interrupted batch again, and the files that are left. Then it is stopped.",
    )


def rewriting(before: int, after: int) -> Text:
    """The new checkpoint."""
    return (
        "Act 2: a new checkpoint from the old one",
        "The new code has one row an auction, and their mean as a new column. Spark would not "
        "start it on the old checkpoint. A script says the new key, what the mean begins with, "
        "and what two rows make that meet under one key. At the same time "
        f"{before} partitions become {after}, and the state store RocksDB. Then everything is "
        "read again and compared, as by `statemigrate rewrite --verify`.",
    )


def new_aggregation() -> Text:
    """The new aggregation."""
    return (
        "Act 3: the new code on the new checkpoint",
        "It goes on with the next batch and the files that are left, as if it had always been "
        "there. The old checkpoint is as it was.",
    )


def production(files: int) -> Text:
    """A query that runs."""
    return (
        "Act 1: a query in production",
        "An ordinary aggregation of Spark's: the number, sum and maximum of the bids by auction. "
        f"It gets {files} files, one a batch. Its checkpoint says which rows each batch has read.",
    )


def first_try() -> Text:
    """A change with a fault."""
    return (
        "Act 2: a change, previewed before it counts",
        "The new code computes prices with a function for money. It has the same columns, and "
        "Spark would start it without a word. `statemigrate preview` runs old and new code on a "
        "copy of the state and on the rows of the last batches, and compares every key.",
    )


def second_try() -> Text:
    """The same change without it."""
    return (
        "Act 3: the change, corrected",
        "The function counted whole euros, and lost the cents of every bid. State would have kept "
        "the mistake for good. The corrected function is previewed in the same way.",
    )


# What a running demonstration yields, for someone to draw.


@dataclass(frozen=True)
class ActBegun:
    """A part of the story starts: its title, and what happens in it and why it matters."""

    title: str
    explanation: str


@dataclass(frozen=True)
class BatchDone:
    """A batch of one of the deployments is done; ``migrating`` after the first one."""

    batch: BatchOutcome
    migrating: bool


@dataclass(frozen=True)
class Killed:
    """The first deployment was killed."""

    crash: Crash


@dataclass(frozen=True)
class PlainBatchDone:
    """A batch of a query that has nothing to do with migrating is done."""

    batch: BatchOutcome


@dataclass(frozen=True)
class Refused:
    """A rewrite was refused, with an error that says why and what to do."""

    error: StatemigrateError


@dataclass(frozen=True)
class Rewritten:
    """A new checkpoint was made."""

    figures: RewritingFigures


@dataclass(frozen=True)
class Previewed:
    """A change was previewed."""

    change: PreviewedChange


@dataclass(frozen=True)
class Finished:
    """The end, with all figures."""

    figures: Figures | RewriteFigures | PreviewFigures


Step = ActBegun | BatchDone | PlainBatchDone | Killed | Refused | Rewritten | Previewed | Finished
