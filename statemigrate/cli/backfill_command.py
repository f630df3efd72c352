"""`backfill`: prepares, plans and pauses; on a stopped query of the embedded engine does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import (
    Settings,
    accept_edited_option,
    apply_option,
    checkpoint_named,
    chosen_mode,
    operator_option,
    shared_options,
    stopped_option,
    target_option,
    wait_option,
)
from statemigrate.cli.output import (
    console,
    message_when_interrupted,
    print_json,
    print_line,
    print_rows,
)
from statemigrate.quoting import argument, visible

if TYPE_CHECKING:
    from statemigrate.commands.backfill import Retirement
    from statemigrate.commands.fleet import Progress
    from statemigrate.embedded import StoppedBackfill
    from statemigrate.native import BackfillPlan, FileChange, Preparation


# `backfill --prepare`: makes room in an existing query's checkpoint for the backfill's source.


_CHECKSUMS = {
    "removed": "; remove its checksum file",
    "restored": "; restore its checksum file",
    "none": "",
}


def _prepare(
    settings: Settings,
    checkpoint: str,
    *,
    apply: bool,
    undo: bool,
    declared: tuple[str, ...],
    stopped: bool,
    wait: float,
) -> None:
    """Add the backfill's source to the checkpoint, or remove it again, and print what was done."""
    if declared and not undo:
        raise click.UsageError("--declared is for --undo.")
    if apply and wait > 1 and not settings.json:
        console(stderr=True).print(f"Watching {checkpoint} for {wait:g} seconds")
    done = _done(checkpoint, undo, declared, apply=apply, stopped=stopped, wait=wait)
    if settings.json:
        print_json(asdict(done))
        return
    screen = console()
    for line in _lines(done):
        screen.print(line)


def _done(checkpoint: str, undo: bool, declared: tuple[str, ...], **options: Any) -> Preparation:
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.adopt import adopt as adopt_query
    from statemigrate.commands.adopt import undo_adoption

    if not undo:
        return adopt_query(checkpoint, **options)
    with spark_when_needed() as spark:
        return undo_adoption(checkpoint, declared=declared, spark=spark, **options)


def _lines(done: Preparation) -> Iterator[str]:
    if done.state == "nothing needed":
        yield f"Nothing to do: the offset log of {done.checkpoint} keeps its sources by name"
        yield (
            "Next: start the query with stateful or with_backfill; without them only while "
            f"`statemigrate backfill {argument(done.checkpoint)} --prepare --undo` does not refuse "
            "that"
        )
        return
    yield f"{_HEADS[done.state]} {done.checkpoint}"
    if done.state not in ("would relocate", "relocated"):
        yield f"  sources without it: {done.sources}"
    for path in done.relocated:
        yield f"  {path}: name this place instead of {', '.join(done.moved_from)}"
    for file in done.files:
        yield f"  {file.path}: {_change(file)}"
    if done.moved is not None:
        yield f"  {done.moved}: move it to the originals"
    yield f"  originals are kept in {done.backup}"
    yield f"Next: {_next(done)}"
    if done.state == "prepared":
        yield (
            "An older release, which has no backfill source, starts again only after "
            f"`statemigrate backfill {argument(done.checkpoint)} --prepare --undo --apply`; once "
            "values are migrated, after "
            f"`statemigrate rollback {argument(done.checkpoint)} --to base --undo`"
        )


def _next(done: Preparation) -> str:
    if not done.uncommitted:
        return _NEXT[done.state].format(argument(done.checkpoint))
    undo = " --undo" if done.state == "would undo" else ""
    return (
        "stop the query, and wait until its process has ended; then "
        f"`statemigrate backfill {argument(done.checkpoint)} --prepare{undo} --apply "
        "--stopped`, as its newest batch is not committed"
    )


def _change(file: FileChange) -> str:
    lines = [f"add the line {line}" for line in file.added]
    lines += [f"remove the last line {line}" for line in file.removed]
    return ", ".join(lines) + _CHECKSUMS[file.checksum]


_HEADS = {
    "would prepare": "Dry run: would make room for the backfill source in",
    "prepared": "Made room for the backfill source in",
    "would relocate": "Dry run: would make it name its own files, since it was moved to",
    "relocated": "Made it name its own files, since it was moved to",
    "would undo": "Dry run: would take the backfill source out of",
    "undone": "Took the backfill source out of",
}
_NEXT = {
    "would prepare": "stop the query, then `statemigrate backfill {} --prepare --apply`",
    "prepared": "start the query with its operator declared by stateful, or with with_backfill "
    "around its stream",
    "would relocate": "stop the query, then `statemigrate backfill {} --prepare --apply`",
    "relocated": "start the query here; never together with one on the place it was copied from",
    "would undo": "stop the query, then `statemigrate backfill {} --prepare --undo --apply`",
    "undone": "start the query without the backfill source",
}


