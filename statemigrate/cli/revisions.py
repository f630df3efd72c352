"""`status --revisions` and `history --checkpoint`: what the log of a checkpoint has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import click

from statemigrate.cli.options import Settings, configuration, named_by
from statemigrate.cli.output import print_found, print_parts, print_rows, print_sentence
from statemigrate.cli.watching import unread_parts
from statemigrate.commands.current import Current, CurrentOf, CurrentStore, Log, LogEntry, LogOf
from statemigrate.configuration import NamedCheckpoint
from statemigrate.event_log import STEP

_COMMIT = re.compile(r"([0-9a-f]{10})[0-9a-f]{30}(-dirty)?")
_BEGINS = "Nothing is logged yet: the log begins with the query's next start, or command on it."


def print_current(found: Current) -> None:
    """Print a line a store, and what the log does not know."""
    operator = f", operator {found.operator}" if found.operator else ""
    print_sentence(f"{found.checkpoint}: {found.engine}, batch {found.batch}{operator}")
    _print_stores(found)


def print_currents(found: Sequence[CurrentOf]) -> None:
    """Print a line for each store of all checkpoints, and below what is wrong with which."""
    read = [(each.checkpoint.name, each.current) for each in found if each.current is not None]
    columns = ("checkpoint", "store", "revision", "since (UTC)", "code", "older", "message")
    print_rows(
        columns,
        [
            (name, *_row(store, current.operator))
            for name, current in read
            for store in current.stores
        ],
    )
    for name, current in read:
        for store in current.stores:
            if store.differs:
                print_sentence(
                    _differing(store), mark=f"{name}, {store.store}", style="bold yellow"
                )
        _print_damaged(current.log, name)
    print_parts(unread_parts((e.checkpoint.name, e.error) for e in found if e.error is not None))


def print_logs(found: Sequence[LogOf], limit: int | None) -> None:
    """Print the entries of all checkpoints, the newest ``limit`` of them, newest first."""
    read = [(each.checkpoint.name, each.log) for each in found if each.log is not None]
    entries = [(name, entry) for name, log in read for entry in log.entries]
    entries.sort(key=lambda each: datetime.fromisoformat(each[1].time), reverse=True)
    if entries:
        columns = ("time (UTC)", "checkpoint", "batch", "what", "code", "by")
        rows = ((name, _entry(entry)) for name, entry in entries[:limit])
        print_rows(columns, [(cells[0], name, *cells[1:]) for name, cells in rows])
    else:
        print_sentence(_BEGINS)
    for name, log in read:
        _print_damaged(log, name)
    print_parts(unread_parts((e.checkpoint.name, e.error) for e in found if e.error is not None))


def _print_stores(found: Current) -> None:
    columns = ("store", "revision", "since (UTC)", "code", "older", "message")
    print_rows(columns, [_row(each) for each in found.stores])
    for each in found.stores:
        if each.differs:
            print_sentence(_differing(each), mark=each.store, style="bold yellow")
    if any(each.noted is None for each in found.stores):
        known = found.log.since
        print_sentence(_BEGINS if known is None else f"The log begins at {utc_time(known)}Z.")
    _print_damaged(found.log)


def _differing(store: CurrentStore) -> str:
    return (
        f": the log says {store.noted}, and the state is at {store.revision}, which counts. "
        "A release that keeps no log has run; the next start adds what it did."
    )


def _row(store: CurrentStore, operator: str | None = None) -> tuple[str, ...]:
    return (
        _of(store.store, operator),
        f"{store.revision}{' (head)' if store.is_head else ''}",
        "-" if store.since is None else utc_time(store.since),
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


def _print_damaged(found: Log, name: str | None = None) -> None:
    mark = "Damaged:" if name is None else f"{name}, damaged:"
    for error in found.damaged:
        print_sentence(f" {error}", mark=mark, style="bold red", lines=True)


def _entry(entry: LogEntry) -> tuple[str, ...]:
    return utc_time(entry.time), str(entry.batch), _what(entry), short(entry.code), entry.by


_SHOWN = {"adopt": "prepare", "undo adopt": "undo prepare"}
"""What commands are called now whose verbs logs have had from the first."""


def _what(entry: LogEntry) -> str:
    details = ", ".join(f"{name} {text}" for name, text in entry.details.items() if name != STEP)
    done = f"{_SHOWN.get(entry.verb, entry.verb)} {entry.details.get(STEP, '')}".rstrip()
    done = _of(done, entry.operator)
    parts = [done if entry.store is None else _store(entry), details, _outcome(entry)]
    return "; ".join(part for part in parts if part)


def _store(entry: LogEntry) -> str:
    change = {
        "first": f"at {entry.revision}",
        "none": f"stays at {entry.revision}",
        "other": f"{entry.before} -> {entry.revision}",
    }.get(entry.change or "", f"{entry.change} {entry.before} -> {entry.revision}")
    older = len(entry.families) - 1
    older_text = f", {older} older {'family' if older == 1 else 'families'}" if older > 0 else ""
    return f"{entry.verb}: {_of(str(entry.store), entry.operator)} {change}{older_text}"


def _of(what: str, operator: str | None) -> str:
    """A store, or what was done, with the operator's name where it has one."""
    return f"{what} of operator {operator}" if operator else what


def _outcome(entry: LogEntry) -> str:
    return {
        "done": "",
        "no batch yet": "no batch is committed yet",
        "no batch": "no batch was committed with it",
        "unknown": "whether a batch was committed with it is not known",
    }[entry.outcome]


def utc_time(text: str) -> str:
    """A time of the log to the second, in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def short(code: str | None) -> str:
    """A version of the code, a commit as git shortens it."""
    if code is None:
        return "-"
    commit = _COMMIT.fullmatch(code)
    return code if commit is None else f"{commit[1]}{commit[2] or ''}"


# What is applied where, since when, and by which version of the code.


def show_revisions(
    settings: Settings,
    checkpoint: str,
    targets: dict[str, str],
    match: str | None,
    *,
    every: bool,
    check_heads: bool,
) -> None:
    """Print the revision of each store; exit code 1 for one that cannot be read."""
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.current import current_of_all
    from statemigrate.commands.verbs import status as look

    with spark_when_needed() as spark:
        if not every:
            stores = configuration().stores
            found = look(
                checkpoint,
                revisions=True,
                **settings.of_one(spark, targets=targets, stores=stores),
            )
            print_found(settings, found, print_current)
            if check_heads and not found.is_current:
                click.get_current_context().exit(1)
            return
        all_found = current_of_all(named_by(match), **settings.of_all(spark, targets=targets))
    print_found(settings, all_found, print_currents)
    is_current = all(each.current is not None and each.current.is_current for each in all_found)
    if any(each.error for each in all_found) or (check_heads and not is_current):
        click.get_current_context().exit(1)


def show_log(settings: Settings, checkpoint: str, limit: int | None) -> None:
    """Print the log of a checkpoint; exit code 1 if part of it is damaged."""
    from statemigrate.commands.current import log as read

    found = read(checkpoint, limit=limit)
    print_found(settings, found, print_log)
    if found.damaged:
        click.get_current_context().exit(1)


def show_logs(
    settings: Settings, checkpoints: tuple[NamedCheckpoint, ...], limit: int | None
) -> None:
    """Print the logs of several checkpoints as one; exit code 1 if one cannot be read."""
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.current import log_of_all

    with spark_when_needed():
        found = log_of_all(checkpoints, limit=limit)
    print_found(settings, found, partial(print_logs, limit=limit))
    if any(each.log is None or each.log.damaged for each in found):
        click.get_current_context().exit(1)
