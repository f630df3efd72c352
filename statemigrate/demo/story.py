"""The words of the demonstration: the title of each act, and what happens in it and why."""

from __future__ import annotations

from statemigrate.demo.stage.options import DemoOptions

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


def adoption() -> Text:
    """Making room for the control source."""
    return (
        "Between the acts: adoption",
        "The first deployment was plain Spark, and its checkpoint knows of one source. The "
        "backfill is a second one: `statemigrate adopt` makes room for it in the offset log of "
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
        "Spark SQL computes every key's value anew from all events, without any state. The state "
        "of the stream and its last output must be the same, key by key and field by field.",
    )
