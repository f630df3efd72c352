"""`rewrite`: a new checkpoint from an old one or from tables, and whether everything is in it.

`fork` copies a checkpoint, as it was after a committed batch, without any change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import (
    Settings,
    chosen_mode,
    named_paths,
    shared_options,
    target_option,
)
from statemigrate.cli.output import print_json, print_sentence, progress_bar
from statemigrate.cli.rewrite_output import (
    described_options,
    lock_option,
    new_code_options,
    plan_or_make,
    print_rewriting,
    print_seeding,
    print_verified,
)

if TYPE_CHECKING:
    from statemigrate.rewrite import Fork

_EPILOG = "Example: statemigrate rewrite checkpoints/orders checkpoints/orders-2 --code jobs:orders"


@click.command(epilog=_EPILOG)
@click.argument("places", nargs=-1, required=True, metavar="[OLD] NEW", callback=named_paths)
@new_code_options
@click.option(
    "--old-code",
    metavar="MODULE:FUNCTION",
    help="The code of OLD, to pair its aggregate functions with the new ones.",
)
@lock_option
@click.option(
    "--accept-new",
    is_flag=True,
    help="Let every new aggregate function begin as in an empty group.",
)
@click.option(
    "--source",
    "sources",
    metavar="OLD=NEW",
    multiple=True,
    help="The new source for an old one, by name or number; OLD=gone for none.",
)
@click.option(
    "--operator",
    "operators",
    metavar="OLD=NEW",
    multiple=True,
    help="The new operator for an old one, by Spark's numbers; OLD=gone for none.",
)
@click.option(
    "--pages",
    metavar="N",
    type=click.IntRange(min=1, max=1_000_000),
    help="Keep the variables of transformWithState in N pages, as `paged` does.",
)
@click.option("--no-pages", is_flag=True, help="Move the state in pages to Spark's own variables.")
@click.option(
    "--paged-operator",
    metavar="WHICH[=NAME]",
    help="With --pages or --no-pages: which transformWithState, by Spark's number or by its name, "
    "and the name that `paged(operator=)` gets.",
)
@described_options
@click.option(
    "--from-tables",
    "tables",
    metavar="[STORE=]TABLE",
    multiple=True,
    help="Make NEW with state from a folder or file of Parquet or JSON, which has the keys and "
    "values of a store; may be repeated.",
)
@click.option(
    "--revision",
    "revisions",
    metavar="[STORE=]REVISION",
    multiple=True,
    help="With --from-tables: revision of a table, whose store's scripts migrate it to the head.",
)
@click.option("--verify", is_flag=True, help="Compare NEW, which was made by a rewrite, with OLD.")
@target_option
@shared_options()
@click.pass_obj
def rewrite(
    settings: Settings,
    /,
    places: tuple[str, ...],
    targets: dict[str, str],
    tables: tuple[str, ...],
    revisions: tuple[str, ...],
    verify: bool,
    **given: Any,
) -> None:
    """Make the checkpoint NEW from OLD, for code with other state.

    Without --apply, the command only shows its plan for every operator and its questions. The exit
    code is 1 while a question is open. It only reads OLD: to go back, start the old code on it.
    Stop the query first. NEW is a directory that does not exist yet.

    The command finds out the new state by running the code on empty streams (--code), or from a
    checkpoint that the code made elsewhere (--like). Without either, the state stays the same, for
    example for another number of partitions, pages (--pages, --no-pages) or another state store.
    Only the old code (--old-code), or you, can tell which aggregate functions wrote the old state.

    --from-tables makes the checkpoint of a query that has not run, so it takes no OLD. The query
    starts there as if it had run two batches. A column goes into the field of state with the same
    name; use --take STORE.FIELD=COLUMN if the names differ.

    --verify reads every row of both checkpoints through Spark, as of the batch of the rewrite, and
    compares counts and checksums with those that the rewrite recorded. Then it makes the new rows
    again from the old ones, with the same scripts, and compares them, too. The new query may have
    continued, as long as Spark keeps the state of that batch. Exit code 1 if anything differs. The
    default for OLD is the checkpoint that the rewrite recorded.
    """
    described = ("partitions", "provider", "conf", "offsets", "taken", "watermark", "accept")
    code = ("code", "inputs", "mode", "like")
    usual = ("places", "targets", *code, *described, "start", "take", "apply")
    own = ("old_code", "lock", "accept_new", "sources", "operators", "pages", "no_pages")
    chosen_mode(
        {"verify": ("places",), "tables": (*usual, "revisions")}, (*usual, *own, "paged_operator")
    )
    if verify:
        _verify(settings, places)
        return
    if tables:
        if len(places) != 1:
            raise click.UsageError("--from-tables takes NEW alone: there is no old checkpoint.")
        _make_from_tables(settings, places[0], tables, revisions, targets, given)
        return
    if len(places) != 2:
        raise click.UsageError("Name two checkpoints: OLD, which there is, and NEW, to make.")
    old, new = places
    from statemigrate.commands.rewrite import rewrite as rewrite_checkpoint

    make = partial(rewrite_checkpoint, old, new, targets=targets)
    plan_or_make(make, settings, given, print_rewriting)


def _verify(settings: Settings, places: tuple[str, ...]) -> None:
    if len(places) > 2:
        raise click.UsageError("--verify takes OLD and NEW, or NEW alone.")
    old, new = (None, places[0]) if len(places) == 1 else places
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.rewrite import verify as compare

    with spark_when_needed() as spark:
        found = compare(old, new, migrations=settings.migrations, spark=spark)
    if settings.json:
        parts = ("fine", "problems", "untried", "covered", "not_covered")
        texts = {name: getattr(found, name) for name in parts}
        print_json({**texts, "report": found.report.to_json()})
    else:
        print_verified(found)
    if found.problems:
        click.get_current_context().exit(1)


def _make_from_tables(
    settings: Settings,
    new: str,
    tables: tuple[str, ...],
    revisions: tuple[str, ...],
    targets: dict[str, str],
    given: dict[str, Any],
) -> None:
    from statemigrate.commands.seed import seed as make_seeded

    make = partial(
        make_seeded, new, _tables(tables), targets=targets, revisions=_revisions(revisions)
    )
    plan_or_make(make, settings, given, print_seeding)


def _revisions(given: tuple[str, ...]) -> dict[str, str]:
    """By store; without a name of the only one."""
    found: dict[str, str] = {}
    for each in given:
        store, _, revision = each.rpartition("=")
        if not revision or store in found:
            raise click.UsageError("--revision takes STORE=REVISION, each store once.")
        found[store] = revision
    return found


def _tables(given: tuple[str, ...]) -> dict[str, str]:
    """By store; without a name for the only one. A path may have an equals sign after a slash."""
    found: dict[str, str] = {}
    for each in given:
        store, equals, place = each.partition("=")
        if not equals or "/" in store:
            store, place = "", each
        if not place or store in found:
            raise click.UsageError("--from-tables takes STORE=TABLE, each store once.")
        found[store] = place
    return found


@click.command(epilog="Example: statemigrate fork /data/checkpoints/orders /backup/orders-11-22")
@click.argument("old", callback=named_paths)
@click.argument("new", callback=named_paths)
@click.option(
    "--at-batch",
    type=click.IntRange(min=0),
    metavar="N",
    help="The batch to copy, if Spark still keeps it.  [default: the last committed one]",
)
@click.option("--new-id", is_flag=True, help="Give the new query an id of its own.")
@click.option(
    "--without-state",
    is_flag=True,
    help="Confirm that the query has no state, and so no folder `state`.",
)
@shared_options()
@click.pass_obj
def fork(settings: Settings, /, old: str, new: str, **given: Any) -> None:
    """Copy the checkpoint OLD, as it was after a committed batch, to NEW.

    Use the copy as a backup, for staging, or to try a change on real state: the query continues in
    NEW from that batch, as it would have in OLD. The command copies files and never decodes them.
    Both places are paths or URIs of any file system that Spark reaches. The command only reads OLD,
    and its query may be running.

    The copy keeps the query id, so sinks that remember the batches of a query, such as Delta's,
    treat both as the same query. If both continue and write to the same such sink, use --new-id.
    """
    from statemigrate.rewrite import fork as fork_checkpoint

    with progress_bar(f"Copying {old}", shown=not settings.json) as progress:
        done = fork_checkpoint(old, new, **given, progress=progress)
    if settings.json:
        print_json(asdict(done))
        return
    for line in _lines(done):
        print_sentence(line)


def _lines(done: Fork) -> Iterator[str]:
    yield f"{done.new} has the state after batch {done.batch}"
    yield f"  {done.files:,} files, {done.bytes:,} bytes; query {done.query_id}"
    if done.uncommitted is not None:
        yield f"  batch {done.uncommitted}, which {done.old} has begun, is not in it"
    for each in done.left:
        yield f"  not carried over: {each}"
    yield "Next: start the query there; never two that write to one sink under one query id"
