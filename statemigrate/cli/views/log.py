"""How `current` and `log` look."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from statemigrate.cli.output import console, print_rows, print_sentence
from statemigrate.commands.following.current import Current, CurrentOf, CurrentStore
from statemigrate.commands.following.log import Log, LogEntry
from statemigrate.logbook.events import STEP

_COMMIT = re.compile(r"([0-9a-f]{10})[0-9a-f]{30}(-dirty)?")
_BEGINS = "Nothing is logged yet: the log begins with the query's next start, or command on it."


def print_current(found: Current) -> None:
    """Print a line a store, and what the log does not know."""
    print_sentence(f"{found.checkpoint}: {found.engine}, batch {found.batch}")
    _print_stores(found)


def print_currents(found: Iterable[CurrentOf]) -> None:
    """Print all checkpoints, one after the other, and what is wrong with one in its place."""
    for number, each in enumerate(found):
        if number:
            console().print()
        if each.current is None:
            print_sentence(
                f": {each.error}", mark=each.checkpoint.name, style="bold red", lines=True
            )
            continue
        said = f": {each.current.engine}, batch {each.current.batch}"
        print_sentence(said, mark=each.checkpoint.name, style="bold cyan")
        _print_stores(each.current)


def _print_stores(found: Current) -> None:
    columns = ("store", "revision", "since (UTC)", "code", "older", "message")
    print_rows(columns, [_row(each) for each in found.stores])
    for each in found.stores:
        if each.differs:
            print_sentence(
                f": the log says {each.noted}, and the state is at {each.revision}, which counts. "
                "A release that keeps no log has run; the next start adds what it did.",
                mark=each.store,
                style="bold yellow",
            )
    if any(each.noted is None for each in found.stores):
        known = found.log.since
        print_sentence(_BEGINS if known is None else f"The log begins at {moment(known)}Z.")
    _print_damaged(found.log)


def _row(store: CurrentStore) -> tuple[str, ...]:
    return (
        store.store,
        f"{store.revision}{' (head)' if store.is_head else ''}",
        "-" if store.since is None else moment(store.since),
        short(store.code),
        ", ".join(store.older) or "-",
        store.message or "-",
    )


def print_log(found: Log) -> None:
    """Print the entries, newest first."""
    if found.entries:
        columns = ("time (UTC)", "batch", "what", "code", "by")
        print_rows(columns, [_entry(each) for each in found.entries])
    else:
        print_sentence(_BEGINS)
    _print_damaged(found)


def _print_damaged(found: Log) -> None:
    for error in found.damaged:
        print_sentence(f" {error}", mark="Damaged:", style="bold red", lines=True)


def _entry(entry: LogEntry) -> tuple[str, ...]:
    return moment(entry.time), str(entry.batch), _what(entry), short(entry.code), entry.by


def _what(entry: LogEntry) -> str:
    details = ", ".join(f"{name} {text}" for name, text in entry.details.items() if name != STEP)
    done = f"{entry.verb} {entry.details.get(STEP, '')}".rstrip()
    parts = [done if entry.store is None else _store(entry), details, _outcome(entry)]
    return "; ".join(part for part in parts if part)


def _store(entry: LogEntry) -> str:
    change = {
        "first": f"at {entry.revision}",
        "none": f"stays at {entry.revision}",
        "other": f"{entry.before} -> {entry.revision}",
    }.get(entry.change or "", f"{entry.change} {entry.before} -> {entry.revision}")
    older = len(entry.families) - 1
    beside = f", {older} older {'family' if older == 1 else 'families'}" if older > 0 else ""
    return f"{entry.verb}: {entry.store} {change}{beside}"


def _outcome(entry: LogEntry) -> str:
    return {
        "done": "",
        "no batch yet": "no batch is committed yet",
        "no batch": "no batch was committed with it",
        "unknown": "whether a batch was committed with it is not known",
    }[entry.outcome]


def moment(text: str) -> str:
    """A time of the log to the second, in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def short(code: str | None) -> str:
    """A version of the code, a commit as git shortens it."""
    if code is None:
        return "-"
    commit = _COMMIT.fullmatch(code)
    return code if commit is None else f"{commit[1]}{commit[2] or ''}"