@click.command(epilog="Example: statemigrate backfill /data/checkpoint --share 0.25")
@checkpoint_named
@click.option(
    "--keys-per-chunk",
    type=click.IntRange(min=1),
    show_default="10000",
    help="About how many keys each batch migrates (Spark's own state).",
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="The share of a batch's time for the backfill, in place of a number of keys.",
)
@click.option(
    "--keys-per-second",
    type=click.FloatRange(0, min_open=True),
    help="At most so many keys a second, within --share, or half of the time.",
)
@target_option
@accept_edited_option
@click.option("--pause", is_flag=True, help="Withdraw the chunks that have not migrated yet.")
@click.option(
    "--on-error",
    type=click.Choice(["raise", "quarantine"]),
    default="raise",
    show_default=True,
    help="What happens if a value does not migrate (embedded engine).",
)
@click.option(
    "--prepare",
    is_flag=True,
    help="Make room in the checkpoint of an existing query for the backfill's source.",
)
@click.option("--undo", is_flag=True, help="With --prepare: remove that source again.")
@click.option(
    "--declared",
    multiple=True,
    metavar="FAMILY",
    help="With --undo: a newer family that the next code declares; may be repeated.",
)
@apply_option
@stopped_option
@wait_option("With --apply: ")
@click.option("--retire", is_flag=True, help="Drop the empty older families of a stopped query.")
@click.option(
    "--complement",
    is_flag=True,
    help="With --retire: give up what scripts have left out of values (embedded engine).",
)
@operator_option
@shared_options()
@click.pass_obj
def backfill(  # noqa: PLR0913 - one parameter an option
    settings: Settings,
    /,
    *,
    checkpoint: str,
    targets: Mapping[str, str],
    accept_edited: tuple[str, ...],
    pause: bool,
    prepare: bool,
    undo: bool,
    declared: tuple[str, ...],
    apply: bool,
    stopped: bool,
    wait: float,
    retire: bool,
    complement: bool,
    **options: Any,
) -> None:
    """Migrate the values that no live row touches.

    On Spark's own state, the command plans the backfill of the query of CHECKPOINT. It writes every
    key that has values in an older family to files. The query, running or started later, migrates
    them, one chunk in each batch. With --share or --keys-per-second, the size of a chunk follows
    from earlier batches. The query needs an operator that `stateful` declares, or `with_backfill`
    around its stream. You may plan again at any time; this resumes a paused backfill.

    On the embedded engine, a running query backfills by itself. There, the command migrates
    everything while the query is stopped. If it is interrupted, run it again to continue.

    --prepare is for a query on Spark's own state that has run without the backfill's source. Such a
    source is the last one of the query. The command adds it to the checkpoint's offset log, and
    keeps a copy of what it changes. The next start must have the source. A query that has had it
    from the first start does not need this, nor does one with named sources. If the checkpoint was
    moved or copied, the command also changes the absolute paths that Spark has written into it.
    Stop the query first: Spark keeps no lock, and a query that waits for input looks like a stopped
    one. Without --apply the command changes nothing. --undo removes the source again. It fails
    while a family other than its store's oldest has values, because Spark would forget them;
    migrate them back with `statemigrate rollback` first.

    --retire reads the committed state again and drops the families that are empty, as a query does
    at its next start. On Spark's own state only the query can drop families, and the command shows
    those that it will drop. Exit code 1 if a family still has values. With --complement it also
    drops what `migrated(complement=True)` keeps of values for a rollback.
    """
    chosen_mode(
        {
            "prepare": ("checkpoint", "place", "undo", "declared", "apply", "stopped", "wait"),
            "retire": (
                *("checkpoint", "place", "targets", "accept_edited", "operator", "complement"),
            ),
            "pause": ("checkpoint", "place", "operator"),
        },
        ("checkpoint", "place", "operator", "targets", "accept_edited", *options),
    )
    if prepare:
        _prepare(
            settings,
            checkpoint,
            apply=apply,
            undo=undo,
            declared=declared,
            stopped=stopped,
            wait=wait,
        )
        return
    if retire:
        _retire(
            settings,
            checkpoint,
            targets=targets,
            accept_edited=accept_edited,
            complement=complement,
        )
        return
    paced = options["share"] is not None or options["keys_per_second"] is not None
    if paced and options["keys_per_chunk"] is not None:
        raise click.UsageError("--keys-per-chunk excludes --share and --keys-per-second.")
    from statemigrate.state import is_embedded

    if pause and is_embedded(checkpoint):
        raise click.UsageError(
            f"See `statemigrate status --checkpoint {argument(checkpoint)}`: on the embedded "
            "engine there is no plan to pause."
        )
    if pause:
        _pause(settings, checkpoint)
    else:
        _run(settings, checkpoint, targets=targets, accept_edited=accept_edited, **options)


