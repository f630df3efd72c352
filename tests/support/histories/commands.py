"""The input of a query: for each key the commands that its processor carries out."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Verb = Literal["put", "append", "read", "bump", "delete", "clear"]


class Command(NamedTuple):
    """What is done to a store: ``seeds`` are of the values written, ``user_key`` is a map's.

    A ``bump`` reads a value (a list: its first element) and writes it counted up, if there is one.
    """

    store: str
    verb: Verb
    seeds: tuple[int, ...] = ()
    user_key: int = 0


Batch = dict[int, list[Command]]
"""A micro-batch: commands by grouping key."""


def to_json(batch: Batch) -> Any:
    return [[key, commands] for key, commands in sorted(batch.items())]


def from_json(document: Any) -> Batch:
    return {
        key: [Command(store, verb, tuple(seeds), user_key) for store, verb, seeds, user_key in rows]
        for key, rows in document
    }
