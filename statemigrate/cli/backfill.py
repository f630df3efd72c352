"""`backfill`: on Spark's own state plans, pauses, follows; on a stopped embedded query does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import (
    Settings,
    accept_edited_option,
    checkpoint_named,
    operator_option,
    shared_options,
    target_option,
)
from statemigrate.cli.output import (
    console,
    message_when_interrupted,
    print_json,
    print_line,
    print_rows,
)
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from statemigrate.commands.fleet import Progress
    from statemigrate.embedded.offline import StoppedBackfill
    from statemigrate.native.backfill import BackfillPlan
    from statemigrate.native.backfill_progress import BackfillStatus


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
@click.option("--status", is_flag=True, help="Only show the progress of the backfill.")
@click.option(
    "--on-error",
    type=click.Choice(["raise", "quarantine"]),
    default="raise",
    show_default=True,
    help="What happens if a value does not migrate (embedded engine).",
)
@operator_option
@shared_options()
@click.pass_obj
def backfill(
    settings: Settings,
    /,
    *,
    checkpoint: str,
    targets: Mapping[str, str],
    pause: bool,
    status: bool,
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
    """
    if pause and status:
        raise click.UsageError("--pause and --status exclude each other.")
    paced = options["share"] is not None or options["keys_per_second"] is not None
    if paced and options["keys_per_chunk"] is not None:
        raise click.UsageError("--keys-per-chunk excludes --share and --keys-per-second.")
    from statemigrate.state.open import is_embedded

    if (pause or status) and is_embedded(checkpoint):
        raise click.UsageError(
            f"See `statemigrate status --checkpoint {argument(checkpoint)}`: on the embedded "
            "engine there is "
            "no plan to pause or to follow."
        )
    if pause:
        _pause(settings, checkpoint)
    elif status:
        _status(settings, checkpoint, targets)
    else:
        _run(settings, checkpoint, targets=targets, **options)


def _run(settings: Settings, checkpoint: str, **options: Any) -> None:
    from statemigrate.cli.output import progress_bar
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.verbs import backfill as migrate
    from statemigrate.embedded.offline import StoppedBackfill
    from statemigrate.state.open import is_embedded

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
        print_line(f"{done.quarantined:,} are quarantined: their transforms failed.")
        print_line(f"Next: statemigrate quarantine STORE --checkpoint {argument(checkpoint)}")
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
    screen.print(f"Next: {run}; statemigrate backfill {words} --status follows")


def _pause(settings: Settings, checkpoint: str) -> None:
    from statemigrate.commands.backfill import pause_backfill

    withdrawn = pause_backfill(checkpoint, operator=settings.operator)
    if settings.json:
        print_json({"withdrawn": withdrawn})
        return
    console().print(f"Withdrew {_chunks(withdrawn)}; live rows go on migrating what they touch.")
    console().print(f"Next: statemigrate backfill {settings.words(checkpoint)} resumes.")


def _status(settings: Settings, checkpoint: str, targets: Mapping[str, str]) -> None:
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.backfill import backfill_status

    with spark_when_needed() as spark:
        status = backfill_status(checkpoint, **settings.of_one(spark, targets=targets))
    if settings.json:
        counted = {"is_finished": status.is_finished, "quarantined": status.quarantined}
        print_json({**asdict(status), **counted})
    else:
        _print_status(status, checkpoint, settings.words(checkpoint))


def _print_status(status: BackfillStatus, checkpoint: str, words: str) -> None:
    from statemigrate.commands.status import running

    screen = console()
    _print_families(status.families, status.pages_left)
    name = _name(status.pages_left)
    left = _counted(status.keys_left, status.pages_left)
    screen.print(f"{left} are left in older families.")
    if status.chunks:
        screen.print(
            f"{status.consumed:,} of {_chunks(status.chunks)} processed, planned for "
            f"{status.keys_planned:,} {name}."
        )
    if status.keys_uncut:
        screen.print(
            f"{status.keys_uncut:,} {name} are in no chunk yet; the running query cuts them."
        )
    if status.quarantined:
        screen.print(f"{status.quarantined:,} {name} are quarantined: their transforms failed.")
        screen.print(
            f"Next: statemigrate quarantine STORE --checkpoint {words} shows why; correct the "
            "scripts, deploy with accept_edited, and plan again."
        )
    elif status.keys_left and not status.is_under_way:
        if status.chunks:
            screen.print(f"{', '.join(status.unplanned)}: not in that plan.")
        screen.print(f"Next: statemigrate backfill {words}")
    elif status.keys_left:
        run = running(checkpoint, pages=status.pages_left is not None)
        screen.print(f"Next: {run}.")
    elif status.families:
        screen.print("Next: restart the query: what is empty leaves the read path and is dropped.")


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