def _run(settings: Settings, checkpoint: str, **options: Any) -> None:
    from statemigrate.cli.output import progress_bar
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.verbs import backfill as migrate
    from statemigrate.embedded import StoppedBackfill
    from statemigrate.state import is_embedded

    bar = progress_bar("values", shown=not settings.json)
    far = _Far(is_embedded(checkpoint))
    with message_when_interrupted(far.text), spark_when_needed() as spark, bar as move:
        done = migrate(checkpoint, progress=far.after(move), **settings.of_one(spark, **options))
    if settings.json:
        print_json(asdict(done))
    elif isinstance(done, StoppedBackfill):
        _print_done(done, checkpoint)
    else:
        _print_plan(done, checkpoint, settings.words(checkpoint))


class _Far:
    """How far a backfill is, for a user who ends it with Ctrl-C."""

    def __init__(self, is_embedded: bool) -> None:
        self._is_embedded = is_embedded
        self._done: tuple[int, int | None] = (0, None)

    def after(self, move: Progress) -> Progress:
        def note(done: int, total: int | None) -> None:
            self._done = (done, total)
            move(done, total)

        return note

    def text(self) -> str:
        if not self._is_embedded:
            return "Values migrate in the query alone; the same command plans their backfill again."
        done, total = self._done
        if total is None:
            return "Nothing was migrated by it yet; the same command begins again."
        return (
            f"{done:,} of about {total:,} values were migrated, and stay so; the same command goes "
            "on from there."
        )


def _print_done(done: StoppedBackfill, checkpoint: str) -> None:
    print_line(f"Migrated {done.migrated:,} values; {sum(done.left.values()):,} are left.")
    if done.quarantined:
        print_line(f"{done.quarantined:,} failed, and stay as they were.")
        print_line(f"Next: statemigrate status {argument(checkpoint)} --failed STORE")
    else:
        print_line("Next: start the query; what is empty leaves the read path and is dropped.")


def _print_plan(plan: BackfillPlan, checkpoint: str, words: str) -> None:
    from statemigrate.commands.status import running

    screen = console()
    if plan.withdrawn:
        screen.print(f"Withdrew {_chunks(plan.withdrawn)} of the plan before.")
    if not plan.keys:
        screen.print("Nothing to migrate: no key has values in an older family.")
        return
    _print_families(plan.families, plan.pages)
    chunks = f"in {_chunks(plan.chunks)}" if plan.chunks else "in chunks as large as fits"
    screen.print(f"Planned {_counted(plan.keys, plan.pages)} {chunks}, one a batch.")
    run = running(checkpoint, pages=plan.pages is not None)
    screen.print(f"Next: {run}; statemigrate status {words} --watch follows")


def _pause(settings: Settings, checkpoint: str) -> None:
    from statemigrate.commands.backfill import pause_backfill

    withdrawn = pause_backfill(checkpoint, operator=settings.operator)
    if settings.json:
        print_json({"withdrawn": withdrawn})
        return
    console().print(f"Withdrew {_chunks(withdrawn)}; live rows go on migrating what they touch.")
    console().print(f"Next: statemigrate backfill {settings.words(checkpoint)} resumes.")


def _retire(settings: Settings, checkpoint: str, **options: Any) -> None:
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.backfill import retire as drop

    with spark_when_needed() as spark:
        found = drop(checkpoint, **settings.of_one(spark, **options))
    if settings.json:
        print_json(asdict(found))
    else:
        _print_retirement(found, settings.words(checkpoint))
    if found.kept:
        click.get_current_context().exit(1)


def _print_retirement(found: Retirement, words: str) -> None:
    for name in found.dropped:
        print_line(f"Dropped {visible(name)}: it was empty")
    for name in found.complements:
        print_line(f"Dropped {visible(name)}: a rollback does not bring it back now")
    for name in found.later:
        print_line(
            f"{visible(name)} is empty: the first batch after the query's next start drops it"
        )
    for name, values in found.kept.items():
        print_line(f"Kept {visible(name)}: it holds {values:,} values")
    if found.kept:
        print_line(f"Next: statemigrate status --checkpoint {words}")
    elif not (found.dropped or found.later or found.complements):
        print_line("Nothing to drop: every store has one family")


def _chunks(number: int) -> str:
    return f"{number:,} chunk" if number == 1 else f"{number:,} chunks"


def _counted(keys: int, pages: int | None) -> str:
    place = "" if pages is None else f" in {pages:,} {'page' if pages == 1 else 'pages'}"
    return f"{keys:,} {_name(pages)}{place}"


def _name(pages: int | None) -> str:
    return "keys" if pages is None else "entries"


def _print_families(families: Mapping[str, int], pages: int | None) -> None:
    if families:
        rows = [(name, f"{keys:,}") for name, keys in families.items()]
        print_rows(("family", _name(pages)), rows)
